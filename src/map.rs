//! Memory maps of files that never change: one of two modules with `unsafe`.
//!
//! What is served lies in files of many megabytes; mapped, their pages are the
//! system's to keep or drop, and an answer is a slice of them.
#![expect(
    unsafe_code,
    reason = "a map is only sound while its file does not change"
)]

use std::fs::File;
use std::io;
use std::path::Path;

use bytes::Bytes;
use memmap2::Mmap;

/// Maps a file of ours for reading. The bytes live until the last slice of
/// them is dropped, also when the file was removed meanwhile.
///
/// Only for files that nobody writes to or cuts while they are mapped: files of
/// a finished revision, blobs under their digest, and a pass's own spool once
/// it is complete. They lie in the data folder, which one almanac holds locked;
/// replaced content always comes as another file.
pub fn map(path: &Path) -> io::Result<Bytes> {
    map_file(&File::open(path)?)
}

/// Maps an open file, under the same rule as [`map`].
pub fn map_file(file: &File) -> io::Result<Bytes> {
    if file.metadata()?.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: by the rule above the file is neither written to nor cut as long
    // as the map lives, so the bytes behind the slice do not change.
    let map = unsafe { Mmap::map(file)? };
    Ok(Bytes::from_owner(map))
}
