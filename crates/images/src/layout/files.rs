//! Opening the files of a layout, and reading its documents.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::layout::error::LayoutError;
use crate::manifest::MAX_DOCUMENT;

/// Opens a regular file and returns its size. Nothing else is opened: a named
/// pipe would block for ever.
pub(super) fn open_file(path: &Path) -> Result<(File, u64), LayoutError> {
    let read = |source| LayoutError::Read {
        path: path.into(),
        source,
    };
    if !std::fs::metadata(path).map_err(read)?.is_file() {
        return Err(LayoutError::NoFile { path: path.into() });
    }
    let file = File::open(path).map_err(read)?;
    let size = file.metadata().map_err(read)?.len();
    Ok((file, size))
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
