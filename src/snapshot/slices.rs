//! Slices of mapped files. A span that an index should not have gives an empty
//! slice, not a panic, and so does one whose bytes are damaged.

use bytes::Bytes;

use crate::answers::span::Span;
use crate::store::CheckedFile;

/// A span of a file.
pub(super) fn slice(file: &CheckedFile, span: Span) -> Bytes {
    file.slice(position(span.start)..position(span.end()))
}

/// The same, borrowed.
pub(super) fn bytes(file: &CheckedFile, span: Span) -> &[u8] {
    file.get(position(span.start)..position(span.end()))
        .unwrap_or(&[])
}

/// An offset in a mapped file. One beyond the address space is beyond the file.
pub(super) fn position(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
