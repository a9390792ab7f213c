//! Collections in brackets: empty ones, and lists of simple words and quoted
//! scalars on one line.

use crate::text::yaml::plain::reader::Reader;
use crate::text::yaml::scalar::plain;

impl Reader<'_, '_> {
    /// Writes the collection in brackets that starts here, and goes behind it.
    pub(crate) fn flow(&mut self) -> Option<()> {
        if self.frames.len() >= self.depth {
            return None;
        }
        let bracket = self.byte(self.at)?;
        self.out.push(bracket);
        self.skip(1);
        if bracket == b'{' {
            if self.byte(self.at)? != b'}' {
                return None;
            }
            self.out.push(b'}');
        } else {
            self.flow_items()?;
            self.out.push(b']');
        }
        self.at += 1;
        Some(())
    }

    fn flow_items(&mut self) -> Option<()> {
        let mut first = true;
        while self.byte(self.at)? != b']' {
            if !first {
                self.out.push(b',');
            }
            first = false;
            match self.byte(self.at)? {
                b'"' | b'\'' => self.quoted()?,
                byte if byte.is_ascii_alphanumeric() => {
                    let rest = self.text.get(self.at..)?;
                    let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./-".contains(byte);
                    let length = rest.bytes().take_while(part).count();
                    plain(&rest[..length]).write_value(self.out).ok()?;
                    self.at += length;
                }
                _ => return None,
            }
            self.charge()?;
            self.skip(0);
            match self.byte(self.at)? {
                b',' => self.skip(1),
                b']' => {}
                _ => return None,
            }
        }
        Some(())
    }

    /// Goes behind so many bytes and the spaces that follow.
    fn skip(&mut self, bytes: usize) {
        self.at += bytes;
        self.at += self.spaces(self.at);
    }
}
