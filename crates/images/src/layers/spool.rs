//! The one file that all contents are appended to.

use std::fs::File;
use std::io::{self, Seek as _, Write};

use crate::layers::error::UnpackError;

/// Bytes that are gathered before they are written.
const BUFFER: usize = 256 * 1024;

/// A file that file contents are unpacked into.
pub trait SpoolFile: Write {
    /// Removes all contents: unpacking starts again.
    fn clear(&mut self) -> io::Result<()>;
}

impl SpoolFile for File {
    fn clear(&mut self) -> io::Result<()> {
        self.set_len(0)?;
        self.rewind()
    }
}

/// Appends contents to a file in large writes. Contents are read straight into
/// its buffer: there is no second copy.
pub(super) struct Spool<'a> {
    file: &'a mut dyn SpoolFile,
    buffer: Box<[u8]>,
    filled: usize,
    written: u64,
}

impl<'a> Spool<'a> {
    pub(super) fn new(file: &'a mut dyn SpoolFile) -> Self {
        Self {
            file,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            filled: 0,
            written: 0,
        }
    }

    /// Forgets all contents.
    pub(super) fn restart(&mut self) -> Result<(), UnpackError> {
        self.filled = 0;
        self.written = 0;
        self.file.clear().map_err(UnpackError::Spool)
    }

    /// Where the next byte will stand.
    pub(super) fn position(&self) -> u64 {
        self.written + self.filled as u64
    }

    /// Appends what `read` puts into the buffers it is given, until it puts
    /// nothing.
    pub(super) fn append(
        &mut self,
        mut read: impl FnMut(&mut [u8]) -> Result<usize, UnpackError>,
    ) -> Result<(), UnpackError> {
        loop {
            if self.filled == self.buffer.len() {
                self.flush()?;
            }
            match read(&mut self.buffer[self.filled..])? {
                0 => return Ok(()),
                count => self.filled += count,
            }
        }
    }

    /// Writes what is gathered.
    pub(super) fn flush(&mut self) -> Result<(), UnpackError> {
        self.file
            .write_all(&self.buffer[..self.filled])
            .map_err(UnpackError::Spool)?;
        self.written += self.filled as u64;
        self.filled = 0;
        Ok(())
    }
}
