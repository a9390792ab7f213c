//! Why a layout, or a part of it, cannot be read.

use std::io;
use std::path::PathBuf;

use crate::digest::Digest;
use crate::layout::docker_archive::DockerArchiveError;
use crate::layout::tar_files::TarError;
use crate::manifest::{MAX_DOCUMENT, ManifestError};

/// Why something could not be had from a layout.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// The archive that it lies in.
    #[error(transparent)]
    Archive(#[from] TarError),
    /// An archive that is none of `docker save`.
    #[error(transparent)]
    Docker(#[from] DockerArchiveError),
    /// A file that is missing or cannot be read.
    #[error("{path} cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Something else than a file where a file is expected.
    #[error("{path} is no file")]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// A folder that is no layout, or one of another version.
    #[error("{path} does not say that this is an OCI layout of version 1.x")]
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
    /// An `index.json` that is none.
    #[error("{path} refused")]
    Index {
        /// The `index.json`.
        path: PathBuf,
        /// Why.
        source: ManifestError,
    },
    /// No manifest with this tag or digest.
    #[error("{} has no image {choice:?}; there are: {available}", folder.display())]
    NoTag {
        /// The layout.
        folder: PathBuf,
        /// What was asked for.
        choice: String,
        /// What there is, separated by commas.
        available: String,
    },
    /// Several manifests with this tag.
    #[error(
        "{} has several images with the tag {tag:?}: name one as a whole, or by its digest; \
         there are: {available}",
        folder.display()
    )]
    SeveralWithTag {
        /// The layout.
        folder: PathBuf,
        /// The tag that was asked for.
        tag: String,
        /// What there is, separated by commas.
        available: String,
    },
    /// No tag was asked for, and there is not exactly one manifest.
    #[error(
        "{} has {count} images, so a tag or digest has to be named; there are: {available}",
        folder.display()
    )]
    NotOne {
        /// The layout.
        folder: PathBuf,
        /// How many manifests there are.
        count: usize,
        /// What there is, separated by commas.
        available: String,
    },
    /// A blob of another size than its descriptor says.
    #[error("{path} has {actual} bytes; its descriptor says {expected}")]
    Size {
        /// The file.
        path: PathBuf,
        /// The size in the descriptor, in bytes.
        expected: u64,
        /// The size of the file, in bytes.
        actual: u64,
    },
    /// A manifest whose bytes are others than its digest says.
    #[error("{path} has the digest {actual}")]
    Digest {
        /// The file.
        path: PathBuf,
        /// The digest of what is in it.
        actual: Digest,
    },
}
