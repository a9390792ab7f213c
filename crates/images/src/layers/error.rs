//! Why an image cannot be unpacked.

use std::io;

/// Why an image cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The requested folder is invalid.
    #[error("the folder {folder:?} is rejected: {rejection}")]
    Folder {
        /// The requested folder, shortened.
        folder: String,
        /// The cause.
        rejection: LayerRejection,
    },
    /// No layer has the folder, or an upper layer hides it.
    #[error("the image has no folder {folder:?}")]
    MissingFolder {
        /// The folder, or the target of its symlinks.
        folder: String,
    },
    /// The folder is behind too many symlinks.
    #[error("the folder {folder:?} is behind more than {limit} symlinks")]
    TooManyRounds {
        /// The requested folder.
        folder: String,
        /// The number of symlinks that are followed.
        limit: usize,
    },
    /// The folder is a symlink to a path that skipped layers may contain.
    #[error("the folder {folder:?} leads to {target:?}, and the lower layers were skipped")]
    Covered {
        /// The requested folder.
        folder: String,
        /// The target.
        target: String,
    },
    /// A layer cannot be opened.
    #[error("layer {index} cannot be opened")]
    Open {
        /// Its position in the image; 0 is the lowest.
        index: usize,
        /// The cause.
        source: io::Error,
    },
    /// The bytes of a layer cannot be read, or fail their verification.
    #[error("layer {layer} cannot be read")]
    Read {
        /// The layer's name.
        layer: String,
        /// The cause.
        source: io::Error,
    },
    /// The spool file cannot be written.
    #[error("a temporary file cannot be written")]
    Spool(#[source] io::Error),
    /// The layer has an unsupported compression.
    #[error(
        "layer {layer} is compressed with {compression}; only gzip, zstd and plain tar are supported"
    )]
    Compression {
        /// The layer's name.
        layer: String,
        /// The compression's name.
        compression: &'static str,
    },
    /// The layer is no complete archive.
    #[error("layer {layer} is damaged after {path:?}: {damage}")]
    Damaged {
        /// The layer's name.
        layer: String,
        /// The last path; empty at the start.
        path: String,
        /// The damage.
        damage: Damage,
    },
    /// A limit is exceeded.
    #[error("layer {layer}, path {path:?}: {exceeded}")]
    Limit {
        /// The layer's name.
        layer: String,
        /// The path, shortened.
        path: String,
        /// The limit.
        exceeded: Exceeded,
    },
    /// An entry is rejected.
    #[error("layer {layer}, path {path:?}: {rejection}")]
    Refused {
        /// The layer's name.
        layer: String,
        /// The entry's path, shortened.
        path: String,
        /// The cause.
        rejection: LayerRejection,
    },
}

impl UnpackError {
    /// Whether the layers themselves are the cause, and not the machine that reads them.
    pub fn is_of_content(&self) -> bool {
        match self {
            Self::MissingFolder { .. }
            | Self::Covered { .. }
            | Self::Compression { .. }
            | Self::Damaged { .. }
            | Self::Limit { .. }
            | Self::TooManyRounds { .. }
            | Self::Folder { .. }
            | Self::Refused { .. } => true,
            Self::Open { .. } | Self::Read { .. } | Self::Spool(_) => false,
        }
    }

    /// Whether a layer cannot be read, or a spool file cannot be written.
    pub fn is_io(&self) -> bool {
        matches!(self, Self::Open { .. } | Self::Read { .. } | Self::Spool(_))
    }

    /// A short label for metrics: `damaged`, `hostile`, `io`,
    /// `limit`, `missing_folder` or `unsupported`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::MissingFolder { .. } | Self::Covered { .. } => "missing_folder",
            Self::Open { .. } | Self::Read { .. } | Self::Spool(_) => "io",
            Self::Compression { .. } => "unsupported",
            Self::Damaged { .. } => "damaged",
            Self::Limit { .. } | Self::TooManyRounds { .. } => "limit",
            Self::Folder { .. } | Self::Refused { .. } => "hostile",
        }
    }
}

/// Why an entry is rejected, or which limit it exceeds.
#[derive(Debug)]
pub(super) enum EntryError {
    Rejected(LayerRejection),
    Exceeded(Exceeded),
}

impl EntryError {
    /// The error of the entry at this path of a layer.
    pub(super) fn at(self, layer: &str, path: String) -> UnpackError {
        let layer = layer.to_owned();
        match self {
            Self::Rejected(rejection) => UnpackError::Refused {
                layer,
                path,
                rejection,
            },
            Self::Exceeded(exceeded) => UnpackError::Limit {
                layer,
                path,
                exceeded,
            },
        }
    }
}

/// The damage of an archive.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// The compressed bytes are cut, invalid, or followed by other bytes.
    #[error("the compressed bytes are not valid: {0}")]
    Compressed(io::Error),
    /// A header's checksum does not match its bytes.
    #[error("the checksum of a header does not match")]
    Checksum,
    /// The size in a header is no number, or too large.
    #[error("the size in a header is not valid")]
    Size,
    /// The archive ends inside a header.
    #[error("the archive is cut inside a header")]
    CutHeader,
    /// The archive ends inside a file.
    #[error("the archive is cut inside a file")]
    CutFile,
    /// The last header extends a missing entry.
    #[error("the archive ends after an extended header, without its entry")]
    NothingExtended,
    /// An extended header has a syntax error.
    #[error("an extended header is not valid")]
    Extension,
    /// An extended header is too long.
    #[error("an extended header of {size} bytes is longer than {limit}")]
    LongExtension {
        /// Its bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The parts of a sparse file do not fit its size or contents.
    #[error("the map of a sparse file is not valid")]
    SparseMap,
    /// Bytes follow the end of the archive.
    #[error("there are bytes after the end of the archive")]
    Trailing,
}

/// An exceeded limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// [`Limits::bytes`](crate::layers::Limits::bytes).
    #[error("the layers unpack to more than {0} bytes")]
    Bytes(u64),
    /// The zstd window, which is kept in memory.
    #[error("its zstd window is larger than {0} bytes")]
    Window(u64),
    /// [`Limits::folder_bytes`](crate::layers::Limits::folder_bytes).
    #[error("the files under the folder have more than {0} bytes")]
    FolderBytes(u64),
    /// [`Limits::entries`](crate::layers::Limits::entries).
    #[error("the layers have more than {0} archive entries")]
    Entries(u64),
    /// [`Limits::files`](crate::layers::Limits::files).
    #[error("there are more than {0} files, folders and links under the folder")]
    Files(u64),
    /// [`Limits::path`](crate::layers::Limits::path).
    #[error("a path or link target has more than {0} bytes")]
    Path(usize),
    /// The fixed bound on the memory for names.
    #[error("the paths under the folder have more than {0} bytes together")]
    Names(usize),
    /// The fixed bound on the time for following symlinks.
    #[error("following the symlinks takes more than {0} steps")]
    LinkSteps(u64),
}

/// Why a path or an entry is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayerRejection {
    /// A `..` in a path could lead out of the image.
    #[error("the path has a \"..\" component")]
    ParentComponent,
    /// Readers disagree on the end of a path with a zero byte.
    #[error("the path has a zero byte")]
    ZeroByte,
    /// The path is not UTF-8.
    #[error("the path is not UTF-8")]
    NotUtf8,
    /// A folder longer than [`Limits::path`](crate::layers::Limits::path).
    #[error("the path has more than {0} bytes")]
    TooLong(usize),
    /// The root of the image is not a folder.
    #[error("the root of the image is not a folder")]
    Root,
    /// A whiteout without a valid name, or a whiteout that is a folder.
    #[error("the whiteout has no valid name to hide")]
    Whiteout,
    /// A device, fifo or an entry of an unknown type.
    #[error("{0} is neither a file, a folder nor a link")]
    Special(&'static str),
    /// A sparse file in an unknown format.
    #[error(
        "this format of sparse files is not supported; the old GNU format, 0.0, 0.1 and 1.0 are"
    )]
    Sparse,
    /// A hardlink to a path without an earlier entry.
    #[error("the hardlink's target {target:?} is missing")]
    HardlinkMissing {
        /// As written in the archive.
        target: String,
    },
    /// A hardlink out of the folder.
    #[error("the hardlink's target {target:?} is outside the folder")]
    HardlinkOutside {
        /// As written in the archive.
        target: String,
    },
    /// A hardlink to something other than a file.
    #[error("the hardlink's target {target:?} is not a file")]
    HardlinkNotAFile {
        /// As written in the archive.
        target: String,
    },
    /// An entry below a symlink, which readers place differently.
    #[error("the path leads through the symlink {link:?}")]
    ThroughSymlink {
        /// The symlink's path.
        link: String,
    },
    /// A symlink to a missing path.
    #[error("the symlink's target {target:?} is missing")]
    SymlinkDangling {
        /// As written in the archive.
        target: String,
    },
    /// A symlink out of the folder.
    #[error("the symlink's target {target:?} is outside the folder")]
    SymlinkOutside {
        /// As written in the archive.
        target: String,
    },
    /// A symlink to a folder. Go's `fs.WalkDir` does not follow it and fails to
    /// read it as a file.
    #[error("the symlink's target {target:?} is a folder; only symlinks to files are supported")]
    SymlinkToFolder {
        /// As written in the archive.
        target: String,
    },
    /// Symlinks that lead to each other.
    #[error("the symlink to {target:?} leads through too many symlinks")]
    SymlinkLoop {
        /// As written in the archive.
        target: String,
    },
}
