//! What can be wrong with an image.

use std::io;

/// Why an image was not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The label names no folder.
    #[error("the label's folder {folder:?} is refused: {rejection}")]
    Label {
        /// The label's value, shortened.
        folder: String,
        /// Why.
        rejection: LayerRejection,
    },
    /// No layer has the folder, or an upper one hides it.
    #[error("the image has no folder {folder:?}")]
    MissingFolder {
        /// The label's value, or where its symlinks lead.
        folder: String,
    },
    /// The folder is behind more symlinks than are followed.
    #[error("the folder {folder:?} is still behind a symlink after {limit} rounds over the layers")]
    TooManyRounds {
        /// The label's value.
        folder: String,
        /// How many rounds were made.
        limit: usize,
    },
    /// The folder is behind a symlink that leads to where layers that were not
    /// looked at may have something.
    #[error("the folder {folder:?} leads to {place:?}, and lower layers were not looked at")]
    Covered {
        /// The label's value.
        folder: String,
        /// Where it leads.
        place: String,
    },
    /// A layer could not be opened.
    #[error("layer {index} cannot be opened")]
    Open {
        /// Its place in the image, 0 is the lowest.
        index: usize,
        /// Why.
        source: io::Error,
    },
    /// A layer's stored bytes could not be read (or did not verify).
    #[error("layer {layer} cannot be read")]
    Read {
        /// The layer's name.
        layer: String,
        /// Why.
        source: io::Error,
    },
    /// The spool file could not be written.
    #[error("the spool file cannot be written")]
    Spool(#[source] io::Error),
    /// The layer is compressed in a way that is not read.
    #[error(
        "layer {layer} is compressed with {compression}; only gzip, zstd and plain tar are read"
    )]
    Compression {
        /// The layer's name.
        layer: String,
        /// The compression's name.
        compression: &'static str,
    },
    /// The layer is no whole archive.
    #[error("layer {layer} is damaged after {path:?}: {damage}")]
    Damaged {
        /// The layer's name.
        layer: String,
        /// The last path that was read; empty at the start.
        path: String,
        /// How.
        damage: Damage,
    },
    /// A limit was reached.
    #[error("layer {layer}, path {path:?}: {exceeded}")]
    Limit {
        /// The layer's name.
        layer: String,
        /// The path at which it was reached, shortened.
        path: String,
        /// Which limit.
        exceeded: Exceeded,
    },
    /// An entry is refused.
    #[error("layer {layer}, path {path:?}: {rejection}")]
    Refused {
        /// The layer's name.
        layer: String,
        /// The entry's path, shortened.
        path: String,
        /// Why.
        rejection: LayerRejection,
    },
}

impl UnpackError {
    /// A short, constant word for metrics: `damaged`, `hostile`, `io`,
    /// `limit`, `missing_folder` or `unsupported`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::MissingFolder { .. } | Self::Covered { .. } => "missing_folder",
            Self::Open { .. } | Self::Read { .. } | Self::Spool(_) => "io",
            Self::Compression { .. } => "unsupported",
            Self::Damaged { .. } => "damaged",
            Self::Limit { .. } | Self::TooManyRounds { .. } => "limit",
            Self::Label { .. } | Self::Refused { .. } => "hostile",
        }
    }
}

/// How an archive is damaged.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// The compressed bytes are cut, wrong, or followed by something else.
    #[error("the compressed bytes are not valid: {0}")]
    Compressed(io::Error),
    /// A header's checksum does not match its bytes.
    #[error("the checksum of a header does not match")]
    Checksum,
    /// A header's size is no number, or too large a one.
    #[error("the size in a header is not valid")]
    Size,
    /// The archive ends inside a header.
    #[error("the archive is cut inside a header")]
    CutHeader,
    /// The archive ends inside a file.
    #[error("the archive is cut inside a file")]
    CutFile,
    /// A header that extends the next one stands last.
    #[error("the archive ends where an extended header announces an entry")]
    NothingExtended,
    /// An extended header that breaks its grammar.
    #[error("an extended header is not valid")]
    Extension,
    /// An extended header that is longer than any honest one.
    #[error("an extended header of {size} bytes is longer than {limit}")]
    LongExtension {
        /// Its bytes.
        size: u64,
        /// The most that is read.
        limit: u64,
    },
    /// A sparse file whose parts do not fit into it, or its contents.
    #[error("the map of a sparse file is not valid")]
    SparseMap,
    /// Something follows the end of the archive.
    #[error("there are bytes after the end of the archive")]
    Trailing,
}

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// [`Limits::bytes`](crate::layers::Limits::bytes).
    #[error("the layers unpack to more than {0} bytes")]
    Bytes(u64),
    /// How far back a layer of zstd refers, which has to be held in memory.
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
    /// All names together; a fixed bound on memory.
    #[error("the paths under the folder have more than {0} bytes together")]
    Names(usize),
    /// All steps that following symlinks takes; a fixed bound on time.
    #[error("following the symlinks takes more than {0} steps")]
    LinkSteps(u64),
}

/// Why a path or an entry is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayerRejection {
    /// A `..` in a path, which could lead out of the image.
    #[error("the path has a \"..\" component")]
    ParentComponent,
    /// A zero byte in a path: readers disagree on where it ends.
    #[error("the path has a zero byte")]
    ZeroByte,
    /// A path that is no text.
    #[error("the path is not UTF-8")]
    NotUtf8,
    /// A label longer than [`Limits::path`](crate::layers::Limits::path).
    #[error("the path has more than {0} bytes")]
    TooLong(usize),
    /// The root of the image given as something else than a folder.
    #[error("the root of the image is not a folder")]
    Root,
    /// A whiteout that hides nothing a path can name, or that is a folder.
    #[error("the whiteout names nothing that it could hide")]
    Whiteout,
    /// A device, fifo or an entry of an unknown type.
    #[error("{0} is neither a file, a folder nor a link")]
    Special(&'static str),
    /// A sparse file of a format that is not known.
    #[error("a sparse file of this format is not read; the old GNU format, 0.0, 0.1 and 1.0 are")]
    Sparse,
    /// A hardlink to something that no layer had at that point.
    #[error("the hardlink's target {target:?} is not there")]
    HardlinkMissing {
        /// As the archive has it.
        target: String,
    },
    /// A hardlink out of the folder.
    #[error("the hardlink's target {target:?} is outside the folder")]
    HardlinkOutside {
        /// As the archive has it.
        target: String,
    },
    /// A hardlink to something else than a file.
    #[error("the hardlink's target {target:?} is not a file")]
    HardlinkNotAFile {
        /// As the archive has it.
        target: String,
    },
    /// An entry below a symlink: where it would land depends on the reader.
    #[error("the path leads through the symlink {link:?}")]
    ThroughSymlink {
        /// The symlink's path.
        link: String,
    },
    /// A symlink to nothing.
    #[error("the symlink's target {target:?} is not there")]
    SymlinkDangling {
        /// As the archive has it.
        target: String,
    },
    /// A symlink out of the folder.
    #[error("the symlink's target {target:?} is outside the folder")]
    SymlinkOutside {
        /// As the archive has it.
        target: String,
    },
    /// A symlink to a folder. The peers' walk does not descend into one and
    /// fails to read it as a file.
    #[error("the symlink's target {target:?} is a folder; only symlinks to files are read")]
    SymlinkToFolder {
        /// As the archive has it.
        target: String,
    },
    /// Symlinks that lead to each other.
    #[error("the symlink to {target:?} leads through too many symlinks")]
    SymlinkLoop {
        /// As the archive has it.
        target: String,
    },
}
