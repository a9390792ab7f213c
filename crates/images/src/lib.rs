//! Speaking to registries: what an image reference is, how it is resolved to
//! a digest, how manifests and blobs are pulled and verified, and how the same
//! is read from OCI layouts and archives.
//!
//! Nothing in here writes to disk, unpacks a layer or knows what a catalog is;
//! it hands on bytes whose size and digest hold, or an [`Error`] that names
//! what was asked and of whom. What may go well a moment later is asked for
//! again, a few times, and a blob that was cut goes on where it was cut; one
//! table, [`Error::is_temporary`], says what that is. Longer waits are left to
//! the caller, who is told by [`Error::retry_after`] what the registry wishes.
//!
//! The documents (manifest, index, image configuration, layout) are read with
//! small structs of this module rather than with a general library of OCI
//! types: they come from outside, so only the few fields that are needed are
//! looked at (a strange `history` or a platform nobody has heard of must not
//! stop a catalog), Docker's older media types have to be understood as well,
//! and every refusal has to have a name.
//!
//! In reading order: [`mod@reference`], [`manifest`], [`image`], [`client`],
//! [`blob`], [`layout`], [`error`]. [`Registries`] is what goes to mirrors and asks the
//! policy; [`Client`] is what speaks to one registry.

pub mod credentials;
pub mod digest;
pub mod error;
pub mod files;
pub mod image;
mod known;
pub mod layers;
pub mod layout;
pub mod manifest;
mod mirrors;
pub mod platform;
mod policy;
pub mod reference;
mod registries;
pub mod registry;
pub mod verify;

pub use error::Error;
pub use files::{FileError, FileKind};
pub use image::{CONFIGS_LABEL, DATABASE_LABEL, ImageConfig};
pub use layout::{ArchiveError, Choice, DockerError, Format, Layout, LayoutError};
pub use manifest::{Descriptor, ImageManifest, Index, Manifest, ManifestError};
pub use mirrors::MirrorFiles;
pub use platform::Platform;
pub use policy::{PolicyFiles, Refusal};
pub use reference::{Reference, ReferenceError};
pub use registries::{PlaceNumber, Registries, Route};
pub use registry::blob::BlobStream;
pub use registry::client::{Client, Resolved, Settings};
