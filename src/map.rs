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
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
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

    /// Leaves out bytes that nobody will read: they take no room.
    pub fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let bytes = i64::try_from(bytes).map_err(io::Error::other)?;
        self.0.seek_relative(bytes)
    }

    /// Ends the file at this length, also where its last bytes were left out.
    pub fn end_at(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    /// Another handle of the file, which only reads.
    pub fn reader(&self) -> io::Result<UnnamedReader> {
        self.0.try_clone().map(UnnamedReader)
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

/// Reads an [`UnnamedFile`] while more is written to it.
pub struct UnnamedReader(File);

impl UnnamedReader {
    /// Reads bytes that were written, into a buffer that is used again.
    pub fn read(&self, range: &Range<u64>, bytes: &mut Vec<u8>) -> io::Result<()> {
        let length = range.end.saturating_sub(range.start);
        bytes.resize(usize::try_from(length).map_err(io::Error::other)?, 0);
        self.0.read_exact_at(bytes, range.start)
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
        let (reader, mut read) = (file.reader().unwrap(), Vec::new());
        reader.read(&(1..3), &mut read).unwrap();
        assert_eq!(read, b"ep");
        assert!(reader.read(&(1..5), &mut read).is_err());
        file.skip(2).unwrap();
        file.write_all(b"!").unwrap();
        file.skip(3).unwrap();
        file.end_at(10).unwrap();
        assert_eq!(file.map().unwrap(), "kept\0\0!\0\0\0");
        assert!(UnnamedFile::new().unwrap().map().unwrap().is_empty());
    }
}
