//! Pieces of files on their way to whoever reads them.

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::ingest::read::read_piece::ReadPiece;
use fbc::read::Piece;

/// The most buffers that wait for their next use, and the largest of them.
const WAITING: usize = 8;
const LARGEST: usize = 4 << 20;

/// The first bytes of a SQLite database, which is no file of pieces.
pub(crate) const DATABASE: &[u8] = b"SQLite format 3\0";

/// A piece of a file.
pub(crate) struct FilePart {
    /// The path of the file, if this is its first piece.
    pub(crate) path: Option<String>,
    pub(crate) content: FilePartContent,
}

pub(crate) enum FilePartContent {
    /// Its bytes, to be read.
    Text(Piece, Text),
    /// What an earlier revision has of it.
    Read(Box<ReadPiece>),
}

/// The bytes of a piece.
pub(crate) enum Text {
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
pub(crate) struct Pool(Arc<Mutex<Vec<Vec<u8>>>>);

impl Pool {
    /// A buffer of at least this length. Its content is undefined.
    pub(crate) fn take(&self, length: usize) -> Buffer {
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
pub(crate) struct Buffer {
    pub(crate) bytes: Vec<u8>,
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
