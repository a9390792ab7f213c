//! Where a signing key and its password are.

use std::path::PathBuf;

use crate::config_files::{self, FileError, FileKind};
use crate::credentials::Secret;
use crate::signing::key::{MAX_KEY_FILE, SigningKey};

/// The largest file with a password, in bytes.
const MAX_PASSWORD: u64 = 4 << 10;

/// Where a signing key and its password are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySource {
    /// The file with the key, in PEM.
    pub key: PathBuf,
    /// The password.
    pub password: Password,
}

/// The password of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Password {
    /// The empty one, or none for a plain key.
    #[default]
    Empty,
    /// In a file. One line break at its end does not belong to it.
    File(PathBuf),
    /// This text.
    Text(Secret),
}

impl KeySource {
    /// Reads and decrypts the key. It computes much: it blocks.
    pub fn read(&self) -> Result<SigningKey, FileError> {
        let pem = config_files::read(FileKind::SigningKey, &self.key, MAX_KEY_FILE)?;
        let password = match &self.password {
            Password::Empty => Vec::new(),
            Password::File(path) => {
                let mut bytes = config_files::read(FileKind::Password, path, MAX_PASSWORD)?;
                for end in [b'\n', b'\r'] {
                    if bytes.last() == Some(&end) {
                        bytes.pop();
                    }
                }
                bytes
            }
            Password::Text(text) => text.expose().as_bytes().to_vec(),
        };
        SigningKey::parse(&pem, &password)
            .map_err(|problem| FileError::content(FileKind::SigningKey, &self.key, problem))
    }
}
