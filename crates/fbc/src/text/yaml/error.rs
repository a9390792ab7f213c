//! Errors of reading a document, with positions for its author.

use std::fmt;

use libyaml_safer::{ErrorKind, Mark};
use memchr::memchr_iter;

/// The reason why a document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct YamlError {
    /// The line within the document, from 1.
    pub line: Option<usize>,
    /// The column, in characters from 1.
    pub column: Option<usize>,
    /// The problem, for the author of the catalog.
    pub message: String,
}

impl YamlError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            line: None,
            column: None,
            message: message.into(),
        }
    }

    /// A problem that the parser found in `text`.
    pub(crate) fn from_parser(error: &libyaml_safer::Error, text: &str) -> Self {
        if error.kind() == ErrorKind::Reader
            && let Some((char, line, column)) = forbidden_character(text)
        {
            let message = format!(
                "the control character U+{:04X} is not allowed",
                u32::from(char)
            );
            return Self::new(message).at(line, column);
        }
        let message = match error.context() {
            Some(context) => format!("{} {context}", error.problem()),
            None => error.problem().to_owned(),
        };
        match place(error, text) {
            Some(mark) => Self::new(message).at(mark.line, mark.column),
            None => Self::new(message),
        }
    }

    /// The same at a position, with line and column from 0.
    pub(crate) fn at(self, line: u64, column: u64) -> Self {
        let from_one = |position: u64| {
            usize::try_from(position)
                .ok()
                .and_then(|at| at.checked_add(1))
        };
        Self {
            line: from_one(line),
            column: from_one(column),
            ..self
        }
    }

    /// The same at a position within `document`: an error behind its end moves behind
    /// its last text.
    pub(crate) fn within(self, document: &[u8]) -> Self {
        let text = document.trim_ascii_end();
        let last = memchr_iter(b'\n', text).count();
        match self.line {
            Some(line) if line > last + 1 => {
                let start = memchr::memrchr(b'\n', text).map_or(0, |at| at + 1);
                let column = String::from_utf8_lossy(&text[start..]).chars().count();
                self.at(last as u64, column as u64)
            }
            _ => self,
        }
    }
}

/// The position to show to the author. The parser notices a missing end only at the
/// next text that does not fit, which may be many lines below.
fn place(error: &libyaml_safer::Error, text: &str) -> Option<Mark> {
    let problem = error.problem_mark()?;
    let Some(start) = error.context_mark() else {
        return Some(problem);
    };
    let unended = match error.context() {
        Some("while scanning a quoted scalar" | "while scanning a simple key") => true,
        Some("while parsing a flow sequence" | "while parsing a flow mapping") => {
            is_outside(problem, start, text)
        }
        _ => false,
    };
    Some(if unended { start } else { problem })
}

/// Whether the text at `at`, by its indentation, cannot belong to a flow collection
/// that begins at `start`.
fn is_outside(at: Mark, start: Mark, text: &str) -> bool {
    let indentation = |mark: Mark| {
        let line = text.lines().nth(usize::try_from(mark.line).ok()?)?;
        let blanks = line.chars().take_while(|char| *char == ' ').count();
        (blanks < line.trim_end().len()).then_some(blanks as u64)
    };
    match (indentation(at), indentation(start)) {
        // There is no more text.
        (None, _) => true,
        (Some(one), Some(other)) if at.line > start.line => {
            // A collection that begins its line is a value by itself.
            one < other || one == other && other < start.column
        }
        _ => false,
    }
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (Some(line), Some(column)) => {
                write!(f, "line {line}, column {column}: {}", self.message)
            }
            (Some(line), None) => write!(f, "line {line}: {}", self.message),
            _ => f.write_str(&self.message),
        }
    }
}

/// The first character of `text` that YAML does not allow, with its line and
/// column from 0.
pub(crate) fn forbidden_character(text: &str) -> Option<(char, u64, u64)> {
    let allowed = |char: char| match char {
        '\t' | '\n' | '\r' | '\u{85}' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        _ => !char.is_control(),
    };
    let (at, char) = text.char_indices().find(|(_, char)| !allowed(*char))?;
    let (line, column) = position(&text.as_bytes()[..at]);
    Some((char, line, column))
}

/// The position after `before`, line and column from 0.
pub(crate) fn position(before: &[u8]) -> (u64, u64) {
    let line = memchr_iter(b'\n', before).count();
    let start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[start..]).chars().count();
    (line as u64, column as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_characters_are_found() {
        assert_eq!(forbidden_character("a\n\tb\u{85}\u{feff}\r"), None);
        assert_eq!(forbidden_character("a\nbä\0"), Some(('\0', 1, 2)));
        assert_eq!(forbidden_character("\u{7f}"), Some(('\u{7f}', 0, 0)));
        assert_eq!(forbidden_character("\u{fffe}"), Some(('\u{fffe}', 0, 0)));
    }
}
