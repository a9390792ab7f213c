//! Content descriptors.

use crate::digest::Digest;

/// What some content is called, how large it is and of which kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The media type, as written.
    pub media_type: String,
    /// The digest.
    pub digest: Digest,
    /// The size in bytes.
    pub size: u64,
}
