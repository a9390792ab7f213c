//! Why a document is rejected.

use crate::digest::{Digest, DigestError};
use crate::manifest::descriptor::{MAX_DOCUMENT, MAX_ENTRIES, MAX_LAYERS};
use crate::platform::Platform;

/// Why a manifest or image configuration is rejected.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Larger than [`MAX_DOCUMENT`].
    #[error("the document has {size} bytes; the limit is {MAX_DOCUMENT}")]
    TooLarge {
        /// Its size in bytes.
        size: u64,
    },
    /// Not JSON, or with other types than in a manifest.
    #[error("the document is neither an image manifest nor an index")]
    Json(#[source] serde_json::Error),
    /// Not an image configuration.
    #[error("the document is not an image configuration")]
    Config(#[source] serde_json::Error),
    /// A manifest in Docker's schema 1, whose layers have other digests.
    #[error(
        "the manifest is a Docker schema 1 manifest, which is not supported: push the image again with a current tool"
    )]
    Schema1,
    /// Another `schemaVersion` than 2.
    #[error("the manifest has schemaVersion {0}; only 2 is supported")]
    SchemaVersion(i64),
    /// A media type of neither an image nor an index.
    #[error(
        "the document has the media type {0:?}, which is neither that of an image manifest nor of an index"
    )]
    MediaType(String),
    /// Fields that do not fit the media type, or that fit both an image and an
    /// index.
    #[error(
        "the document has the fields of an image manifest and of an index, or other fields than its media type requires"
    )]
    Ambiguous,
    /// Neither `config` and `layers` nor `manifests`.
    #[error("the document has neither config and layers nor manifests")]
    Shape,
    /// More than [`MAX_LAYERS`] layers.
    #[error("the image has {0} layers; the limit is {MAX_LAYERS}")]
    TooManyLayers(usize),
    /// More than [`MAX_ENTRIES`] entries.
    #[error("the index has {0} entries; the limit is {MAX_ENTRIES}")]
    TooManyEntries(usize),
    /// A layer that registries do not store.
    #[error(
        "layer {digest} has the media type {media_type:?}: foreign and nondistributable layers are not supported"
    )]
    ForeignLayer {
        /// The layer.
        digest: Digest,
        /// Its media type.
        media_type: String,
    },
    /// A descriptor without a valid digest.
    #[error("a descriptor in the document has no valid digest")]
    Digest(#[source] DigestError),
    /// An index in place of an image.
    #[error(
        "the index names another index for the platform; an index in an index is not supported"
    )]
    Nested,
    /// No entry for the platform.
    #[error("the index has no image for the platform {wanted}; it has: {available}")]
    NoPlatform {
        /// The requested platform.
        wanted: Box<Platform>,
        /// The platforms of the index, separated by commas (at most 50).
        available: String,
    },
}
