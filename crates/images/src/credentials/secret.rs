//! Secrets, and the `Authorization` headers that carry them.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;

/// A secret text. `Debug` masks it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// The credentials for a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// A user and a password.
    Password {
        /// The user.
        user: String,
        /// The password.
        password: Secret,
    },
    /// An OAuth 2 refresh token, which the token service exchanges for access
    /// tokens.
    IdentityToken(Secret),
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

/// The value of an `Authorization` header with user and password.
pub(crate) fn basic_header(user: &str, password: &Secret) -> Option<HeaderValue> {
    let pair = BASE64_STANDARD.encode(format!("{user}:{}", password.expose()));
    header(&format!("Basic {pair}"))
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
        let credentials = Credentials::Password {
            user: "me".into(),
            password: Secret("hunter2".into()),
        };
        assert!(!format!("{credentials:?}").contains("hunter2"));
        let header = basic_header("me", &Secret("hunter2".into())).unwrap();
        assert!(!format!("{header:?}").contains("Basic"));
        assert!(bearer_header(&Secret("a\nb".into())).is_none());
    }
}
