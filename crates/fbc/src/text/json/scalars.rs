//! Numbers and strings, and their canonical form.

use crate::text::json::buffers::offset;
use crate::text::json::reader::{JsonError, MAX_GROWTH, Reader};
use crate::text::json::strings::{BLOCK, character, plain_run, specials};
use crate::text::json::write::{write_number, write_string_part};

impl Reader<'_> {
    pub(crate) fn number(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        let digits = |reader: &mut Self| {
            let from = reader.at;
            while let Some(b'0'..=b'9') = reader.peek() {
                reader.at += 1;
            }
            reader.at - from
        };
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading = self.peek();
        let whole = digits(self);
        if whole == 0 {
            return self.unexpected("a digit");
        }
        if leading == Some(b'0') && whole > 1 {
            self.at = start;
            return self.error("a number may not start with 0");
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            self.at += 1;
            integer = false;
            if digits(self) == 0 {
                return self.unexpected("a digit");
            }
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            integer = false;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if digits(self) == 0 {
                return self.unexpected("a digit");
            }
        }
        // Up to 15 digits every integer is a float64 and is printed as it is.
        if integer && whole <= 15 {
            return Ok(());
        }
        let end = std::mem::replace(&mut self.at, start);
        self.leave_out(end - start);
        let before = self.buffers.changed.len();
        let written = std::str::from_utf8(&self.input[start..end])
            .ok()
            .and_then(|text| write_number(&mut self.buffers.changed, text).ok());
        if written.is_none() {
            self.at = start;
            return self.error("the number is out of the range of a float64");
        }
        self.growth += self
            .buffers
            .changed
            .len()
            .saturating_sub(before + (end - start));
        if self.growth > MAX_GROWTH + (self.at - self.start) {
            return self.error("written out, the numbers make the document too long");
        }
        Ok(())
    }

    /// Reads a string. Returns whether it has escapes.
    pub(crate) fn string(&mut self) -> Result<bool, JsonError> {
        self.at += 1;
        let mut escaped = false;
        // A block's special bytes are found at once: texts have many line ends,
        // each an escape.
        'blocks: while let Some(block) = self.input[self.at..].first_chunk::<BLOCK>() {
            let mut special = specials(block);
            while special != 0 {
                let place = special.trailing_zeros() as usize;
                if block[place] == b'"' {
                    self.at += place;
                    self.end_string();
                    return Ok(escaped);
                }
                if block[place] == b'\\'
                    && let Some(b'"' | b'\\' | b'n' | b'r' | b't' | b'b' | b'f') =
                        block.get(place + 1)
                {
                    escaped = true;
                    // The escaped byte may be special as well.
                    special &= !(0b11 << place);
                    continue;
                }
                self.at += place;
                escaped |= self.special()?;
                continue 'blocks;
            }
            self.at += BLOCK;
        }
        loop {
            self.at += plain_run(&self.input[self.at..]);
            if self.peek() == Some(b'"') {
                self.end_string();
                return Ok(escaped);
            }
            escaped |= self.special()?;
        }
    }

    /// Moves behind the closing quote of a string.
    fn end_string(&mut self) {
        self.at += 1;
        let end = self.buffers.changed.len() + (self.at - self.pending);
        self.buffers.ends.push(offset(end));
    }

    /// Reads special bytes in a string, except its end. Returns whether they are
    /// escaped.
    fn special(&mut self) -> Result<bool, JsonError> {
        match self.peek() {
            Some(b'\\') => self.escape().map(|()| true),
            Some(0x80..) => Ok(self.not_ascii()),
            Some(_) => self.error("a control character stands unescaped in a string"),
            None => self.error("the text ends inside a string"),
        }
    }

    /// Reads non-ASCII characters. Returns whether one of them had to be escaped.
    fn not_ascii(&mut self) -> bool {
        let mut escaped = false;
        while let Some(0x80..) = self.peek() {
            let rest = &self.input[self.at..];
            match character(rest) {
                Some('\u{2028}' | '\u{2029}') => {
                    let last = if rest[2] == 0xa8 { b"8" } else { b"9" };
                    self.leave_out(3);
                    self.buffers.changed.extend_from_slice(b"\\u202");
                    self.buffers.changed.extend_from_slice(last);
                    escaped = true;
                }
                Some(character) => self.at += character.len_utf8(),
                None => {
                    self.leave_out(1);
                    self.buffers
                        .changed
                        .extend_from_slice("\u{fffd}".as_bytes());
                }
            }
        }
        escaped
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        let Some(kind) = self.input.get(self.at + 1) else {
            return self.error("the text ends inside a string");
        };
        match kind {
            b'"' | b'\\' | b'n' | b'r' | b't' | b'b' | b'f' => self.at += 2,
            // Stands for itself.
            b'/' => {
                self.leave_out(1);
                self.at += 1;
            }
            b'u' => {
                let Some(unit) = self.hex(self.at + 2) else {
                    return self.error("\\u takes four hexadecimal digits");
                };
                let mut length = 6;
                let mut code = unit;
                if (0xd800..0xdc00).contains(&unit) {
                    // A high surrogate counts only together with a low one.
                    let low = (self.input.get(self.at + 6..self.at + 8) == Some(b"\\u"))
                        .then(|| self.hex(self.at + 8))
                        .flatten()
                        .filter(|low| (0xdc00..0xe000).contains(low));
                    if let Some(low) = low {
                        length = 12;
                        code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                    }
                }
                self.leave_out(length);
                let character = char::from_u32(code).unwrap_or('\u{fffd}');
                write_string_part(
                    &mut self.buffers.changed,
                    character.encode_utf8(&mut [0; 4]),
                );
            }
            _ => return self.error("no such escape in a string"),
        }
        Ok(())
    }

    fn hex(&self, at: usize) -> Option<u32> {
        let digits = self.input.get(at..at + 4)?;
        digits.iter().try_fold(0, |code, digit| {
            Some(code << 4 | char::from(*digit).to_digit(16)?)
        })
    }
}
