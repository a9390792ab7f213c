//! The result of resolving a reference.

use crate::digest::Digest;

/// The current target of a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The digest of the manifest, or of the index if the reference names one.
    pub digest: Digest,
    /// Its media type, if the registry sent it.
    pub media_type: Option<String>,
    /// Its size in bytes, if the registry sent it.
    pub size: Option<u64>,
}
