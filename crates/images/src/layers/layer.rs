//! A layer of an image, and an unpacked file.

/// One layer of an image.
pub struct Layer<R> {
    /// The name in messages: its digest.
    pub name: String,
    /// The stored bytes: a tar archive, plain or compressed with gzip or zstd.
    /// It is read to the end unless an error occurs.
    pub reader: R,
}

/// One file of the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpackedFile {
    /// The path relative to the folder, with `/` between names; or its name, if
    /// the folder is a file itself. It is a text to show and compare, not a path
    /// to open.
    pub path: String,
    /// The position of its contents in the spool file, in bytes.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
}
