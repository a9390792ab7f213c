//! Where the policy is.

use std::path::PathBuf;

use crate::signatures::SignatureStoreFiles;

/// Where the policy is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyFiles {
    /// A file from the settings. It must exist.
    pub named: Option<PathBuf>,
    /// The usual files, of which the first that exists applies. Without any of
    /// them every image is admitted.
    pub usual: Vec<PathBuf>,
    /// Files, or folders of such, with `ClusterImagePolicy` and `ImagePolicy`
    /// objects of OpenShift (YAML, JSON). Each must exist.
    pub objects: Vec<PathBuf>,
    /// One of them that appears later, and the reason to tell until then.
    pub awaited: Option<(PathBuf, String)>,
    /// The namespace whose `ImagePolicy` objects apply.
    pub namespace: Option<String>,
    /// Where signatures are stored apart from the registry.
    pub stores: SignatureStoreFiles,
}
