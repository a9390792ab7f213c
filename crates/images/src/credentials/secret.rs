//! Secrets, and the `Authorization` headers that carry them.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;

/// A secret text. `Debug` masks it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// The credentials for a registry: a password, a token, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// `USER:PASSWORD` in base64, as the `Authorization` header has it. Neither
    /// has to be UTF-8.
    pub basic: Option<Secret>,
    /// An OAuth 2 refresh token, which the token service exchanges for access
    /// tokens.
    pub identity_token: Option<Secret>,
}

impl Credentials {
    /// A user and a password.
    pub(super) fn password(user: &[u8], password: &[u8]) -> Self {
        let pair = BASE64_STANDARD.encode([user, b":", password].concat());
        Self {
            basic: Some(Secret(pair)),
            identity_token: None,
        }
    }
}

impl Credentials {
    /// `USER:PASSWORD`, if both are UTF-8, for a server that is no registry.
    pub fn user_and_password(&self) -> Option<String> {
        let pair = BASE64_STANDARD.decode(self.basic.as_ref()?.expose()).ok()?;
        String::from_utf8(pair).ok()
    }
}

impl Secret {
    /// The text itself, for sending it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The value of an `Authorization` header with user and password, which are in
/// base64.
pub(crate) fn basic_header(pair: &Secret) -> Option<HeaderValue> {
    header(&format!("Basic {}", pair.expose()))
}

/// The value of an `Authorization` header with a token.
pub(crate) fn bearer_header(token: &Secret) -> Option<HeaderValue> {
    header(&format!("Bearer {}", token.expose()))
}

fn header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    // Keeps it out of Debug output and header compression.
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_print_masked() {
        let mut credentials = Credentials::password(b"me", b"hunter2");
        let pair = credentials.basic.clone().unwrap();
        credentials.identity_token = Some(Secret("hunter2".into()));
        let shown = format!("{credentials:?}");
        assert!(
            !shown.contains("hunter2") && !shown.contains(pair.expose()),
            "{shown}"
        );
        let header = basic_header(&pair).unwrap();
        assert!(!format!("{header:?}").contains("Basic"));
        assert!(bearer_header(&Secret("a\nb".into())).is_none());
    }
}
