//! Scalars in single and double quotes, on one line or folded over several.

use memchr::{memchr2, memchr3};

use crate::text::json::write::write_string_part;
use crate::text::yaml::plain::reader::Reader;

impl Reader<'_, '_> {
    /// The position of the colon behind a scalar in quotes that starts here and ends on
    /// the same line. With a colon it is a key.
    pub(crate) fn colon_behind_quoted(&self) -> Option<usize> {
        let quote = self.byte(self.at)?;
        let mut at = self.at + 1;
        loop {
            let rest = self.bytes.get(at..)?;
            at += if quote == b'"' {
                memchr3(b'"', b'\\', b'\n', rest)?
            } else {
                memchr2(b'\'', b'\n', rest)?
            };
            match (self.byte(at)?, self.byte(at + 1)) {
                (b'\n', _) | (b'\\', Some(b'\r' | b'\n')) => return None,
                (b'\\', _) | (b'\'', Some(b'\'')) => at += 2,
                _ => break,
            }
        }
        at += 1 + self.spaces(at + 1);
        (self.byte(at) == Some(b':') && self.is_blank_or_end(at + 1)).then_some(at)
    }

    /// Writes the scalar in quotes that starts here and goes behind it.
    pub(crate) fn quoted(&mut self) -> Option<()> {
        let double = self.byte(self.at)? == b'"';
        self.out.push(b'"');
        self.at += 1;
        if double {
            self.double_quoted()?;
        } else {
            self.single_quoted()?;
        }
        self.out.push(b'"');
        Some(())
    }

    fn single_quoted(&mut self) -> Option<()> {
        loop {
            let rest = self.bytes.get(self.at..)?;
            let end = self.at + memchr2(b'\'', b'\n', rest)?;
            if self.byte(end)? == b'\n' {
                self.fold(end)?;
                continue;
            }
            self.write_to(end)?;
            self.at = end + 1;
            if self.byte(self.at) != Some(b'\'') {
                return Some(());
            }
            self.out.push(b'\'');
            self.at += 1;
        }
    }

    fn double_quoted(&mut self) -> Option<()> {
        loop {
            let rest = self.bytes.get(self.at..)?;
            let end = self.at + memchr3(b'"', b'\\', b'\n', rest)?;
            match self.byte(end)? {
                b'\n' => self.fold(end)?,
                b'\\' => {
                    self.write_to(end)?;
                    self.at = end + 1;
                    self.escape()?;
                }
                _ => {
                    self.write_to(end)?;
                    self.at = end + 1;
                    return Some(());
                }
            }
        }
    }

    /// Writes the text from here to `end`.
    fn write_to(&mut self, end: usize) -> Option<()> {
        write_string_part(self.out, self.text.get(self.at..end)?);
        Some(())
    }

    /// Writes the text from here to the line end at `end`, folds the line end, and moves
    /// to the text of the next line.
    fn fold(&mut self, end: usize) -> Option<()> {
        let line = self.text.get(self.at..end)?;
        write_string_part(self.out, line.trim_end_matches([' ', '\t', '\r']));
        self.at = end + 1;
        let more = self.blank_lines()?;
        self.write_folded(1 + more);
        self.charge()
    }

    /// Moves to the text of the next line that has any. Returns the number of line ends
    /// before it.
    fn blank_lines(&mut self) -> Option<usize> {
        let mut breaks = 0;
        loop {
            let blanks = self.blanks(self.at);
            self.at += blanks;
            match self.byte(self.at)? {
                b'\n' => self.at += 1,
                b'\r' => self.at += 2,
                // It may be a separator.
                _ if blanks == 0 => return None,
                _ => return Some(breaks),
            }
            breaks += 1;
        }
    }

    /// Writes the character of the escape whose letter is here.
    fn escape(&mut self) -> Option<()> {
        let letter = self.byte(self.at)?;
        self.at += 1;
        let digits = match letter {
            b'"' | b'\\' | b'n' | b'r' | b't' | b'b' | b'f' => {
                self.out.extend_from_slice(&[b'\\', letter]);
                return Some(());
            }
            b'\t' => {
                self.out.extend_from_slice(b"\\t");
                return Some(());
            }
            b' ' | b'/' => {
                self.out.push(letter);
                return Some(());
            }
            b'\n' | b'\r' => {
                self.at += usize::from(letter == b'\r');
                let breaks = self.blank_lines()?;
                self.write_breaks(breaks);
                return self.charge();
            }
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            _ => 0,
        };
        let char = match letter {
            b'0' => '\0',
            b'a' => '\u{7}',
            b'v' => '\u{b}',
            b'e' => '\u{1b}',
            b'N' => '\u{85}',
            b'_' => '\u{a0}',
            b'L' => '\u{2028}',
            b'P' => '\u{2029}',
            b'x' | b'u' | b'U' => {
                let hex = self.text.get(self.at..self.at + digits)?;
                if !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return None;
                }
                self.at += digits;
                char::from_u32(u32::from_str_radix(hex, 16).ok()?)?
            }
            _ => return None,
        };
        write_string_part(self.out, char.encode_utf8(&mut [0; 4]));
        Some(())
    }
}
