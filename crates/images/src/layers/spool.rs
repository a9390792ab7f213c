//! The file with all contents.

use std::fs::File;
use std::io::{self, Seek as _, Write};
use std::ops::Range;

use crate::layers::error::UnpackError;

/// The size of the buffer, in bytes.
const BUFFER: usize = 256 * 1024;
/// The most files in one buffer that are told of.
const TOLD: usize = 1 << 10;

/// A file that file contents are unpacked into.
pub trait SpoolFile: Write {
    /// Removes all contents: unpacking starts again.
    fn clear(&mut self) -> io::Result<()>;

    /// These bytes, which were written, are the contents of a file of this name. Not
    /// every file is told of, and a later entry or layer may replace or hide this one.
    fn holds(&mut self, _name: &str, _range: Range<u64>) {}
}

impl SpoolFile for File {
    fn clear(&mut self) -> io::Result<()> {
        self.set_len(0)?;
        self.rewind()
    }
}

/// Appends contents to a file in large writes. Contents are read directly into
/// its buffer, without a copy.
pub(super) struct Spool<'a> {
    file: &'a mut dyn SpoolFile,
    buffer: Box<[u8]>,
    filled: usize,
    written: u64,
    /// Files that end in the buffer.
    ended: Vec<(String, Range<u64>)>,
}

impl<'a> Spool<'a> {
    pub(super) fn new(file: &'a mut dyn SpoolFile) -> Self {
        Self {
            file,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            filled: 0,
            written: 0,
            ended: Vec::new(),
        }
    }

    /// Removes all contents.
    pub(super) fn restart(&mut self) -> Result<(), UnpackError> {
        self.filled = 0;
        self.written = 0;
        self.ended.clear();
        self.file.clear().map_err(UnpackError::Spool)
    }

    /// The position of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.written + self.filled as u64
    }

    /// Appends the bytes that `read` writes into buffers, until it writes none.
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

    /// Notes that the contents of a file which began at `start` are complete.
    pub(super) fn end(&mut self, name: &str, start: u64) {
        let range = start..self.position();
        if !range.is_empty() && self.ended.len() < TOLD {
            self.ended.push((name.to_owned(), range));
        }
    }

    /// Writes the buffer to the file.
    pub(super) fn flush(&mut self) -> Result<(), UnpackError> {
        self.file
            .write_all(&self.buffer[..self.filled])
            .map_err(UnpackError::Spool)?;
        self.written += self.filled as u64;
        self.filled = 0;
        for (name, range) in self.ended.drain(..) {
            self.file.holds(&name, range);
        }
        Ok(())
    }
}
