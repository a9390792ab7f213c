//! Pieces of files on their way to whoever reads them.

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::ingest::done::Done;
use fbc::read::Piece;

/// The most buffers that wait for their next use, and the largest of them.
const WAITING: usize = 8;
const LARGEST: usize = 4 << 20;

/// The first bytes of a SQLite database, which is no file of pieces.
pub(super) const DATABASE: &[u8] = b"SQLite format 3\0";

/// A piece of a file.
pub(super) struct Part {
    /// The path of the file, if this is its first piece.
    pub(super) path: Option<String>,
    pub(super) content: PartContent,
}

pub(super) enum PartContent {
    /// Its bytes, to be read.
    Text(Piece, Text),
    /// What an earlier revision has of it.
    Done(Box<Done>),
}

/// The bytes of a piece.
pub(super) enum Text {
    /// In a file that is mapped.
    Mapped(Bytes),
    /// The start of a buffer of their own.
    Buffered { buffer: Buffer, length: usize },
}

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(bytes) => bytes,
            Self::Buffered { buffer, length } => buffer.bytes.get(..*length).unwrap_or_default(),
        }
    }
}

/// Buffers that are used again: the first touch of fresh memory is slow.
#[derive(Clone, Default)]
pub(super) struct Pool(Arc<Mutex<Vec<Vec<u8>>>>);

impl Pool {
    /// A buffer of at least this length. Its content is undefined.
    pub(super) fn take(&self, length: usize) -> Buffer {
        let mut bytes = self.0.lock().pop().unwrap_or_default();
        if bytes.len() < length {
            bytes.resize(length, 0);
        }
        Buffer {
            bytes,
            pool: self.clone(),
        }
    }
}

/// A buffer that goes back to its pool.
pub(super) struct Buffer {
    pub(super) bytes: Vec<u8>,
    pool: Pool,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut waiting = self.pool.0.lock();
        if bytes.len() <= LARGEST && waiting.len() < WAITING {
            waiting.push(bytes);
        }
    }
}
