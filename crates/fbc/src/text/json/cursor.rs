//! The one way to read canonical JSON: a cursor over text that the
//! [`Canonicaliser`](crate::text::json::Canonicaliser) wrote. Such text has no
//! white space and no syntax errors.
//!
//! Three views are built on the cursor: `object` finds the members of a
//! document by key, `typed` reads values into structs as Go does, and `shape`
//! tells what Go writes after reading a value into a type.

use std::borrow::Cow;
use std::ops::Range;

use crate::text::json::strings::{quote_run, unescape};

/// A position in canonical JSON.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    json: &'a [u8],
    at: usize,
    /// The ends of the strings ahead, when they are known.
    ends: StringEnds<'a>,
}

/// The known ends of a value's strings, in order of appearance. They save a second
/// search.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StringEnds<'a> {
    /// Behind the closing quotes; empty when the ends are unknown.
    pub(crate) ends: &'a [u32],
    /// The offset that the first byte of the value has in this count.
    pub(crate) start: u32,
}

/// The key of a member of an object without its quotes, and the value, as ranges of
/// the text.
pub type Member = (Range<usize>, Range<usize>);

impl<'a> Cursor<'a> {
    /// At the start of a value.
    pub fn new(json: &'a [u8]) -> Self {
        Self::with_ends(json, StringEnds::default())
    }

    /// At a position that an earlier cursor over the same text reached.
    pub fn resume(json: &'a [u8], position: usize) -> Self {
        Self {
            at: position,
            ..Self::new(json)
        }
    }

    /// At the start of a value whose strings have known ends.
    pub(crate) fn with_ends(json: &'a [u8], ends: StringEnds<'a>) -> Self {
        Self { json, at: 0, ends }
    }

    /// The byte at this place.
    pub fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    /// Moves over one byte: a bracket.
    pub fn step(&mut self) {
        self.at += 1;
    }

    /// Moves over a comma, if there is one.
    pub fn comma(&mut self) {
        self.at += usize::from(self.peek() == Some(b','));
    }

    /// Moves to the end of the text.
    pub fn finish(&mut self) {
        self.at = self.json.len();
    }

    /// The number of bytes passed.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The text passed since a position.
    pub fn since(&self, position: usize) -> &'a [u8] {
        let end = self.at.min(self.json.len());
        self.json.get(position..end).unwrap_or_default()
    }

    /// Moves into the value if it is an object; else stays before it.
    pub fn enter_object(&mut self) -> bool {
        let is_object = self.peek() == Some(b'{');
        self.at += usize::from(is_object);
        is_object
    }

    /// Moves into the value if it is an array; else stays before it.
    pub fn enter_array(&mut self) -> bool {
        let is_array = self.peek() == Some(b'[');
        self.at += usize::from(is_array);
        is_array
    }

    /// Inside an object: returns the next key, with its quotes, and moves to its
    /// value. At the end of the object: returns `None` and moves behind it.
    pub fn next_key(&mut self) -> Option<&'a [u8]> {
        self.comma();
        if self.peek() != Some(b'"') {
            self.at += 1;
            return None;
        }
        let start = self.at;
        self.at += 1;
        self.skip_string();
        let key = self.since(start);
        self.at += 1;
        Some(key)
    }

    /// Inside an object: moves over the next member and returns its ranges. At the
    /// end of the object: returns `None` and moves behind it.
    pub fn next_member(&mut self) -> Option<Member> {
        let key = self.next_key()?.len();
        // A colon stands between the key and the value.
        let key_end = self.at - 1;
        let value = self.at;
        self.skip();
        Some((key_end + 1 - key..key_end - 1, value..self.at))
    }

    /// Moves over an object, or over a value of any other type. `take` gets each
    /// key and the cursor before its value; it may move the cursor over the value.
    pub fn each_member(&mut self, mut take: impl FnMut(&str, &mut Self)) {
        if !self.enter_object() {
            self.skip();
            return;
        }
        while let Some(key) = self.next_key() {
            let before = self.at;
            take(&key_text(key), self);
            if self.at == before {
                self.skip();
            }
        }
    }

    /// Inside an array: moves to the next element and returns whether there is one.
    /// At the end of the array: moves behind it.
    pub fn next_element(&mut self) -> bool {
        self.comma();
        if self.peek().is_none_or(|byte| byte == b']') {
            self.at += 1;
            return false;
        }
        true
    }

    /// Moves over the value and returns its text.
    pub fn skip(&mut self) -> &'a [u8] {
        let start = self.at;
        if self.peek() == Some(b'"') {
            self.at += 1;
            self.skip_string();
            return self.since(start);
        }
        let mut depth = 0;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.at += 1;
                    self.skip_string();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth > 1 => depth -= 1,
                b'}' | b']' if depth == 1 => {
                    self.at += 1;
                    break;
                }
                b'}' | b']' | b',' if depth == 0 => break,
                _ => {}
            }
            self.at += 1;
        }
        self.since(start)
    }

    /// The number of strings ahead whose ends are known.
    #[cfg(test)]
    pub(crate) fn known_ends(&self) -> usize {
        self.ends.ends.len()
    }

    /// Moves behind the string whose first quote was just passed.
    fn skip_string(&mut self) {
        if let [end, rest @ ..] = self.ends.ends {
            self.at = (end - self.ends.start) as usize;
            self.ends.ends = rest;
            return;
        }
        while let Some(rest) = self.json.get(self.at..) {
            self.at += quote_run(rest);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return;
                }
                Some(_) => self.at += 2,
                None => return,
            }
        }
        self.at = self.json.len();
    }
}

/// The text of a key in quotes.
pub(crate) fn key_text(key: &[u8]) -> Cow<'_, str> {
    unescape(key.get(1..key.len().saturating_sub(1)).unwrap_or(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_whatever_their_values() {
        let json = br#"{"a":{"x":"}"},"b\"":"q\\","c":-1.5e+21,"d":null,"e":[],"f":[[{}],"]"],"g":"\u2028 \u00e2"}"#;
        let mut cursor = Cursor::new(json);
        cursor.step();
        let mut found = Vec::new();
        while let Some(key) = cursor.next_key() {
            found.push((
                String::from_utf8(key.to_vec()).unwrap(),
                String::from_utf8(cursor.skip().to_vec()).unwrap(),
            ));
        }
        assert_eq!(cursor.position(), json.len());
        let found: Vec<_> = found
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("\"a\"", r#"{"x":"}"}"#),
                (r#""b\"""#, r#""q\\""#),
                ("\"c\"", "-1.5e+21"),
                ("\"d\"", "null"),
                ("\"e\"", "[]"),
                ("\"f\"", r#"[[{}],"]"]"#),
                ("\"g\"", r#""\u2028 \u00e2""#),
            ]
        );
    }

    #[test]
    fn elements_are_found_one_by_one() {
        let mut cursor = Cursor::new(br#"[1,"a,b",[2],{"k":[3]}]"#);
        cursor.step();
        let mut found = Vec::new();
        while cursor.next_element() {
            found.push(cursor.skip());
        }
        assert_eq!(found, [&b"1"[..], b"\"a,b\"", b"[2]", b"{\"k\":[3]}"]);
        let mut empty = Cursor::new(b"[]");
        empty.step();
        assert!(!empty.next_element());
    }

    #[test]
    fn members_are_found_as_ranges_from_any_position() {
        let object = br#"{"a":1,"b\"":{"x":"}"},"c":[1,{}],"d":""}"#;
        let mut position = 1;
        let mut found = Vec::new();
        loop {
            let mut cursor = Cursor::resume(object, position);
            let Some((key, value)) = cursor.next_member() else {
                break;
            };
            position = cursor.position();
            let text = |range: Range<usize>| str::from_utf8(&object[range]).unwrap();
            found.push((text(key), text(value)));
        }
        assert_eq!(
            found,
            [
                ("a", "1"),
                ("b\\\"", r#"{"x":"}"}"#),
                ("c", "[1,{}]"),
                ("d", "\"\"")
            ]
        );
        for other in [&b"[1]"[..], b"", b"\"a\"", b"null"] {
            assert!(!Cursor::new(other).enter_object());
        }
    }

    #[test]
    fn values_that_nobody_takes_are_passed() {
        let mut cursor = Cursor::new(br#"[{"a":{"b":1},"\u0063":"d"},7,"e"]"#);
        assert!(cursor.enter_array());
        let mut found = Vec::new();
        while cursor.next_element() {
            cursor.each_member(|key, cursor| {
                found.push(key.to_owned());
                if key == "a" {
                    cursor.each_member(|key, _| found.push(key.to_owned()));
                }
            });
        }
        assert_eq!(found, ["a", "b", "c"]);
    }
}
