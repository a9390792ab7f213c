//! Files that somebody reads while they are written.

use std::fs;
use std::path::Path;

/// Puts a file in the place of the one before, at once: nobody reads a part.
pub(crate) fn replace(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    let path = path.as_ref();
    let mut beside = path.as_os_str().to_owned();
    beside.push(".next");
    fs::write(&beside, content).unwrap();
    fs::rename(&beside, path).unwrap();
}
