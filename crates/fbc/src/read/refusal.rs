//! Why documents are not read, and where that shows.

use crate::problem::{Code, Problem, Severity, Subject};
use crate::read::Output;
use crate::text::json::JsonError;
use crate::text::yaml;

/// What to do about a document that is none of a catalog.
pub(crate) const CORRECT: &str =
    "correct it, or list a file that is no part of the catalog in .indexignore";

pub(crate) fn lines(bytes: &[u8]) -> u32 {
    memchr::memchr_iter(b'\n', bytes).count() as u32
}

/// The bytes at the start of `text` that the peers pass over before they go on
/// with it as YAML: blanks, up to a line's end.
pub(crate) fn blanks(text: &[u8]) -> usize {
    let line = memchr::memchr(b'\n', text).map_or(text.len(), |end| end + 1);
    line - text[..line].trim_ascii_start().len()
}

/// Why a document is not read, and where that shows in its piece.
pub(crate) struct Refusal {
    line: u32,
    column: Option<u32>,
    message: String,
}

impl Refusal {
    /// `line_ends` are those before `start`, where the value begins.
    pub(crate) fn of_json(error: &JsonError, text: &[u8], start: usize, line_ends: u32) -> Self {
        // What is missing at the end is missing behind the last text.
        let end = text.trim_ascii_end().len().max(start);
        let (at, message) = if text[start..].starts_with(b"---") {
            let message = "a file that begins with two JSON objects is JSON to its end, where \
                           `---` cannot stand; leave that line out";
            (start, message.to_owned())
        } else {
            let message = format!("this is not JSON: {}; {CORRECT}", error.message);
            (error.offset.clamp(start, end), message)
        };
        let before = &text[..at];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        let column = String::from_utf8_lossy(&before[line_start..])
            .chars()
            .count()
            + 1;
        Self {
            line: line_ends + 1 + lines(&text[start..at]),
            column: Some(column as u32),
            message,
        }
    }

    /// `first` is the document's first line.
    pub(crate) fn of_yaml(error: &yaml::YamlError, first: u32) -> Self {
        Self {
            line: first + error.line.map_or(0, |line| line as u32 - 1),
            column: error.column.map(|column| column as u32),
            message: format!("this is not YAML: {}; {CORRECT}", error.message),
        }
    }

    pub(crate) fn note(self, out: &mut Output) {
        refuse_at(
            out,
            self.line,
            self.column,
            Code::FileUnreadable,
            self.message,
        );
    }
}

pub(crate) fn refuse(out: &mut Output, line: u32, code: Code, message: String) {
    refuse_at(out, line, None, code, message);
}

fn refuse_at(out: &mut Output, line: u32, column: Option<u32>, code: Code, message: String) {
    let problem = Problem {
        code,
        severity: Severity::Fatal,
        subject: Subject::default(),
        place: None,
        message,
    };
    out.problem(line, column, problem);
    out.blobs.incomplete = true;
    out.documents += 1;
}

/// opm takes such a document for an object without a schema and refuses the
/// catalog, wherever it stands in its file; catalogd passes over it. So do
/// readers of what is served: nothing is lost.
pub(super) fn empty() -> Problem {
    Problem {
        code: Code::DocumentEmpty,
        severity: Severity::Error,
        subject: Subject::default(),
        place: None,
        message: "this document holds only comments or blank lines, and opm refuses a catalog \
                  with such a document; remove the `---` between it and its neighbour"
            .to_owned(),
    }
}

/// The peers read the first YAML document between two separators and pass over
/// the others without a word.
pub(crate) fn ignored() -> Problem {
    Problem {
        code: Code::DocumentIgnored,
        severity: Severity::Warning,
        subject: Subject::default(),
        place: None,
        message: "what begins here is not read, since a document has ended before it; \
                  put a line `---` between the two"
            .to_owned(),
    }
}
