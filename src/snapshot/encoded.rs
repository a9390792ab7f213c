//! Bytes for an answer, as slices of mapped files.

use bytes::{Bytes, BytesMut};

use crate::snapshot::slices::position;

/// Runs below this many bytes are copied together.
const SMALL: usize = 8 << 10;
/// The most bytes that are copied for one answer: they stay in memory until a
/// slow client has read them.
const MAX_COPIED: usize = 256 << 10;

/// Bytes that are ready to send.
#[derive(Clone, Debug, Default)]
pub struct Encoded {
    /// The slices, in order.
    pub parts: Vec<Bytes>,
    /// Their length together, in bytes.
    pub length: u64,
}

/// Slices of files, the small ones copied together: each would be a count to
/// keep and a write of its own.
#[derive(Default)]
pub(super) struct Gathered {
    encoded: Encoded,
    /// The bytes copied since the last slice.
    open: BytesMut,
    /// Bytes that were copied so far.
    pub(super) copied: usize,
}

impl Gathered {
    pub(super) fn add(&mut self, file: &Bytes, range: std::ops::Range<usize>) {
        if range.len() < SMALL && self.copied + range.len() <= MAX_COPIED {
            self.copied += range.len();
            self.copy(file.get(range).unwrap_or(&[]));
            return;
        }
        self.close();
        self.encoded.push(file.slice(range));
    }

    pub(super) fn copy(&mut self, bytes: &[u8]) {
        self.open.extend_from_slice(bytes);
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.encoded.push(self.open.split().freeze());
        }
    }

    pub(super) fn finish(mut self) -> Encoded {
        self.close();
        self.encoded
    }
}

impl Encoded {
    /// The given bytes of it.
    #[must_use]
    pub fn slice(&self, range: std::ops::Range<u64>) -> Self {
        let mut cut = Self::default();
        let mut start = 0;
        for part in &self.parts {
            let end = start + part.len() as u64;
            let (from, to) = (range.start.max(start), range.end.min(end));
            if from < to {
                cut.push(part.slice(position(from - start)..position(to - start)));
            }
            start = end;
        }
        cut
    }

    /// Appends a slice.
    pub fn push(&mut self, part: Bytes) {
        self.length += part.len() as u64;
        self.parts.push(part);
    }
}
