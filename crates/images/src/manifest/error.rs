//! Why a document is rejected.

use crate::digest::{Digest, DigestError};
use crate::manifest::limits::{MAX_DOCUMENT, MAX_ENTRIES, MAX_LAYERS};
use crate::platform::Platform;

/// Why a document is no manifest (or image configuration) that almanac takes.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Larger than [`MAX_DOCUMENT`].
    #[error("the document has {size} bytes; the limit is {MAX_DOCUMENT}")]
    TooLarge {
        /// Its size in bytes.
        size: u64,
    },
    /// Not JSON, or JSON with other types than a manifest has.
    #[error("the document is no image manifest and no index")]
    Json(#[source] serde_json::Error),
    /// Not an image configuration.
    #[error("the document is no image configuration")]
    Config(#[source] serde_json::Error),
    /// Docker's first manifest schema, which names its layers by other digests.
    #[error(
        "the manifest is a Docker schema 1 manifest, which is not supported: push the image anew with a current tool"
    )]
    Schema1,
    /// Another `schemaVersion` than 2.
    #[error("the manifest has schemaVersion {0}; only 2 is known")]
    SchemaVersion(i64),
    /// A media type that is neither an image's nor an index's.
    #[error("the document has the media type {0:?}, which is no image manifest and no index")]
    MediaType(String),
    /// The media type says one thing and the shape another, or the shape says both.
    #[error(
        "the document has the fields of an image manifest and of an index, or other fields than its media type asks for"
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
    /// A layer that registries do not hold.
    #[error(
        "layer {digest} has the media type {media_type:?}: foreign and nondistributable layers are not supported"
    )]
    ForeignLayer {
        /// The layer.
        digest: Digest,
        /// Its media type.
        media_type: String,
    },
    /// A descriptor whose digest is none.
    #[error("a descriptor in the document has no valid digest")]
    Digest(#[source] DigestError),
    /// An index where an image should be.
    #[error(
        "the index names another index for the platform; an index in an index is not supported"
    )]
    Nested,
    /// No entry for the platform.
    #[error("the index has no image for the platform {wanted}; there are: {available}")]
    NoPlatform {
        /// The platform that was looked for.
        wanted: Box<Platform>,
        /// The platforms there are, separated by commas (at most 50).
        available: String,
    },
}
