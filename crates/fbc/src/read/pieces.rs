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
    /// Whether it is the whole file.
    pub is_whole: bool,
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
    Pieces {
        content,
        start: Some(0),
        cutter: Cutter::new(target),
    }
}

/// The pieces of a file, in order. See [`pieces`].
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    content: &'a [u8],
    /// Where the next piece starts.
    start: Option<usize>,
    cutter: Cutter,
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let start = self.start?;
        let rest = self.content.get(start..)?;
        let piece = self.cutter.last(rest);
        let end = start + piece.range.end;
        self.start = (end < self.content.len()).then_some(end);
        Some(Piece {
            range: start..end,
            ..piece
        })
    }
}

/// Cuts one file into the same pieces as [`pieces`] while its bytes arrive.
///
/// ```
/// use fbc::read::Cutter;
///
/// let mut cutter = Cutter::new(1);
/// let mut file = b"{\"a\":1}\n{\"a\":2}\n{\"a\"".to_vec();
/// let piece = cutter.next(&file).unwrap();
/// assert_eq!(&file[piece.range.clone()], b"{\"a\":1}\n");
/// file.drain(piece.range);
/// assert_eq!(cutter.next(&file).unwrap().range, 0..8);
/// file.drain(..8);
/// assert_eq!(cutter.next(&file), None);
/// file.extend(b":3}");
/// assert_eq!(cutter.last(&file).range, 0..7);
/// ```
#[derive(Clone, Debug)]
pub struct Cutter {
    target: usize,
    /// Known once the first piece ends.
    format: Option<Format>,
    /// The number of bytes from which another search is worth it.
    wanted: usize,
}

impl Cutter {
    /// Cuts a file into pieces of at least `target` bytes.
    pub fn new(target: usize) -> Self {
        Self {
            target,
            format: None,
            wanted: target,
        }
    }

    /// The next piece, at the start of `bytes`: these follow the piece before, and
    /// more of them may follow. `None` when more are needed to tell where it ends.
    pub fn next(&mut self, bytes: &[u8]) -> Option<Piece> {
        if bytes.len() < self.wanted {
            return None;
        }
        let piece = self.cut(bytes);
        self.wanted = match piece {
            Some(_) => self.target,
            // Large documents are not searched at each byte.
            None if self.format.is_some() => bytes.len() + self.target / 4,
            None => bytes.len().saturating_mul(2),
        };
        piece
    }

    /// The next piece, at the start of `bytes`, which reach to the end of the file.
    pub fn last(&mut self, bytes: &[u8]) -> Piece {
        self.cut(bytes).unwrap_or_else(|| Piece {
            range: 0..bytes.len(),
            format: self.format.unwrap_or_else(|| first_format(bytes)),
            is_whole: self.format.is_none(),
        })
    }

    /// The piece that ends within these bytes.
    fn cut(&mut self, bytes: &[u8]) -> Option<Piece> {
        let format = self.format.unwrap_or_else(|| first_format(bytes));
        let end = match format {
            Format::Json | Format::Undecided => json_cut(bytes, self.target)?,
            Format::Yaml => {
                let mut starts = yaml::documents(bytes).map(|document| document.offset);
                starts.find(|offset| *offset >= self.target.max(1))?
            }
        };
        let format = match format {
            // A file of one piece is read only once.
            Format::Undecided if !begins_with_two_objects(bytes) => return None,
            Format::Undecided => Format::Json,
            decided => decided,
        };
        self.format = Some(format);
        Some(Piece {
            range: 0..end,
            format,
            is_whole: false,
        })
    }
}

/// The first place at or after `from` where an object begins.
fn json_cut(content: &[u8], from: usize) -> Option<usize> {
    let found = memchr::memmem::find(content.get(from..)?, b"}\n{")?;
    Some(from + found + 2)
}

/// The notation of a file with this beginning, as far as that shows it.
fn first_format(content: &[u8]) -> Format {
    if content.trim_ascii_start().starts_with(b"{") {
        Format::Undecided
    } else {
        Format::Yaml
    }
}

fn begins_with_two_objects(content: &[u8]) -> bool {
    let content = &content[..content.len().min(MAX_LENGTH)];
    let mut canonicaliser = Canonicaliser::default();
    let mut read = |at| canonicaliser.read(content, at, &mut Vec::new()).ok()?;
    read(0).and_then(read).is_some()
}
