//! Why a layout, or a part of it, cannot be read; and reading its documents.

use std::io::{self, Read};
use std::path::PathBuf;

use crate::digest::Digest;
use crate::layout::tar_files::TarError;
use crate::manifest::{MAX_DOCUMENT, ManifestError};

/// Why a layout, or a part of it, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// The archive of the layout.
    #[error(transparent)]
    Archive(#[from] TarError),
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
    #[error("{path} is no regular file")]
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

/// Reads a document of at most 4 MiB.
pub(super) fn read_document(
    path: PathBuf,
    file: impl Read,
    size: u64,
) -> Result<Vec<u8>, LayoutError> {
    if size > MAX_DOCUMENT as u64 {
        return Err(LayoutError::TooLarge { path, size });
    }
    let mut bytes = Vec::new();
    if let Err(source) = file.take(MAX_DOCUMENT as u64).read_to_end(&mut bytes) {
        return Err(LayoutError::Read { path, source });
    }
    Ok(bytes)
}
