//! What was read of a piece.

use crate::document::Blobs;
use crate::fields::Fields;
use crate::message::Ends;
use crate::problem::{Code, Problem, Subject};
use crate::read::Head;

/// How many findings about documents of one piece are listed.
pub(crate) const MAX_PROBLEMS: usize = 1_000;

/// What a piece holds.
#[derive(Debug, Default)]
pub struct Output {
    /// Canonical lines, each with its line end.
    pub lines: Vec<u8>,
    /// Parts of registry messages; the spans in `blobs` count from here.
    pub messages: Vec<u8>,
    /// One for each line.
    pub metas: Vec<Meta>,
    /// What the blobs say. Their `meta`, `document` and `line` count from this
    /// piece.
    pub blobs: Blobs,
    /// What fields the blobs have.
    pub fields: Fields,
    /// Ends of made `ClusterServiceVersion`s, one for each package in `blobs`.
    pub ends: Vec<Ends>,
    /// What is wrong with documents, and where. At most a thousand, and then
    /// one that stands for the rest.
    pub problems: Vec<(Spot, Problem)>,
    /// How many documents there were.
    pub documents: u32,
    /// How many line ends there were.
    pub line_ends: u32,
}

/// Where in a piece something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The number of the document, from 0.
    pub document: u32,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1, where it is known.
    pub column: Option<u32>,
}

impl Output {
    /// Forgets what was read and keeps the memory of the byte buffers.
    pub fn clear(&mut self) {
        let (mut lines, mut messages) = (
            std::mem::take(&mut self.lines),
            std::mem::take(&mut self.messages),
        );
        lines.clear();
        messages.clear();
        *self = Self {
            lines,
            messages,
            ..Self::default()
        };
    }

    /// Notes what is wrong with the document that comes next.
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
            let problem = Problem {
                code: Code::ProblemsOmitted,
                severity,
                subject: Subject::default(),
                place: None,
                message: "from here on the file has further problems that are not listed; \
                          correct the listed ones first"
                    .to_owned(),
            };
            let spot = Spot {
                column: None,
                ..spot
            };
            self.problems.push((spot, problem));
        } else if let Some((_, rest)) = self.problems.last_mut() {
            // What is not listed still counts as what it is.
            rest.severity = rest.severity.max(severity);
        }
    }
}

/// A blob as it is stored: what it can be asked for by, and its line's length.
/// Kept small: a blob may say nothing but its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Schema, package and name, one behind the other.
    texts: Box<str>,
    schema_length: u32,
    package_length: u32,
    /// Bytes of its line, the line end included.
    pub length: u32,
}

impl Meta {
    pub(crate) fn new(head: &Head<'_>, length: u32) -> Self {
        let Head {
            schema,
            package,
            name,
        } = head;
        Self {
            texts: [&**schema, &**package, &**name].concat().into(),
            schema_length: schema.len() as u32,
            package_length: package.len() as u32,
            length,
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
