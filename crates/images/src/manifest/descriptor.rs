//! Content descriptors, media types, and bounds on documents.

use crate::digest::Digest;

/// The media type of an OCI image manifest.
pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The media type of an OCI index.
pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// The media type of a Docker image manifest, version 2 schema 2.
pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// The media type of a Docker manifest list.
pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// The media type of an OCI image configuration.
pub const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// The media type of an OCI layer, compressed with gzip.
pub const OCI_LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// The media type of a Docker image configuration.
pub(crate) const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
/// The media type of a Docker layer without compression.
pub(crate) const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar";
/// The start of the media types of Docker manifests, version 2 schema 1.
pub(super) const DOCKER_SCHEMA_1: &str = "application/vnd.docker.distribution.manifest.v1+";
/// The largest manifest, index or image configuration: 4 MiB, as in other
/// clients and registries.
pub const MAX_DOCUMENT: usize = 4 << 20;
/// The most layers of an image.
pub const MAX_LAYERS: usize = 512;
/// The most entries of an index.
pub const MAX_ENTRIES: usize = 4096;

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

impl Descriptor {
    /// The descriptor of this content.
    pub fn new(media_type: &str, content: &[u8]) -> Self {
        Self {
            media_type: media_type.into(),
            digest: Digest::of(content),
            size: content.len() as u64,
        }
    }
}
