//! The scratch memory of the reader: values that change on the way to their
//! canonical form, and the members of objects that are being read.

use std::ops::Range;

/// A member of the object that was read last, as ranges of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopMember {
    /// The key, without its quotes.
    pub key: Range<usize>,
    /// The value.
    pub value: Range<usize>,
    /// The position in `ends` of the offset of the value's first byte. The ends of
    /// its strings follow.
    pub(super) ends: usize,
}

#[derive(Default)]
pub(super) struct Buffers {
    /// Values whose canonical form is not in the input, in full.
    pub(super) changed: Vec<u8>,
    /// The members of all objects that are being read.
    pub(super) members: Vec<Member>,
    /// An object that is being sorted.
    pub(super) ordered: Vec<u8>,
    /// The ends of strings, counted as if everything was copied to `changed`. For
    /// the document's own keys: the offsets of their values.
    pub(super) ends: Vec<u32>,
    /// The ends of strings in an object that is being sorted.
    pub(super) ordered_ends: Vec<u32>,
}

impl Buffers {
    pub(super) fn clear(&mut self) {
        self.changed.clear();
        self.members.clear();
        self.ends.clear();
    }
}

/// A member of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// With its quotes.
    pub(super) key: Slice,
    pub(super) value: Slice,
    /// The place of its first string, the key, in `ends`.
    pub(super) ends: u32,
    /// Whether the key has escapes.
    pub(super) escaped: bool,
}

/// A range of the input or of `changed`. It is small, since an object may have a
/// member in every six bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    pub(super) start: u32,
    pub(super) length: u32,
}

/// An offset into the input or into `changed`.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the input has at most 1 GiB, and `changed` less than twice as much"
)]
pub(super) fn offset(at: usize) -> u32 {
    at as u32
}

/// Set in the start of slices of `changed`; others are of the input.
pub(super) const CHANGED: u32 = 1 << 31;

impl Slice {
    #[inline]
    pub(super) fn of<'a>(self, input: &'a [u8], changed: &'a [u8]) -> &'a [u8] {
        let start = (self.start & !CHANGED) as usize;
        let source = if self.start & CHANGED == 0 {
            input
        } else {
            changed
        };
        &source[start..start + self.length as usize]
    }
}
