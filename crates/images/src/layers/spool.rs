//! Where the contents of files go.

use std::fs::File;
use std::io::{self, Seek as _, Write};

use crate::layers::error::UnpackError;

/// The size of the buffer, in bytes.
const BUFFER: usize = 256 * 1024;

/// Takes the contents of files, one file after the other, in the order of the layers.
/// A later entry or layer may replace or hide a file.
pub trait ContentSink {
    /// Removes all contents: unpacking starts again.
    fn clear(&mut self) -> io::Result<()>;

    /// The contents of a file follow. `path` is relative to the folder, with `/`
    /// between names; or the name, if the folder is a file itself.
    fn begin(&mut self, path: &str) -> io::Result<()>;

    /// Room for the next bytes of the file; never empty.
    fn room(&mut self) -> io::Result<&mut [u8]>;

    /// The first bytes of the room are the next ones of the file.
    fn advance(&mut self, count: usize) -> io::Result<()>;

    /// The file is complete.
    fn end(&mut self) -> io::Result<()>;

    /// All files are complete, unless [`Self::clear`] follows.
    fn finish(&mut self) -> io::Result<()>;
}

/// A file that all contents are written to, one after the other.
pub trait SpoolFile: Write {
    /// Removes all contents.
    fn clear(&mut self) -> io::Result<()>;
}

impl SpoolFile for File {
    fn clear(&mut self) -> io::Result<()> {
        self.set_len(0)?;
        self.rewind()
    }
}

/// Appends contents to a file in large writes.
pub(super) struct Spool<'a> {
    file: &'a mut dyn SpoolFile,
    buffer: Box<[u8]>,
    filled: usize,
}

impl<'a> Spool<'a> {
    pub(super) fn new(file: &'a mut dyn SpoolFile) -> Self {
        Self {
            file,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            filled: 0,
        }
    }
}

impl ContentSink for Spool<'_> {
    fn clear(&mut self) -> io::Result<()> {
        self.filled = 0;
        self.file.clear()
    }

    fn begin(&mut self, _path: &str) -> io::Result<()> {
        Ok(())
    }

    fn room(&mut self) -> io::Result<&mut [u8]> {
        if self.filled == self.buffer.len() {
            self.finish()?;
        }
        Ok(&mut self.buffer[self.filled..])
    }

    fn advance(&mut self, count: usize) -> io::Result<()> {
        self.filled += count;
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.file.write_all(&self.buffer[..self.filled])?;
        self.filled = 0;
        Ok(())
    }
}

/// The contents of all files, with the position of each.
pub(super) struct Contents<'a> {
    sink: &'a mut dyn ContentSink,
    written: u64,
}

impl<'a> Contents<'a> {
    pub(super) fn new(sink: &'a mut dyn ContentSink) -> Self {
        Self { sink, written: 0 }
    }

    /// Removes all contents.
    pub(super) fn restart(&mut self) -> Result<(), UnpackError> {
        self.written = 0;
        self.sink.clear().map_err(UnpackError::Spool)
    }

    /// The position of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.written
    }

    /// Appends a file: the bytes that `read` writes into buffers, until it writes
    /// none.
    pub(super) fn append(
        &mut self,
        path: &str,
        mut read: impl FnMut(&mut [u8]) -> Result<usize, UnpackError>,
    ) -> Result<(), UnpackError> {
        self.sink.begin(path).map_err(UnpackError::Spool)?;
        loop {
            let room = self.sink.room().map_err(UnpackError::Spool)?;
            match read(room)? {
                0 => return self.sink.end().map_err(UnpackError::Spool),
                count => {
                    self.sink.advance(count).map_err(UnpackError::Spool)?;
                    self.written += count as u64;
                }
            }
        }
    }

    /// Ends all contents.
    pub(super) fn finish(&mut self) -> Result<(), UnpackError> {
        self.sink.finish().map_err(UnpackError::Spool)
    }
}
