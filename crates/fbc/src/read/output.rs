//! The content of a piece.

use serde::{Deserialize, Serialize};

use crate::document::Blobs;
use crate::fields::Fields;
use crate::problem::{Code, Problem};
use crate::read::head::Head;

/// The number of problems of one piece that are listed.
pub(crate) const MAX_PROBLEMS: usize = 1_000;

/// The content of a piece.
#[derive(Debug, Default)]
pub struct Output {
    /// Canonical lines, each with its line end.
    pub lines: Vec<u8>,
    /// One for each line.
    pub metas: Vec<Meta>,
    /// The blobs. Their `meta`, `document` and `line` are relative to this piece.
    pub blobs: Blobs,
    /// The fields of the blobs.
    pub fields: Fields,
    /// Problems of documents, each with its spot. There are at most a thousand,
    /// and then one for the rest.
    pub problems: Vec<(Spot, Problem)>,
    /// The number of documents.
    pub documents: u32,
    /// The number of line ends.
    pub line_ends: u32,
}

/// A place in a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The number of the document, from 0.
    pub document: u32,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1, if known.
    pub column: Option<u32>,
}

impl Output {
    /// Forgets the content and keeps the memory of the lines.
    pub fn clear(&mut self) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.clear();
        *self = Self {
            lines,
            ..Self::default()
        };
    }

    /// Notes a problem of the next document.
    pub(crate) fn problem(&mut self, line: u32, column: Option<u32>, problem: Problem) {
        let spot = Spot {
            document: self.documents,
            line,
            column,
        };
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push((spot, problem));
            return;
        }
        let severity = problem.severity;
        if self.problems.len() == MAX_PROBLEMS {
            let message = "from here on the file has further problems that are not listed; \
                           correct the listed ones first";
            let problem = Problem::new(Code::ProblemsOmitted, severity, message);
            let column = None;
            self.problems.push((Spot { column, ..spot }, problem));
        } else if let Some((_, rest)) = self.problems.last_mut() {
            // An unlisted problem keeps its severity.
            rest.severity = rest.severity.max(severity);
        }
    }
}

/// The identity of a blob, and the length of its line. Kept small: a catalog
/// may have a blob in every few bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Schema, package and name, one behind the other.
    texts: Box<str>,
    schema_length: u32,
    package_length: u32,
    /// Bytes of its line, the line end included.
    pub length: u32,
}

impl Meta {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a document is at most 1 GiB long, and its line not much more than twice that"
    )]
    pub(crate) fn new(head: &Head<'_>, length: usize) -> Self {
        let Head {
            schema,
            package,
            name,
        } = head;
        Self {
            texts: [&**schema, &**package, &**name].concat().into(),
            schema_length: schema.len() as u32,
            package_length: package.len() as u32,
            length: length as u32,
        }
    }

    /// Its schema.
    pub fn schema(&self) -> &str {
        &self.texts[..self.schema_length as usize]
    }

    /// Its package, or empty.
    pub fn package(&self) -> &str {
        &self.texts[self.schema_length as usize..][..self.package_length as usize]
    }

    /// Its name, or empty.
    pub fn name(&self) -> &str {
        &self.texts[(self.schema_length + self.package_length) as usize..]
    }
}

/// A count as a `u32`. No catalog reaches its limit.
pub(crate) fn saturated(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
