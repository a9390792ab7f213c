//! How to reach a bucket.

use std::path::PathBuf;

use crate::objects::credentials::CredentialSource;
use crate::objects::location::Location;

/// How to reach a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The bucket.
    pub location: Location,
    /// Where the key comes from.
    pub credentials: CredentialSource,
    /// PEM files of certificates to trust besides the system's.
    pub ca_files: Vec<PathBuf>,
}
