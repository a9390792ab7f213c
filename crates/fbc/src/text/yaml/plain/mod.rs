//! Plain block YAML to JSON, line by line: what nearly all catalogs consist
//! of, several times faster than by way of the parser.
//!
//! [`convert`] either writes exactly what the parser's events would have become
//! or gives the document back. It gives back whatever is rare or wrong: anchors,
//! tags, merge keys, flow collections of more than a line, directives, tabs in
//! indentation, more than one document, every error. So there is one reader
//! that says what YAML is, the one in `builder`, and this one only has to be
//! right where it answers. The fuzz target `plain` compares the two.
//!
//! Columns count from 0. As in the parser, a collection's column is that of
//! its keys or dashes, and a list may stand at the column of the key it
//! belongs to.

mod block;
mod collections;
mod cursor;
mod flow;
mod input;
mod quoted;
#[cfg(test)]
pub(crate) mod tests;
mod unquoted;

use crate::text::json::write::write_string;
use crate::text::yaml::Limits;
use crate::text::yaml::object::Entry;
use crate::text::yaml::scalar::{Scalar, plain};
use collections::{Frame, Kind};
use unquoted::Stop;

/// Implicit keys of up to 1024 bytes are legal; longer ones than this are left
/// to the parser.
const LONGEST_KEY: usize = 1000;

/// Appends a document to `out` as canonical JSON, or appends nothing and
/// returns `None`: then the parser has to read it.
pub(crate) fn convert(document: &[u8], limits: &Limits, out: &mut Vec<u8>) -> Option<Found> {
    let text = input::acceptable(document)?;
    let base = out.len();
    let mut reader = Reader {
        text,
        bytes: text.as_bytes(),
        at: 0,
        base,
        out,
        frames: Vec::new(),
        entries: Vec::new(),
        escaped_keys: false,
        scratch: Vec::new(),
        depth: limits.depth,
        budget: limits.budget(document.len()),
    };
    let found = match reader.document() {
        Some(true) => return Some(Found::Value(reader.entries)),
        Some(false) => Some(Found::Nothing),
        None => None,
    };
    out.truncate(base);
    found
}

/// What a document holds.
#[derive(Debug)]
pub(crate) enum Found {
    /// Comments and blanks.
    Nothing,
    /// A value, which was appended. The entries are those of the object, none
    /// for a list; their offsets count from where its JSON starts.
    Value(Vec<Entry>),
}

struct Reader<'t, 'o> {
    text: &'t str,
    bytes: &'t [u8],
    /// Where the next byte to read is.
    at: usize,
    /// The document's own output. Offsets count from `base` in it.
    out: &'o mut Vec<u8>,
    base: usize,
    /// The collections that are not complete.
    frames: Vec<Frame>,
    /// The entries of all mappings that are not complete.
    entries: Vec<Entry>,
    /// Whether a key was written with an escape.
    escaped_keys: bool,
    /// Where objects are put in order.
    scratch: Vec<u8>,
    depth: usize,
    budget: usize,
}

/// A line of a document.
enum Line {
    /// Its text begins at this column.
    At(usize),
    /// There is no further one.
    End,
}

/// In all of them `None` means that the parser has to read the document.
impl Reader<'_, '_> {
    /// Reads the document; whether there is anything in it.
    fn document(&mut self) -> Option<bool> {
        self.separator()?;
        while let Line::At(column) = self.next_line()? {
            self.leave(column)?;
            self.line(column)?;
        }
        if self.frames.is_empty() {
            return Some(false);
        }
        while !self.frames.is_empty() {
            self.close()?;
        }
        Some(true)
    }

    /// Passes over a separator at the start.
    fn separator(&mut self) -> Option<()> {
        if !self.bytes.starts_with(b"---") {
            return Some(());
        }
        self.at = 3;
        if self.is_blank_or_end(self.at) {
            self.end_line()
        } else {
            None
        }
    }

    /// Goes to the text of the next line that has any and is no comment.
    fn next_line(&mut self) -> Option<Line> {
        loop {
            let column = self.spaces(self.at);
            self.at += column;
            match self.byte(self.at) {
                None => return Some(Line::End),
                Some(b'\n' | b'\r' | b'#') => self.at = self.line_end(self.at).1,
                Some(b'\t') => return None,
                Some(b'-' | b'.') if column == 0 => {
                    let rest = self.bytes.get(self.at..).unwrap_or_default();
                    if rest.starts_with(b"---") || rest.starts_with(b"...") {
                        return None;
                    }
                    return Some(Line::At(column));
                }
                Some(_) => return Some(Line::At(column)),
            }
        }
    }

    /// Completes the collections that a line at `column` is not part of.
    fn leave(&mut self, column: usize) -> Option<()> {
        while self.frames.last().is_some_and(|top| top.column > column) {
            self.close()?;
            if self.frames.is_empty() {
                return None;
            }
        }
        Some(())
    }

    /// Reads what begins on a line at `column`.
    fn line(&mut self, mut column: usize) -> Option<()> {
        while self.byte(self.at) == Some(b'-') && self.is_blank_or_end(self.at + 1) {
            self.item(column)?;
            let spaces = self.spaces(self.at + 1);
            self.at += 1 + spaces;
            column += 1 + spaces;
            if self.is_line_over() {
                return self.end_line();
            }
        }
        match self.byte(self.at)? {
            b'"' | b'\'' => match self.colon_behind_quoted() {
                Some(colon) => self.quoted_key(column, colon),
                None => self.node(column),
            },
            b'|' | b'>' | b'[' | b'{' => self.node(column),
            _ => {
                let first = self.unquoted()?;
                if let Stop::Colon(colon) = first.stop {
                    let key = self.text.get(self.at..first.end)?;
                    self.key(column, colon, key)
                } else {
                    self.check_node(column)?;
                    self.finish_unquoted(&first)
                }
            }
        }
    }

    /// Begins an item of a list whose dashes are at `column`.
    fn item(&mut self, column: usize) -> Option<()> {
        match self.frames.last() {
            Some(top) if top.column == column => match top.kind {
                Kind::List | Kind::ListInMapping => self.fill()?,
                Kind::Mapping => self.start(Kind::ListInMapping, column)?,
            },
            _ => self.start(Kind::List, column)?,
        }
        let length = self.out.len() - self.base;
        let top = self.frames.last_mut()?;
        top.awaiting = true;
        if length > top.start + 1 {
            self.out.push(b',');
        }
        Some(())
    }

    /// Reads a key without quotes and the value on its line.
    fn key(&mut self, column: usize, colon: usize, text: &str) -> Option<()> {
        let scalar = plain(text);
        if text == "<<" {
            return None;
        }
        let key = self.start_key(column, colon)?;
        match scalar {
            Scalar::Text(text) => write_string(self.out, &text),
            other => other.write_key(self.out).ok()?,
        }
        self.end_key(key, colon)
    }

    /// Reads a key in quotes and the value on its line.
    fn quoted_key(&mut self, column: usize, colon: usize) -> Option<()> {
        let key = self.start_key(column, colon)?;
        self.quoted()?;
        self.end_key(key, colon)
    }

    /// Prepares for a key at `column`, and tells where in the output it starts.
    fn start_key(&mut self, column: usize, colon: usize) -> Option<u32> {
        if colon - self.at > LONGEST_KEY {
            return None;
        }
        match self.frames.last() {
            Some(top) if top.column == column => {
                match top.kind {
                    Kind::List => return None,
                    Kind::ListInMapping => self.close()?,
                    Kind::Mapping => {}
                }
                self.fill()?;
            }
            _ => self.start(Kind::Mapping, column)?,
        }
        let length = self.out.len() - self.base;
        let top = self.frames.last()?;
        if length > top.start + 1 {
            self.out.push(b',');
        }
        Some((self.out.len() - self.base) as u32)
    }

    /// Completes a key and reads the value on its line.
    fn end_key(&mut self, key: u32, colon: usize) -> Option<()> {
        let written = self.out.get(self.base + key as usize..)?;
        if written.contains(&b'\\') {
            self.escaped_keys = true;
        }
        self.out.push(b':');
        self.charge()?;
        let value = (self.out.len() - self.base) as u32;
        let top = self.frames.last_mut()?;
        top.awaiting = true;
        top.key = key;
        top.value = value;
        self.at = colon + 1;
        self.at += self.spaces(self.at);
        if self.is_line_over() {
            return self.end_line();
        }
        self.scalar()
    }

    /// Reads a node that is no block collection and begins a line at `column`.
    fn node(&mut self, column: usize) -> Option<()> {
        self.check_node(column)?;
        self.scalar()
    }

    /// Whether a scalar may begin a line, or follow a dash, at `column`.
    fn check_node(&self, column: usize) -> Option<()> {
        let top = self.frames.last()?;
        (top.awaiting && column > top.column).then_some(())
    }

    /// Reads a scalar, or a collection on one line.
    fn scalar(&mut self) -> Option<()> {
        match self.byte(self.at)? {
            b'"' | b'\'' => {
                self.quoted()?;
                self.finish_node()?;
                self.end_line()
            }
            b'|' | b'>' => {
                self.block_scalar()?;
                self.finish_node()
            }
            b'[' | b'{' => {
                self.flow()?;
                self.finish_node()?;
                self.end_line()
            }
            _ => {
                let first = self.unquoted()?;
                self.finish_unquoted(&first)
            }
        }
    }

    /// Writes what `breaks` line ends between two lines of text are folded to.
    fn write_folded(&mut self, breaks: usize) {
        if breaks == 1 {
            self.out.push(b' ');
        } else {
            self.write_breaks(breaks.saturating_sub(1));
        }
    }

    fn write_breaks(&mut self, breaks: usize) {
        for _ in 0..breaks {
            self.out.extend_from_slice(b"\\n");
        }
    }
}
