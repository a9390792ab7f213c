//! The key that signs requests.

use std::fmt;

/// A key of S3. Its `Debug` output has no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessKey {
    /// Its name.
    pub id: String,
    /// The secret part.
    pub secret: String,
    /// The token of a key that lives for a while.
    pub token: Option<String>,
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
