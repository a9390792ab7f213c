//! The result of unpacking.

/// The files of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnpackedTree {
    pub(super) files: Vec<UnpackedFile>,
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

impl UnpackedTree {
    /// All files, in the order of [`walk_order`](crate::layers::walk_order).
    pub fn files(&self) -> &[UnpackedFile] {
        &self.files
    }
}
