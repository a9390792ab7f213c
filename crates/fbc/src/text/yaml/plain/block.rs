//! Block scalars, literal and folded.

use crate::text::json::write::write_string_part;
use crate::text::yaml::plain::reader::Reader;

/// The treatment of the line ends behind the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chomping {
    Strip,
    Clip,
    Keep,
}

impl<'t> Reader<'t, '_> {
    /// Writes the block scalar that starts here, and moves to the line behind it.
    pub(crate) fn block_scalar(&mut self) -> Option<()> {
        let folded = self.byte(self.at)? == b'>';
        let column = self.frames.last()?.column;
        let (chomping, indentation) = self.indicators()?;
        let mut breaks = 0;
        let column = match indentation {
            Some(indentation) => column + indentation,
            None => self.block_column(&mut breaks)?.max(column + 1),
        };
        self.out.push(b'"');
        // Whether the line before, if there is one, starts with a blank.
        let mut before = None;
        loop {
            let line = self.block_line(column, &mut breaks)?;
            if line.is_empty() {
                break;
            }
            let blank = line.starts_with([' ', '\t']);
            if before == Some(false) && folded && !blank {
                if breaks == 0 {
                    self.out.push(b' ');
                }
            } else if before.is_some() {
                self.write_breaks(1);
            }
            self.write_breaks(breaks);
            breaks = 0;
            before = Some(blank);
            write_string_part(self.out, line);
            self.charge()?;
        }
        if before.is_some() && chomping != Chomping::Strip {
            self.write_breaks(1);
        }
        if chomping == Chomping::Keep {
            self.write_breaks(breaks);
        }
        self.out.push(b'"');
        Some(())
    }

    /// Reads the first line of a block scalar: chomping, and the indentation if it is
    /// given.
    fn indicators(&mut self) -> Option<(Chomping, Option<usize>)> {
        let mut chomping = None;
        let mut indentation = None;
        loop {
            self.at += 1;
            match self.byte(self.at) {
                Some(b'-') if chomping.is_none() => chomping = Some(Chomping::Strip),
                Some(b'+') if chomping.is_none() => chomping = Some(Chomping::Keep),
                Some(digit @ b'1'..=b'9') if indentation.is_none() => {
                    indentation = Some(usize::from(digit - b'0'));
                }
                _ => break,
            }
        }
        self.end_line()?;
        Some((chomping.unwrap_or(Chomping::Clip), indentation))
    }

    /// The column of the text of a block scalar. Passes over the blank lines
    /// before it and counts them.
    fn block_column(&mut self, breaks: &mut usize) -> Option<usize> {
        // The parser takes the longest of the blank lines into account.
        let mut most = 0;
        while self.at < self.bytes.len() {
            let spaces = self.spaces(self.at);
            most = most.max(spaces);
            match self.byte(self.at + spaces) {
                None | Some(b'\n' | b'\r') => {
                    *breaks += 1;
                    self.at = self.line_end(self.at + spaces).1;
                }
                Some(b'\t') => return None,
                Some(_) => break,
            }
        }
        Some(most)
    }

    /// The text of the next line of a block scalar, nothing when none is left.
    /// Passes over the blank lines before it and counts them.
    fn block_line(&mut self, column: usize, breaks: &mut usize) -> Option<&'t str> {
        while self.at < self.bytes.len() {
            let rest = self.bytes.get(self.at..)?;
            let spaces = rest.iter().take(column).take_while(|byte| **byte == b' ');
            let spaces = spaces.count();
            let text = self.at + spaces;
            match self.byte(text) {
                None | Some(b'\n' | b'\r') => {
                    *breaks += 1;
                    self.at = self.line_end(text).1;
                }
                Some(b'\t') if spaces < column => return None,
                Some(_) if spaces < column => break,
                Some(_) => {
                    let (end, next) = self.line_end(text);
                    self.at = next;
                    return self.text.get(text..end);
                }
            }
        }
        Some("")
    }
}
