//! Where the policy is.

use std::path::PathBuf;

use crate::config_files::AwaitedFile;
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
    /// objects of OpenShift (YAML, JSON). Each must exist and have one.
    pub objects: Vec<PathBuf>,
    /// A further such file.
    pub awaited: Option<AwaitedFile>,
    /// The namespace whose `ImagePolicy` objects apply.
    pub namespace: Option<String>,
    /// Where signatures are stored apart from the registry.
    pub stores: SignatureStoreFiles,
}
