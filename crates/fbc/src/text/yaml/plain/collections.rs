//! Begins and ends lists and mappings. Of collections in brackets it reads empty ones,
//! and lists of simple words and quoted scalars on one line.

use crate::text::yaml::object::{Entry, are_sorted, offset, rebuild};
use crate::text::yaml::plain::reader::{Frame, Kind, Reader};
use crate::text::yaml::scalar::plain;

impl Reader<'_, '_> {
    /// Begins a collection as the missing node.
    pub(crate) fn start(&mut self, kind: Kind, column: usize) -> Option<()> {
        if self.frames.last().is_some_and(|top| !top.awaiting) || self.frames.len() >= self.depth {
            return None;
        }
        self.frames.push(Frame {
            kind,
            column,
            awaiting: false,
            start: self.out.len() - self.base,
            first_entry: self.entries.len(),
            key: 0,
            value: 0,
        });
        let bracket = if kind == Kind::Mapping { b'{' } else { b'[' };
        self.out.push(bracket);
        Some(())
    }

    /// Writes null for a missing node.
    pub(crate) fn fill(&mut self) -> Option<()> {
        if self.frames.last()?.awaiting {
            self.out.extend_from_slice(b"null");
            self.finish_node()?;
        }
        Some(())
    }

    /// Completes the innermost collection.
    pub(crate) fn close(&mut self) -> Option<()> {
        self.fill()?;
        let frame = self.frames.pop()?;
        if frame.kind == Kind::Mapping {
            self.end_object(&frame)?;
        } else {
            self.out.push(b']');
        }
        if self.frames.is_empty() {
            return self.charge();
        }
        self.entries.truncate(frame.first_entry);
        self.finish_node()
    }

    /// Completes the text of an object, with its keys in order. A document with a
    /// repeated key is left to the parser, which reports it.
    fn end_object(&mut self, frame: &Frame) -> Option<()> {
        let json = self.out.get(self.base..).unwrap_or_default();
        let own = self.entries.get(frame.first_entry..).unwrap_or_default();
        if are_sorted(own, json, self.escaped_keys) {
            self.out.push(b'}');
            return Some(());
        }
        let drops = rebuild(
            &mut self.entries,
            frame.first_entry,
            json,
            self.escaped_keys,
            offset(frame.start),
            &mut self.scratch,
        );
        if drops {
            return None;
        }
        self.out.truncate(self.base + frame.start);
        self.out.extend_from_slice(&self.scratch);
        Some(())
    }

    /// Notes that the missing node of the innermost collection is complete.
    pub(crate) fn finish_node(&mut self) -> Option<()> {
        let end = offset(self.out.len() - self.base);
        let top = self.frames.last_mut()?;
        top.awaiting = false;
        if top.kind == Kind::Mapping {
            self.entries.push(Entry {
                key: top.key,
                value: top.value,
                end,
            });
        }
        self.charge()
    }

    /// Gives up a document that becomes too large.
    pub(crate) fn charge(&self) -> Option<()> {
        (self.out.len() - self.base <= self.budget).then_some(())
    }

    /// Writes the collection in brackets that starts here, and moves behind it.
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

    /// Moves over this number of bytes and the spaces behind them.
    fn skip(&mut self, bytes: usize) {
        self.at += bytes;
        self.at += self.spaces(self.at);
    }
}
