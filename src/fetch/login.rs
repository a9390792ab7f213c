//! The login for a host, from the files of other programs.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::Url;
use reqwest::header::HeaderValue;

use crate::fetch::netrc;
use images::credentials::AuthFiles;

/// The files with logins.
#[derive(Clone, Default)]
pub struct Logins {
    /// The file of curl and others; it may be missing.
    pub netrc: Option<PathBuf>,
    /// The files of podman and docker.
    pub auth_files: Option<AuthFiles>,
}

/// A user and a password. No output has them.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    user: String,
    password: String,
}

impl Logins {
    /// The login for a host (`HOST` or `HOST:PORT`): from netrc, else from the files
    /// of podman and docker. A file that cannot be read is logged and ignored: the
    /// server may want no login.
    pub(super) async fn find(&self, url: &Url, host: &str) -> Option<Login> {
        if let Some(path) = &self.netrc
            && let Some(login) = of_netrc(path, url, host)
        {
            return Some(login);
        }
        let files = self.auth_files.as_ref()?;
        let path = url.path().trim_matches('/');
        match files.find(host, path).await {
            Ok(found) => Login::from_pair(&found?.user_and_password()?),
            Err(error) => {
                tracing::warn!(%error, host, "no login is taken from the credentials files");
                None
            }
        }
    }
}

/// The login in netrc.
fn of_netrc(path: &Path, url: &Url, host: &str) -> Option<Login> {
    match netrc::read(path) {
        Ok(text) => {
            let (user, password) = netrc::find(&text, &[host, url.host_str()?])?;
            Some(Login { user, password })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "no login is taken from netrc");
            None
        }
    }
}

impl Login {
    /// From `USER:PASSWORD`.
    fn from_pair(pair: &str) -> Option<Self> {
        let (user, password) = pair.split_once(':')?;
        Some(Self {
            user: user.to_owned(),
            password: password.to_owned(),
        })
    }

    /// The header with the password as a token.
    pub(super) fn bearer(&self) -> Option<HeaderValue> {
        let is_token = self.password.bytes().all(|byte| byte.is_ascii_graphic());
        let text = format!("Bearer {}", self.password);
        header(&text).filter(|_| is_token && !self.password.is_empty())
    }

    /// The header with user and password.
    pub(super) fn basic(&self) -> Option<HeaderValue> {
        let pair = format!("{}:{}", self.user, self.password);
        header(&format!("Basic {}", BASE64_STANDARD.encode(pair)))
    }
}

fn header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_a_token_only_if_its_password_can_be_one() {
        let login = |password: &str| Login {
            user: "me".into(),
            password: password.into(),
        };
        assert_eq!(login("secret").bearer().unwrap(), "Bearer secret");
        assert_eq!(login("secret").basic().unwrap(), "Basic bWU6c2VjcmV0");
        assert!(login("two words").bearer().is_none());
        assert!(login("").bearer().is_none());
        assert!(!format!("{:?}", login("secret").basic()).contains("bWU6"));
    }
}
