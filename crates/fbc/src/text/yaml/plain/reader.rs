//! The state of the reader, and its view of the text. The other files read nodes.

use memchr::memchr;

use crate::text::yaml::object::Entry;

/// Reads one document.
pub(super) struct Reader<'t, 'o> {
    pub(super) text: &'t str,
    pub(super) bytes: &'t [u8],
    /// The position of the next byte to read.
    pub(super) at: usize,
    /// The document's own output. Offsets count from `base` in it.
    pub(super) out: &'o mut Vec<u8>,
    pub(super) base: usize,
    /// The collections that are being read.
    pub(super) frames: Vec<Frame>,
    /// The entries of all mappings that are being read.
    pub(super) entries: Vec<Entry>,
    /// Whether a key was written with an escape.
    pub(super) escaped_keys: bool,
    /// The buffer for sorting objects.
    pub(super) scratch: Vec<u8>,
    pub(super) depth: usize,
    pub(super) budget: usize,
}

/// A collection that is being read.
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    /// The column of its keys or dashes.
    pub(crate) column: usize,
    /// Whether the node of its last dash or key is missing so far.
    pub(crate) awaiting: bool,
    /// The position of its bracket in the output.
    pub(crate) start: usize,
    /// The first of its entries on the stack of entries.
    pub(crate) first_entry: usize,
    /// The offsets of the key whose value is missing, and of the value.
    pub(crate) key: u32,
    pub(crate) value: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    List,
    /// A list at the column of the key it belongs to.
    ListInMapping,
    Mapping,
}

impl Reader<'_, '_> {
    /// Moves to the next line, if this one has only blanks and a comment left.
    pub(crate) fn end_line(&mut self) -> Option<()> {
        let blanks = self.blanks(self.at);
        self.at += blanks;
        match self.byte(self.at) {
            Some(b'#') if blanks == 0 && !self.is_after_blank() => return None,
            None | Some(b'\n' | b'\r' | b'#') => {}
            Some(_) => return None,
        }
        self.at = self.line_end(self.at).1;
        Some(())
    }

    /// Whether this line has at most a comment left. To be called behind a blank, or at
    /// the line's end.
    pub(crate) fn is_line_over(&self) -> bool {
        matches!(self.byte(self.at), None | Some(b'\n' | b'\r' | b'#'))
    }

    fn is_after_blank(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.byte(at));
        matches!(before, Some(b' ' | b'\t'))
    }

    pub(crate) fn byte(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    pub(crate) fn is_blank_or_end(&self, at: usize) -> bool {
        matches!(self.byte(at), None | Some(b' ' | b'\t' | b'\n' | b'\r'))
    }

    /// The number of spaces from `at` on.
    pub(crate) fn spaces(&self, at: usize) -> usize {
        let rest = self.bytes.get(at..).unwrap_or_default();
        rest.iter().take_while(|byte| **byte == b' ').count()
    }

    /// The number of spaces and tabs from `at` on.
    pub(crate) fn blanks(&self, at: usize) -> usize {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
        rest.iter().take_while(blank).count()
    }

    /// The end of the line at `at`, and the start of the next one.
    pub(crate) fn line_end(&self, at: usize) -> (usize, usize) {
        let rest = self.bytes.get(at..).unwrap_or_default();
        match memchr(b'\n', rest) {
            // Accepted documents have no other carriage returns.
            Some(length) if rest[..length].ends_with(b"\r") => (at + length - 1, at + length + 1),
            Some(length) => (at + length, at + length + 1),
            None => (self.bytes.len(), self.bytes.len()),
        }
    }
}
