//! Errors of files and folders, each with its path.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A file or folder of the data folder could not be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct DiskError {
    /// What was to be done.
    pub action: &'static str,
    /// With which file or folder.
    pub path: PathBuf,
    /// Why it failed.
    pub source: io::Error,
}

impl DiskError {
    /// For `map_err` on file operations.
    pub(super) fn at<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self {
            action,
            path: path.to_owned(),
            source,
        }
    }
}

/// Makes the names in a folder survive a power cut.
pub(super) fn sync_folder(folder: &Path) -> Result<(), DiskError> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(DiskError::at("sync", folder))
}
