//! Lines: list items, keys and the nodes behind them.

use crate::text::json::write::write_string;
use crate::text::yaml::limits::Limits;
use crate::text::yaml::object::offset;
use crate::text::yaml::plain::input;
use crate::text::yaml::plain::reader::{Kind, Reader};
use crate::text::yaml::plain::unquoted::Stop;
use crate::text::yaml::scalar::{Scalar, plain};

/// Implicit keys of up to 1024 bytes are legal; longer ones than this are left
/// to the parser.
const LONGEST_KEY: usize = 1000;

/// Does the same as [`to_json`](crate::text::yaml::to_json), but without the parser.
/// Appends nothing and returns `None` if the document needs the parser. Public for
/// comparisons of the two ways.
pub fn plain_to_json(document: &[u8], limits: &Limits, out: &mut Vec<u8>) -> Option<bool> {
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
    let found = reader.document();
    if found != Some(true) {
        out.truncate(base);
    }
    found
}

/// A line of a document.
pub(super) enum Line {
    /// Its text begins at this column.
    At(usize),
    /// There is no further one.
    End,
}

/// In all of them `None` means that the parser has to read the document.
impl Reader<'_, '_> {
    /// Reads the document. Returns whether it has a value.
    pub(super) fn document(&mut self) -> Option<bool> {
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
    pub(super) fn separator(&mut self) -> Option<()> {
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

    /// Moves to the text of the next line that is neither blank nor a comment.
    pub(super) fn next_line(&mut self) -> Option<Line> {
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

    /// Completes the collections that end before a line at `column`.
    pub(super) fn leave(&mut self, column: usize) -> Option<()> {
        while self.frames.last().is_some_and(|top| top.column > column) {
            self.close()?;
            if self.frames.is_empty() {
                return None;
            }
        }
        Some(())
    }

    /// Reads the nodes that begin on a line at `column`.
    pub(super) fn line(&mut self, mut column: usize) -> Option<()> {
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
    pub(super) fn item(&mut self, column: usize) -> Option<()> {
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
    pub(super) fn key(&mut self, column: usize, colon: usize, text: &str) -> Option<()> {
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
    pub(super) fn quoted_key(&mut self, column: usize, colon: usize) -> Option<()> {
        let key = self.start_key(column, colon)?;
        self.quoted()?;
        self.end_key(key, colon)
    }

    /// Prepares for a key at `column`. Returns its start in the output.
    pub(super) fn start_key(&mut self, column: usize, colon: usize) -> Option<u32> {
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
        Some(offset(self.out.len() - self.base))
    }

    /// Completes a key and reads the value on its line.
    pub(super) fn end_key(&mut self, key: u32, colon: usize) -> Option<()> {
        let written = self.out.get(self.base + key as usize..)?;
        if written.contains(&b'\\') {
            self.escaped_keys = true;
        }
        self.out.push(b':');
        self.charge()?;
        let value = offset(self.out.len() - self.base);
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
    pub(super) fn node(&mut self, column: usize) -> Option<()> {
        self.check_node(column)?;
        self.scalar()
    }

    /// Whether a scalar may begin a line, or follow a dash, at `column`.
    pub(super) fn check_node(&self, column: usize) -> Option<()> {
        let top = self.frames.last()?;
        (top.awaiting && column > top.column).then_some(())
    }

    /// Reads a scalar, or a collection on one line.
    pub(super) fn scalar(&mut self) -> Option<()> {
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

    /// Writes the folded form of `breaks` line ends between two lines of text.
    pub(super) fn write_folded(&mut self, breaks: usize) {
        if breaks == 1 {
            self.out.push(b' ');
        } else {
            self.write_breaks(breaks.saturating_sub(1));
        }
    }

    pub(super) fn write_breaks(&mut self, breaks: usize) {
        for _ in 0..breaks {
            self.out.extend_from_slice(b"\\n");
        }
    }
}
