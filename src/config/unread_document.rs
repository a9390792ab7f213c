//! A second document in a file that has one selection.

use std::fmt;
use std::path::{Path, PathBuf};

use fbc::select::image_set::ImageSet;

/// A document of an `ImageSetConfiguration` that is not read: a file has one selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadDocument {
    path: PathBuf,
    line: usize,
}

impl UnreadDocument {
    /// The unread document of a file, if there is one.
    pub fn new(path: &Path, set: &ImageSet) -> Option<Self> {
        let line = set.ignored?;
        let path = path.to_owned();
        Some(Self { path, line })
    }
}

impl fmt::Display for UnreadDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: line {}: only the first document is read; put this one into a file of its own",
            self.path.display(),
            self.line
        )
    }
}
