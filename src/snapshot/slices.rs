//! Slices of mapped files. A span that an index should not have gives an empty
//! slice, not a panic.

use bytes::Bytes;

use crate::answers::span::Span;

/// A span of a file.
pub(super) fn slice(file: &Bytes, span: Span) -> Bytes {
    file.slice_ref(bytes(file, span))
}

/// The same, borrowed.
pub(super) fn bytes(file: &Bytes, span: Span) -> &[u8] {
    file.get(position(span.start)..position(span.end()))
        .unwrap_or(&[])
}

/// An offset in a mapped file. One beyond the address space is beyond the file.
pub(super) fn position(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
