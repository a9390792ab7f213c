//! Why a layout, or a part of it, cannot be read.

use std::io;
use std::path::PathBuf;

use crate::digest::Digest;
use crate::layers::Damage;
use crate::manifest::{MAX_DOCUMENT, ManifestError};

/// Why a layout, or a part of it, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// A compressed archive.
    #[error("{path} is compressed with {compression}; unpack it first")]
    Compressed {
        /// The archive.
        path: PathBuf,
        /// The compression.
        compression: &'static str,
    },
    /// No tar archive, or a damaged one.
    #[error("{path} is not a tar archive, or damaged at byte {offset}: {damage}")]
    Damaged {
        /// The archive.
        path: PathBuf,
        /// The damage.
        damage: Damage,
        /// Its position, in bytes.
        offset: u64,
    },
    /// An archive that exceeds a limit.
    #[error("{path} has too many {what}; the limit is {limit}")]
    Limit {
        /// The archive.
        path: PathBuf,
        /// The limited quantity.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A file that an archive does not have.
    #[error("{path} has no file {name:?}")]
    Missing {
        /// The archive.
        path: PathBuf,
        /// The file.
        name: String,
    },
    /// An archive of the other format.
    #[error("{path} is an archive of another format: write {prefix}:{path}")]
    OtherFormat {
        /// The archive.
        path: PathBuf,
        /// The prefix of paths of this format.
        prefix: &'static str,
    },
    /// A file of an archive of `docker save` that has another format.
    #[error("{path} is not valid: {problem}")]
    Document {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// A missing or unreadable file.
    #[error("{path} cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A path that should be a file.
    #[error("{path} is not a regular file")]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// A folder that is no layout, or has another version.
    #[error("{path} is not the marker of an OCI layout of version 1.x")]
    Version {
        /// The `oci-layout` file.
        path: PathBuf,
    },
    /// A document of more than 4 MiB.
    #[error("{path} has {size} bytes; the limit is {MAX_DOCUMENT}")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
    },
    /// An invalid `index.json`.
    #[error("{path} is not a usable index")]
    Index {
        /// The `index.json`.
        path: PathBuf,
        /// The cause.
        source: ManifestError,
    },
    /// No manifest with this tag or digest.
    #[error("{} has no image {choice:?}; it contains: {available}", folder.display())]
    NoTag {
        /// The layout.
        folder: PathBuf,
        /// The requested tag or digest.
        choice: String,
        /// The images of the layout, separated by commas.
        available: String,
    },
    /// Several manifests with this tag.
    #[error(
        "{} has several images with the tag {tag:?}: name one as a whole, or by its digest; \
         it contains: {available}",
        folder.display()
    )]
    SeveralWithTag {
        /// The layout.
        folder: PathBuf,
        /// The requested tag.
        tag: String,
        /// The images of the layout, separated by commas.
        available: String,
    },
    /// No choice, although there is not exactly one manifest.
    #[error(
        "{} has {count} images, so name one by its tag or digest; it contains: {available}",
        folder.display()
    )]
    NotOne {
        /// The layout.
        folder: PathBuf,
        /// The number of manifests.
        count: usize,
        /// The images of the layout, separated by commas.
        available: String,
    },
    /// A blob with another size than in its descriptor.
    #[error("{path} has {actual} bytes; its descriptor says {expected}")]
    Size {
        /// The file.
        path: PathBuf,
        /// The size in the descriptor, in bytes.
        expected: u64,
        /// The size of the file, in bytes.
        actual: u64,
    },
    /// A manifest with another digest than its name.
    #[error("{path} has the digest {actual}")]
    Digest {
        /// The file.
        path: PathBuf,
        /// The digest of its content.
        actual: Digest,
    },
}

impl LayoutError {
    /// Whether the layout does not have the requested content.
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::Missing { .. } => true,
            Self::Read { source, .. } => source.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }
}
