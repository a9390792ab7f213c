//! Cuts a file into its documents at separator lines, as opm and catalogd do before
//! any parser sees the text.

use memchr::memmem::Finder;
use memchr::{memchr, memchr_iter};

/// How a separator line starts, with the line end before it.
const SEPARATOR: &[u8] = b"\n---";

/// One document of a file: the text between two separator lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Document<'a> {
    /// The bytes, with the line ends of the file.
    pub bytes: &'a [u8],
    /// Their offset in the file.
    pub offset: usize,
    /// The first line in the file, from 1.
    pub line: usize,
}

/// The documents of a file, in order. See [`documents`].
#[derive(Clone, Debug)]
pub struct Documents<'a> {
    input: &'a [u8],
    /// The start of the next document.
    start: usize,
    /// The line of `start`, from 1.
    line: usize,
    finder: Finder<'static>,
}

/// Cuts a file into its documents.
///
/// A separator is a line that starts with `---` and has only blanks or a comment
/// behind it. It ends a document and belongs to none. Only if the document would be
/// empty, the separator is the document's first line. Therefore a separator at the
/// start of a file and the second of two in a row make no document of their own. A
/// comment or blank line between two separators makes one, and so does the second of
/// three in a row; [`to_json`](crate::text::yaml::to_json) finds nothing in them.
pub fn documents(input: &[u8]) -> Documents<'_> {
    Documents {
        input,
        start: 0,
        line: 1,
        finder: Finder::new(SEPARATOR),
    }
}

/// The line, from 0, of a malformed separator: one with text behind it.
pub(crate) fn malformed_separator(document: &[u8]) -> Option<usize> {
    let malformed = |at: &usize| !is_separator(document, *at);
    let first = document
        .starts_with(&SEPARATOR[1..])
        .then_some(0)
        .filter(malformed);
    let at = first.or_else(|| {
        Finder::new(SEPARATOR)
            .find_iter(document)
            .map(|at| at + 1)
            .find(malformed)
    })?;
    Some(memchr_iter(b'\n', &document[..at]).count())
}

impl Document<'_> {
    /// The first line of the file with text, from 1: behind a separator, comments and
    /// blank lines.
    pub fn text_line(&self) -> usize {
        let mut at = 0;
        let mut passed = 0;
        while at < self.bytes.len() {
            let end = line_end(self.bytes, at);
            let text = self.bytes[at..end].trim_ascii();
            let separator =
                self.bytes[at..].starts_with(&SEPARATOR[1..]) && is_separator(self.bytes, at);
            if !(text.is_empty() || text.starts_with(b"#") || separator) {
                return self.line + passed;
            }
            at = end + 1;
            passed += 1;
        }
        self.line
    }
}

impl Documents<'_> {
    /// The number of lines passed.
    pub fn lines(&self) -> usize {
        self.line - 1
    }
}

impl<'a> Iterator for Documents<'a> {
    type Item = Document<'a>;

    fn next(&mut self) -> Option<Document<'a>> {
        if self.start >= self.input.len() {
            return None;
        }
        // A separator at the very start belongs to the document: the search needs a
        // line end before it.
        let mut from = self.start;
        let (end, next) = loop {
            let Some(found) = self.finder.find(&self.input[from..]) else {
                break (self.input.len(), self.input.len());
            };
            let line = from + found + 1;
            if is_separator(self.input, line) {
                break (line, line_end(self.input, line).saturating_add(1));
            }
            from = line;
        };
        let document = Document {
            bytes: &self.input[self.start..end],
            offset: self.start,
            line: self.line,
        };
        self.line += memchr_iter(b'\n', document.bytes).count() + 1;
        self.start = next;
        Some(document)
    }
}

/// Whether the line that starts at `at` with `---` is a separator: after the dashes it
/// has only blanks or a comment. opm and catalogd refuse all other such lines.
fn is_separator(input: &[u8], at: usize) -> bool {
    let after = &input[at + SEPARATOR.len() - 1..line_end(input, at)];
    let after = String::from_utf8_lossy(after);
    let after = after.trim_start();
    after.is_empty() || after.starts_with('#')
}

/// The end of the line that starts at `at`, without its line end.
fn line_end(input: &[u8], at: usize) -> usize {
    memchr(b'\n', &input[at..]).map_or(input.len(), |length| at + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(input: &str) -> Vec<(&str, usize)> {
        documents(input.as_bytes())
            .map(|document| {
                assert_eq!(
                    input.as_bytes()[document.offset..].get(..document.bytes.len()),
                    Some(document.bytes)
                );
                (std::str::from_utf8(document.bytes).unwrap(), document.line)
            })
            .collect()
    }

    #[test]
    fn a_file_is_cut_at_its_separators() {
        assert_eq!(cut("a: 1\n---\nb: 2\n"), [("a: 1\n", 1), ("b: 2\n", 3)]);
        assert_eq!(
            cut("a: 1\r\n---\r\nb: 2\r\n"),
            [("a: 1\r\n", 1), ("b: 2\r\n", 3)]
        );
        assert_eq!(
            cut("a: 1\n--- \t# next\nb: 2"),
            [("a: 1\n", 1), ("b: 2", 3)]
        );
        assert_eq!(cut("a: 1\n---"), [("a: 1\n", 1)]);
        assert_eq!(cut("a: 1\n---\n"), [("a: 1\n", 1)]);
        assert_eq!(cut("a: |\n  ---\n  b\n"), [("a: |\n  ---\n  b\n", 1)]);
    }

    #[test]
    fn a_document_begins_where_there_is_something_to_read() {
        let lines = |input: &str| -> Vec<usize> {
            let lines = documents(input.as_bytes()).map(|document| document.text_line());
            lines.collect()
        };
        assert_eq!(lines("a: 1\n---\nb: 2\n"), [1, 3]);
        assert_eq!(lines("---\na: 1\n---\n---\nb: 2\n"), [2, 5]);
        assert_eq!(lines("# c\n\na: 1\n--- # c\n\r\n  # c\r\nb: 2\n"), [3, 7]);
        // Nothing to read, and something that no reader takes.
        assert_eq!(lines("\n\n---\n# c\n--- x\n"), [1, 5]);
    }

    #[test]
    fn leading_and_doubled_separators_start_a_document() {
        assert_eq!(cut("---\na: 1\n"), [("---\na: 1\n", 1)]);
        assert_eq!(
            cut("a: 1\n---\n---\nb: 2\n"),
            [("a: 1\n", 1), ("---\nb: 2\n", 3)]
        );
        assert_eq!(cut("---\n---\na: 1\n"), [("---\n", 1), ("a: 1\n", 3)]);
        assert_eq!(cut("\n---\na: 1\n"), [("\n", 1), ("a: 1\n", 3)]);
        assert_eq!(cut("---"), [("---", 1)]);
    }

    #[test]
    fn comments_between_separators_are_a_document() {
        assert_eq!(
            cut("# one\n---\n# two\n---\na: 1\n"),
            [("# one\n", 1), ("# two\n", 3), ("a: 1\n", 5)]
        );
    }

    #[test]
    fn nothing_makes_no_document() {
        assert_eq!(cut(""), []);
        assert_eq!(cut("\n"), [("\n", 1)]);
    }

    #[test]
    fn a_separator_with_text_behind_it_is_found() {
        assert_eq!(
            cut("a: 1\n--- b\n---\nc: 3\n"),
            [("a: 1\n--- b\n", 1), ("c: 3\n", 4)]
        );
        assert_eq!(malformed_separator(b"a: 1\n--- b\n"), Some(1));
        assert_eq!(malformed_separator(b"---x\n"), Some(0));
        assert_eq!(malformed_separator(b"a: 1\nb: 2\n----\n"), Some(2));
        assert_eq!(malformed_separator(b"---\na: 1\n--- # fine\n ---x\n"), None);
    }
}
