//! Content descriptors.

use crate::digest::Digest;

/// The digest, size and media type of some content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The media type, as written.
    pub media_type: String,
    /// The digest.
    pub digest: Digest,
    /// The size in bytes.
    pub size: u64,
}
