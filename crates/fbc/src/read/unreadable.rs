//! Documents that cannot be read: the reason, and its place.

use crate::problem::{Code, Problem, Severity};
use crate::read::head::CORRECT;
use crate::read::output::{Output, saturated};
use crate::text::display::quoted;
use crate::text::json::JsonError;
use crate::text::yaml;

pub(crate) fn lines(bytes: &[u8]) -> u32 {
    saturated(memchr::memchr_iter(b'\n', bytes).count())
}

/// The length of the blanks at the start of `text`, up to a line's end. opm
/// skips them before it reads the rest as YAML.
pub(crate) fn blanks(text: &[u8]) -> usize {
    let line = memchr::memchr(b'\n', text).map_or(text.len(), |end| end + 1);
    line - text[..line].trim_ascii_start().len()
}

/// The reason why a document cannot be read, and its place in the piece.
pub(crate) struct Unreadable {
    line: u32,
    column: Option<u32>,
    message: String,
}

impl Unreadable {
    /// `line_ends` are those before `start`, where the value begins.
    pub(crate) fn from_json(error: &JsonError, text: &[u8], start: usize, line_ends: u32) -> Self {
        // An error at the end is shown after the last text.
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
            column: Some(saturated(column)),
            message,
        }
    }

    /// `first` is the document's first line.
    pub(crate) fn from_yaml(error: &yaml::YamlError, first: u32) -> Self {
        Self {
            line: first + error.line.map_or(0, |line| saturated(line) - 1),
            column: error.column.map(saturated),
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
    out.problem(line, column, Problem::new(code, Severity::Fatal, message));
    out.blobs.incomplete = true;
    out.documents += 1;
}

/// opm reads such a document as an object without a schema and refuses the
/// catalog, wherever the document stands in its file. catalogd ignores it, and so
/// do readers of served content: nothing is lost.
pub(super) fn empty(is_whole_file: bool) -> Problem {
    let message = if is_whole_file {
        "this file holds only comments or blank lines, and opm refuses a catalog with such a file; \
         remove the file or list it in .indexignore"
    } else {
        "this document holds only comments or blank lines, and opm refuses a catalog with such a \
         document; remove the `---` between it and its neighbour"
    };
    Problem::new(Code::DocumentEmpty, Severity::Error, message)
}

/// opm reads the first YAML document between two separators and silently ignores
/// the others.
pub(crate) fn ignored() -> Problem {
    Problem::new(
        Code::DocumentIgnored,
        Severity::Warning,
        "what begins here is not read, since a document has ended before it; put a line `---` \
         between the two",
    )
}

/// opm and catalogd read the last of equal keys, and do not mention the others.
pub(crate) fn repeated(key: &str, first_line: u32) -> Problem {
    let message = format!(
        "the key {} stands in line {first_line} already, and only the last one counts; keep one \
         of them",
        quoted(key)
    );
    Problem::new(Code::DocumentRepeatedKey, Severity::Warning, message)
}
