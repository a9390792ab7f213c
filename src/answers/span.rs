//! Pieces of the files that answers are written to.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A piece of a file. Packed, since a catalog has tens of thousands of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C, packed(4))]
pub struct Span {
    /// Bytes from the start of the file.
    pub start: u64,
    /// Its length in bytes.
    pub length: u32,
}

impl Span {
    /// The bytes appended to `out` since its length was `start`.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a piece stems from one document, which is at most 1 GiB long"
    )]
    pub fn since(out: &[u8], start: usize) -> Self {
        Self {
            start: start as u64,
            length: (out.len() - start) as u32,
        }
    }

    /// Moves the piece `by` bytes towards the end.
    pub fn shift(&mut self, by: u64) {
        self.start += by;
    }

    /// Where it ends.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(u64::from(self.length))
    }

    /// Its place in a file that lies in memory.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a file in memory is not longer than an address reaches"
    )]
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.end() as usize
    }

    /// Its bytes, if `file` has them all.
    pub fn of<'a>(&self, file: &'a [u8]) -> Option<&'a [u8]> {
        file.get(self.range())
    }
}

/// A stream of messages in gRPC's framing, ready to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// Bytes from the start of the file.
    pub start: u64,
    /// Its length in bytes.
    pub length: u64,
}
