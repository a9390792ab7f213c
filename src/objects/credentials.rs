//! The key that signs requests, and where it comes from.

use std::path::{Path, PathBuf};

use crate::objects::access_key::AccessKey;
use crate::objects::platform::Platform;

/// The largest file of credentials, in bytes.
const MAX_FILE: usize = 64 << 10;

/// Where the key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// A file in the format of the AWS tools, read for each request that finds it
    /// changed.
    File(PathBuf),
    /// From the environment.
    Key(AccessKey),
    /// From the platform, for a while.
    Platform(Platform),
    /// Nothing names any.
    None,
}

impl CredentialSource {
    /// The key as it is now. A file is read again, so that a changed key counts at
    /// once.
    pub(super) async fn key(&self) -> Result<AccessKey, String> {
        match self {
            Self::Key(key) => Ok(key.clone()),
            Self::File(path) => {
                let text = tokio::fs::read(path).await;
                let text =
                    text.map_err(|error| format!("credentials_file: {}: {error}", path.display()))?;
                read(path, &text)
            }
            Self::Platform(_) | Self::None => Err(
                "write credentials_file in [fleet], or set AWS_ACCESS_KEY_ID and \
                 AWS_SECRET_ACCESS_KEY"
                    .to_owned(),
            ),
        }
    }
}

/// Reads the section `default` of a file, or lines before any section.
fn read(path: &Path, text: &[u8]) -> Result<AccessKey, String> {
    let refused = |problem: &str| Err(format!("credentials_file: {}: {problem}", path.display()));
    if text.len() > MAX_FILE {
        return refused("the file is too large");
    }
    let Ok(text) = std::str::from_utf8(text) else {
        return refused("the file is not UTF-8");
    };
    let (mut id, mut secret, mut token) = (None, None, None);
    let mut counts = true;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            counts = section.trim_end_matches(']').trim() == "default";
        }
        let Some((name, value)) = line.split_once('=').filter(|_| counts) else {
            continue;
        };
        let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        match name.trim() {
            "aws_access_key_id" => id = value,
            "aws_secret_access_key" => secret = value,
            "aws_session_token" => token = value,
            _ => {}
        }
    }
    let visible = |text: &String| text.bytes().all(|byte| byte.is_ascii_graphic());
    match (id.filter(visible), secret.filter(visible)) {
        (Some(id), Some(secret)) => Ok(AccessKey { id, secret, token }),
        _ => refused("write aws_access_key_id = ... and aws_secret_access_key = ..."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_the_tools_of_aws_read_it() {
        let path = Path::new("keys");
        let text = b"# mine\n[other]\naws_access_key_id=x\n[default]\n\
            aws_access_key_id = AKIA\naws_secret_access_key=s/3=\naws_session_token = t\n";
        let key = read(path, text).unwrap();
        assert_eq!((key.id.as_str(), key.secret.as_str()), ("AKIA", "s/3="));
        assert_eq!(key.token.as_deref(), Some("t"));
        let shown = format!("{key:?} {:?}", CredentialSource::Key(key.clone()));
        assert!(!shown.contains("s/3"), "{shown}");
        let plain = b"aws_access_key_id=a\naws_secret_access_key=b\n";
        assert_eq!(read(path, plain).unwrap().id, "a");
        for wrong in [&b""[..], b"aws_access_key_id=a", b"\xff"] {
            let error = read(path, wrong).unwrap_err();
            assert!(error.starts_with("credentials_file: keys: "), "{error}");
        }
    }
}
