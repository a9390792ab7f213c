//! A cursor over canonical JSON, which the reader wrote: no white space, and no
//! errors to look for.

use super::json::plain_run;

/// A place in canonical JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    /// At the start of a value.
    pub(super) fn new(json: &'a [u8]) -> Self {
        Self { json, at: 0 }
    }

    /// The byte at this place.
    pub(super) fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    /// Goes on by one byte: a bracket.
    pub(super) fn step(&mut self) {
        self.at += 1;
    }

    /// Goes on behind a comma, if there is one.
    pub(super) fn comma(&mut self) {
        self.at += usize::from(self.peek() == Some(b','));
    }

    /// How far it went.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// What was passed since a position.
    pub(super) fn since(&self, position: usize) -> &'a [u8] {
        &self.json[position..self.at.min(self.json.len())]
    }

    /// The key at this place, with its quotes, and goes on to its value;
    /// `None` (and behind the bracket) at the object's end. For an object whose
    /// opening bracket was passed.
    pub(super) fn next_key(&mut self) -> Option<&'a [u8]> {
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

    /// Whether another value follows, and goes on to it; else behind the
    /// bracket. For an array whose opening bracket was passed.
    pub(super) fn next_element(&mut self) -> bool {
        self.comma();
        if self.peek().is_none_or(|byte| byte == b']') {
            self.at += 1;
            return false;
        }
        true
    }

    /// The value at this place, whatever it is; goes on behind it.
    pub(super) fn skip(&mut self) -> &'a [u8] {
        let start = self.at;
        let mut depth = 0;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.at += 1;
                    self.skip_string();
                    if depth == 0 {
                        break;
                    }
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

    /// Goes on behind the string whose first quote was just passed.
    fn skip_string(&mut self) {
        while let Some(rest) = self.json.get(self.at..) {
            self.at += plain_run(rest);
            match self.peek() {
                Some(b'\\') => self.at += 2,
                Some(b'"') => {
                    self.at += 1;
                    return;
                }
                // A byte that only the reader of foreign text stops at.
                Some(_) => self.at += 1,
                None => return,
            }
        }
        self.at = self.json.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_whatever_their_values() {
        let json = br#"{"a":{"x":"}"},"b\"":"q\\","c":-1.5e+21,"d":null,"e":[],"f":[[{}],"]"],"g":"\u2028 \u00e2"}"#;
        let mut walk = Walk::new(json);
        walk.step();
        let mut found = Vec::new();
        while let Some(key) = walk.next_key() {
            found.push((
                String::from_utf8(key.to_vec()).unwrap(),
                String::from_utf8(walk.skip().to_vec()).unwrap(),
            ));
        }
        assert_eq!(walk.position(), json.len());
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
        let mut walk = Walk::new(br#"[1,"a,b",[2],{"k":[3]}]"#);
        walk.step();
        let mut found = Vec::new();
        while walk.next_element() {
            found.push(walk.skip());
        }
        assert_eq!(found, [&b"1"[..], b"\"a,b\"", b"[2]", b"{\"k\":[3]}"]);
        let mut empty = Walk::new(b"[]");
        empty.step();
        assert!(!empty.next_element());
    }
}
