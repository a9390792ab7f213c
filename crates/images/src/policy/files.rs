//! Where the policy is.

use std::path::PathBuf;

/// Where the policy is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyFiles {
    /// A file from the settings. It must exist.
    pub named: Option<PathBuf>,
    /// The usual files, of which the first that exists applies. Without any of
    /// them every image is admitted.
    pub usual: Vec<PathBuf>,
}
