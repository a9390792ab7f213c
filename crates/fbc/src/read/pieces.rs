//! Files ─► pieces of about a megabyte, so that workers share one large file and
//! it never lies in memory twice.
//!
//! A piece begins where a document begins. In a stream of JSON objects such a
//! place is found without parsing: `}`, a line end and `{` follow each other only
//! between two top-level objects. Inside of an object a comma separates values,
//! and a string holds no bare line end. The first two objects are not cut: up to
//! there the file may still turn out to be YAML.

use std::ops::Range;

use crate::text::json::{Canonicaliser, MAX_LENGTH};
use crate::text::yaml;

/// A part of a file that can be read by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its bytes in the file.
    pub range: Range<usize>,
    /// The notation of its documents.
    pub format: Format,
}

/// The notation of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A stream of JSON objects.
    Json,
    /// A file that begins like JSON: a stream of objects, or at most one and
    /// then YAML.
    Undecided,
    /// YAML documents between separator lines.
    Yaml,
}

/// Cuts a file into pieces of at least `target` bytes; the last may be shorter.
/// Apart from its first two objects, the file is read only up to the end of the
/// next piece.
pub fn pieces(content: &[u8], target: usize) -> Pieces<'_> {
    let cut = if content.trim_ascii_start().starts_with(b"{") {
        Cut::Undecided
    } else {
        Cut::Yaml(Box::new(yaml::documents(content)))
    };
    Pieces {
        content,
        target,
        start: Some(0),
        cut,
    }
}

/// The pieces of a file, in order. See [`pieces`].
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    content: &'a [u8],
    target: usize,
    /// Where the next piece starts.
    start: Option<usize>,
    cut: Cut<'a>,
}

#[derive(Clone, Debug)]
enum Cut<'a> {
    Json,
    Undecided,
    Yaml(Box<yaml::Documents<'a>>),
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let start = self.start?;
        let from = start.saturating_add(self.target);
        // A file of one piece is read only once.
        if let Cut::Undecided = self.cut
            && json_cut(self.content, from).is_some()
            && begins_with_two_objects(self.content)
        {
            self.cut = Cut::Json;
        }
        let format;
        (format, self.start) = match &mut self.cut {
            Cut::Json => (Format::Json, json_cut(self.content, from)),
            Cut::Undecided => (Format::Undecided, None),
            Cut::Yaml(documents) => {
                let mut starts = documents.map(|document| document.offset);
                (Format::Yaml, starts.find(|offset| *offset >= from.max(1)))
            }
        };
        Some(Piece {
            range: start..self.start.unwrap_or(self.content.len()),
            format,
        })
    }
}

/// The first place at or after `from` where an object begins.
fn json_cut(content: &[u8], from: usize) -> Option<usize> {
    let found = memchr::memmem::find(content.get(from..)?, b"}\n{")?;
    Some(from + found + 2)
}

fn begins_with_two_objects(content: &[u8]) -> bool {
    let content = &content[..content.len().min(MAX_LENGTH)];
    let mut canonicaliser = Canonicaliser::default();
    let mut read = |at| canonicaliser.read(content, at, &mut Vec::new()).ok()?;
    read(0).and_then(read).is_some()
}
