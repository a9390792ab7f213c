//! Memory maps. Served bytes lie in files of many megabytes: mapped, the
//! system keeps or drops their pages, and an answer is a slice of them.
//!
//! A map is sound only while nobody writes to its file or truncates it. So
//! mapping any file is `unsafe`, and safe code maps through types that rule
//! such writes out: [`UnnamedFile`] here, and the store for its own files.
#![expect(
    unsafe_code,
    reason = "a map is sound only while its file does not change"
)]

use std::fs::File;
use std::io::{self, BufWriter, Seek as _, Write};
use std::path::Path;

use bytes::Bytes;
use images::layers::SpoolFile;
use memmap2::Mmap;

/// Maps a file for reading. The bytes live until their last slice is dropped,
/// even when the file is removed.
///
/// # Safety
/// Until then, nobody may truncate the file or change the bytes that it has
/// now. Appending is allowed.
pub unsafe fn map_file(file: &File) -> io::Result<Bytes> {
    if file.metadata()?.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the caller keeps the file from being truncated or changed.
    let map = unsafe { Mmap::map(file)? };
    Ok(Bytes::from_owner(map))
}

/// A temporary file without a name, to write and then map. Nobody else can open
/// it, and writing ends with the mapping.
pub struct UnnamedFile(File);

impl UnnamedFile {
    /// A file in the system's temporary folder.
    pub fn new() -> io::Result<Self> {
        tempfile::tempfile().map(Self)
    }

    /// A file in the file system of a folder.
    pub fn new_in(folder: &Path) -> io::Result<Self> {
        tempfile::tempfile_in(folder).map(Self)
    }

    /// All that was written.
    pub fn map(self) -> io::Result<Bytes> {
        // SAFETY: the file has no name, the only handle that writes never leaves
        // this type, and that handle is closed here.
        unsafe { map_file(&self.0) }
    }

    /// All that was written through a buffer.
    pub fn map_buffered(buffer: BufWriter<Self>) -> io::Result<Bytes> {
        let file = buffer.into_inner();
        file.map_err(io::IntoInnerError::into_error)?.map()
    }
}

impl Write for UnnamedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl SpoolFile for UnnamedFile {
    fn clear(&mut self) -> io::Result<()> {
        self.0.set_len(0)?;
        self.0.rewind()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unnamed_file_maps_what_was_written_after_it_was_cleared() {
        let mut file = UnnamedFile::new().unwrap();
        file.write_all(b"forgotten").unwrap();
        file.clear().unwrap();
        file.write_all(b"kept").unwrap();
        assert_eq!(file.map().unwrap(), "kept");
        assert!(UnnamedFile::new().unwrap().map().unwrap().is_empty());
    }
}
