//! Scalars without quotes, on one line or folded over several.

use memchr::memchr2_iter;

use crate::text::json::write::write_string_part;
use crate::text::yaml::plain::reader::Reader;
use crate::text::yaml::scalar::plain;

/// A line of a scalar without quotes.
pub(crate) struct Unquoted {
    /// The end of its text, without the blanks behind it.
    pub(crate) end: usize,
    pub(crate) stop: Stop,
    /// The start of the next line.
    pub(crate) next: usize,
}

/// The text behind a scalar without quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A colon, here, that makes a key of it.
    Colon(usize),
    Comment,
    LineEnd,
}

impl Reader<'_, '_> {
    /// Finds the end of the line of a scalar without quotes that starts here.
    pub(crate) fn unquoted(&self) -> Option<Unquoted> {
        self.starts_unquoted().then(|| self.unquoted_line())
    }

    /// Writes a scalar with a known first line.
    pub(crate) fn finish_unquoted(&mut self, first: &Unquoted) -> Option<()> {
        let text = self.text.get(self.at..first.end)?;
        self.at = first.next;
        match self.continuation(first.stop)? {
            0 => plain(text).write_value(self.out).ok()?,
            breaks => {
                // No type has a blank in its text, so it is a string.
                self.out.push(b'"');
                write_string_part(self.out, text);
                self.unquoted_lines(breaks)?;
                self.out.push(b'"');
            }
        }
        self.finish_node()
    }

    /// Writes the lines behind the first one. The next one is here, behind `breaks` line
    /// ends.
    fn unquoted_lines(&mut self, mut breaks: usize) -> Option<()> {
        while breaks > 0 {
            self.write_folded(breaks);
            let line = self.unquoted_line();
            write_string_part(self.out, self.text.get(self.at..line.end)?);
            self.charge()?;
            self.at = line.next;
            breaks = self.continuation(line.stop)?;
        }
        Some(())
    }

    /// Moves to the next line of a scalar without quotes. Returns the number of line
    /// ends before it; 0 if there is no such line.
    fn continuation(&mut self, stop: Stop) -> Option<usize> {
        match stop {
            Stop::Colon(_) => return None,
            Stop::Comment => return Some(0),
            Stop::LineEnd => {}
        }
        let least = self.frames.last()?.column + 1;
        let mut breaks = 1;
        let mut line = self.at;
        loop {
            let column = self.spaces(line);
            match self.byte(line + column) {
                None | Some(b'#') => return Some(0),
                Some(b'\t') => return None,
                Some(b'\n' | b'\r') => {
                    breaks += 1;
                    line = self.line_end(line + column).1;
                }
                Some(_) if column >= least => {
                    self.at = line + column;
                    return Some(breaks);
                }
                Some(_) => return Some(0),
            }
        }
    }

    fn unquoted_line(&self) -> Unquoted {
        let (line_end, next) = self.line_end(self.at);
        let line = self.bytes.get(self.at..line_end).unwrap_or_default();
        let blank = |byte: Option<&u8>| matches!(byte, None | Some(b' ' | b'\t'));
        let mut stop = Stop::LineEnd;
        let mut length = line.len();
        for found in memchr2_iter(b':', b'#', line) {
            if line[found] == b':' && blank(line.get(found + 1)) {
                stop = Stop::Colon(self.at + found);
            } else if line[found] == b'#' && found > 0 && blank(line.get(found - 1)) {
                stop = Stop::Comment;
            } else {
                continue;
            }
            length = found;
            break;
        }
        let trimmed = line[..length].iter().rev();
        let blanks = trimmed.take_while(|byte| blank(Some(byte))).count();
        Unquoted {
            end: self.at + length - blanks,
            stop,
            next,
        }
    }

    /// Whether the character here can start a scalar without quotes.
    fn starts_unquoted(&self) -> bool {
        match self.byte(self.at) {
            None
            | Some(
                b' ' | b'\t' | b'\n' | b'\r' | b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&'
                | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"' | b'%' | b'@' | b'`',
            ) => false,
            Some(b'-' | b'?' | b':') => !self.is_blank_or_end(self.at + 1),
            Some(_) => true,
        }
    }
}
