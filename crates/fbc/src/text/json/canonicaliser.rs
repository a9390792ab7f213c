//! Reads values one after the other and keeps its scratch memory.

use crate::text::json::buffers::{Buffers, TopMember};
use crate::text::json::cursor::StringEnds;
use crate::text::json::reader::{JsonError, MAX_LENGTH, Reader};

/// Reads values and writes them canonically; keeps its scratch memory.
#[derive(Default)]
pub struct Canonicaliser {
    buffers: Buffers,
    top: Vec<TopMember>,
    line_ends: u32,
}

impl Canonicaliser {
    /// Reads the value at `input[start..]` (white space before it is passed
    /// over), appends it to `out` and returns where it ended in the input;
    /// `None` when nothing but white space is left. Nothing is appended on an
    /// error. Each byte of a string that is not UTF-8 becomes U+FFFD, as in
    /// Go's reader.
    pub fn read(
        &mut self,
        input: &[u8],
        start: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, JsonError> {
        self.top.clear();
        self.line_ends = 0;
        if input.len() > MAX_LENGTH {
            return Err(JsonError {
                offset: start,
                message: "a file of more than 1 GiB cannot be read".to_owned(),
            });
        }
        let mut buffers = std::mem::take(&mut self.buffers);
        buffers.clear();
        let mut reader = Reader::new(input, start, buffers);
        let read = reader.next(out, &mut self.top);
        self.buffers = reader.buffers;
        self.line_ends = reader.line_ends;
        read
    }

    /// The members of the last value read, when it was an object.
    pub fn top_members(&self) -> &[TopMember] {
        &self.top
    }

    /// How many line ends the last value had in it and before it.
    pub(crate) fn line_ends(&self) -> u32 {
        self.line_ends
    }

    /// Where the strings of a top member's value end.
    pub(crate) fn string_ends(&self, member: &TopMember) -> StringEnds<'_> {
        match self.buffers.ends.get(member.ends..) {
            Some([start, ends @ ..]) => StringEnds {
                ends,
                start: *start,
            },
            _ => StringEnds::default(),
        }
    }
}
