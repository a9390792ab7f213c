//! Image manifests, indexes and configurations, in OCI's and Docker's formats.
//!
//! The `mediaType` inside a document and its fields decide what it is. A
//! `Content-Type` header can change between requests while the digest stays
//! the same, so it decides nothing. A document that fits both formats is
//! rejected: two clients could see two images under one digest.
//!
//! Documents are read with small structs and not with the types of `oci-spec`,
//! which [`crate::document`] writes with. Registries send documents that those
//! types reject: Docker's media types without an OCI counterpart, indexes
//! without `schemaVersion`, configurations whose `history` or `architecture`
//! has another type. Only the fields that matter here are read, and each
//! rejection has its own error.

mod attachment;
mod descriptor;
mod error;
mod image_config;
mod index;
mod json;
mod parse;
#[cfg(test)]
mod tests;

pub use attachment::{Attachment, cosign_tags};
pub use descriptor::{
    DOCKER_LIST, DOCKER_MANIFEST, Descriptor, MAX_DOCUMENT, MAX_ENTRIES, MAX_LAYERS, OCI_CONFIG,
    OCI_INDEX, OCI_LAYER_GZIP, OCI_MANIFEST,
};
pub use error::ManifestError;
pub use image_config::ImageConfig;
pub use index::{Index, IndexEntry, REFERENCE_NAME};
pub use parse::{ImageManifest, Manifest};

pub(crate) use descriptor::{DOCKER_CONFIG, DOCKER_LAYER};
pub(crate) use json::{cut, null_as_default, object, texts};
