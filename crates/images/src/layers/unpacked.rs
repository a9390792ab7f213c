//! The result of unpacking.

/// The files under a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnpackedTree {
    pub(super) files: Vec<UnpackedFile>,
}

/// One file under the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpackedFile {
    /// Relative to the folder, with `/` between names; when the
    /// catalog folder is one file: its name. Text to show and to match, not a
    /// path to open.
    pub path: String,
    /// Where its contents start in the spool file, in bytes.
    pub offset: u64,
    /// How many bytes it has.
    pub size: u64,
}

impl UnpackedTree {
    /// All files, in the order of [`walk_order`](crate::layers::walk_order).
    pub fn files(&self) -> &[UnpackedFile] {
        &self.files
    }
}
