//! Why the files of a catalog cannot be read.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::ingest::labels::CONFIGS_LABEL;
use crate::store::LegacyError;
use ::images::layers::UnpackError;
use fbc::indexignore::{FILE_NAME as IGNORE_FILE, IndexIgnoreError};

/// Why the files of a catalog cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The image has no label that names its catalog folder.
    #[error(
        "the image has no label {CONFIGS_LABEL:?}, so it does not say where its catalog is; \
         is it a catalog image?"
    )]
    NoLabel,
    /// The layers cannot be unpacked.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// An `.indexignore` cannot be used.
    #[error(transparent)]
    IndexIgnore(#[from] IndexIgnoreError),
    /// A file or folder on disk cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The spool cannot be written.
    #[error("cannot write a temporary file in {}: {source}", path.display())]
    Spool {
        /// Its folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A path that is not UTF-8.
    #[error("the path {0:?} is not UTF-8")]
    Path(PathBuf),
    /// More than the limits allow.
    #[error("{what} at {path:?} exceeds the limit of {limit}")]
    Limit {
        /// The exceeded measure.
        what: &'static str,
        /// Where the limit was passed.
        path: String,
        /// The limit.
        limit: u64,
    },
    /// A SQLite database that is no catalog, or cannot be read.
    #[error("{path}: {source}")]
    Legacy {
        /// The database.
        path: String,
        /// Why not.
        source: LegacyError,
    },
    /// A folder that is written to all the time, of which only an inconsistent
    /// copy could be made.
    #[error(
        "{} keeps changing while it is read{}: write the next version beside it and rename it into \
         place, or set read_changing to have it as it is",
        path.display(), last.as_ref().map(ToString::to_string).unwrap_or_default()
    )]
    Changing {
        /// The folder, or the file.
        path: PathBuf,
        /// Its last change, if known.
        last: Option<Box<LastWrite>>,
    },
    /// A link that leads out of the folder.
    #[error(
        "the link {path:?} leads out of the folder, to {}: put the file there instead, or name its \
         folder in link_folders (for a command --link-folder)",
        target.display()
    )]
    Link {
        /// The link, below the folder.
        path: String,
        /// Its target, behind all links.
        target: PathBuf,
    },
    /// There is no file at all.
    #[error(
        "there is no file in the catalog folder {0:?}: an empty catalog would take every operator \
         from its clients; check the path, or put the catalog's files there"
    )]
    Empty(String),
    /// All files are ignored.
    #[error(
        "{IGNORE_FILE} hides all {files} files of the catalog folder {folder:?}: an empty catalog \
         would take every operator from its clients; correct its patterns"
    )]
    Hidden {
        /// The folder.
        folder: String,
        /// How many files it has.
        files: usize,
    },
    /// A SQLite database without packages.
    #[error(
        "there is no package in the database {0}: an empty catalog would take every operator from \
         its clients; check the path"
    )]
    EmptyDatabase(String),
}

/// The file that was written last, and who may know why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWrite {
    /// When.
    pub time: SystemTime,
    /// The file.
    pub path: PathBuf,
    /// The number of the user who owns it.
    pub owner: u32,
}

impl fmt::Display for LastWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, owner, .. } = self;
        write!(f, " (last {}, of user {owner})", path.display())
    }
}

impl FilesError {
    /// Whether the files themselves cannot be served. Otherwise they could not be read, or
    /// change all the time.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::NoLabel
            | Self::IndexIgnore(_)
            | Self::Path(_)
            | Self::Limit { .. }
            | Self::Link { .. }
            | Self::Empty(_)
            | Self::Hidden { .. }
            | Self::EmptyDatabase(_) => true,
            Self::Legacy { source, .. } => source.is_of_content(),
            Self::Unpack(error) => error.is_of_content(),
            Self::Read { .. } | Self::Spool { .. } | Self::Changing { .. } => false,
        }
    }

    /// Whether a file or folder cannot be read or written.
    pub(super) fn is_io(&self) -> bool {
        match self {
            Self::Read { .. } | Self::Spool { .. } => true,
            Self::Unpack(error) => error.is_io(),
            _ => false,
        }
    }

    /// A short label for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoLabel => "no_label",
            Self::Unpack(error) => error.reason(),
            Self::IndexIgnore(_) | Self::Path(_) => "invalid",
            Self::Read { .. } | Self::Spool { .. } => "io",
            Self::Limit { .. } => "limit",
            Self::Empty(_) | Self::Hidden { .. } | Self::EmptyDatabase(_) => "empty",
            Self::Legacy { source, .. } if source.is_limit() => "limit",
            Self::Legacy { .. } => "database",
            Self::Changing { .. } => "changing",
            Self::Link { .. } => "link",
        }
    }
}

/// For `map_err`: an error of a file or folder.
pub(crate) fn reading(path: &Path) -> impl FnOnce(io::Error) -> FilesError {
    let path = path.to_owned();
    move |source| FilesError::Read { path, source }
}

/// For `map_err`: an error of a spool file in this folder.
pub(crate) fn spooling(folder: &Path) -> impl Fn(io::Error) -> FilesError {
    let path = folder.to_owned();
    move |source| FilesError::Spool {
        path: path.clone(),
        source,
    }
}
