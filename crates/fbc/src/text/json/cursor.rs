//! A cursor over canonical JSON, which the reader wrote: no white space, and no
//! errors to look for.

use crate::text::json::{StringEnds, quote_run};

/// A place in canonical JSON.
#[derive(Clone, Copy, Debug)]
pub struct Walk<'a> {
    json: &'a [u8],
    at: usize,
    /// Of the strings that come, when that is known.
    ends: StringEnds<'a>,
}

impl<'a> Walk<'a> {
    /// At the start of a value.
    pub fn new(json: &'a [u8]) -> Self {
        Self::with_ends(json, StringEnds::default())
    }

    /// At the start of a value of which it is known where its strings end.
    pub(crate) fn with_ends(json: &'a [u8], ends: StringEnds<'a>) -> Self {
        Self { json, at: 0, ends }
    }

    /// The byte at this place.
    pub fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    /// Goes on by one byte: a bracket.
    pub fn step(&mut self) {
        self.at += 1;
    }

    /// Goes on behind a comma, if there is one.
    pub fn comma(&mut self) {
        self.at += usize::from(self.peek() == Some(b','));
    }

    /// Goes behind all that comes.
    pub fn finish(&mut self) {
        self.at = self.json.len();
    }

    /// How far it went.
    pub fn position(&self) -> usize {
        self.at
    }

    /// What was passed since a position.
    pub fn since(&self, position: usize) -> &'a [u8] {
        &self.json[position..self.at.min(self.json.len())]
    }

    /// The key at this place, with its quotes, and goes on to its value;
    /// `None` (and behind the bracket) at the object's end. For an object whose
    /// opening bracket was passed.
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

    /// Whether another value follows, and goes on to it; else behind the
    /// bracket. For an array whose opening bracket was passed.
    pub fn next_element(&mut self) -> bool {
        self.comma();
        if self.peek().is_none_or(|byte| byte == b']') {
            self.at += 1;
            return false;
        }
        true
    }

    /// The value at this place, whatever it is; goes on behind it.
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

    /// Goes on behind the string whose first quote was just passed.
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

    /// All that a walk finds, every level of it.
    fn everything<'a>(walk: &mut Walk<'a>, found: &mut Vec<&'a [u8]>) {
        let start = *walk;
        found.push(walk.skip());
        let end = walk.position();
        *walk = start;
        match walk.peek() {
            Some(b'{') => {
                walk.step();
                while let Some(key) = walk.next_key() {
                    found.push(key);
                    everything(walk, found);
                }
            }
            Some(b'[') => {
                walk.step();
                while walk.next_element() {
                    everything(walk, found);
                }
            }
            _ => {
                walk.skip();
            }
        }
        assert_eq!(walk.position(), end);
    }

    proptest::proptest! {
        #[test]
        fn recorded_ends_of_strings_are_where_they_are_found(
            strings in proptest::collection::vec("[a-c\"\\\\\u{2028}é /]{0,40}", 1..8),
            pretty: bool,
            slashes: bool,
            order: u8,
        ) {
            use crate::text::json::Canonicaliser;
            use crate::object::Object;

            let items: Vec<_> = strings.iter().map(|text| {
                let value = serde_json::json!({"k": text, "l": [text, {}, {"m": 1.5}, "x"], "é\u{2029}": {"n": text}});
                serde_json::json!({"type": "t", "value": value})
            }).collect();
            let document = serde_json::json!({"name": "a\"", "properties": items, "z": [strings]});
            let mut text = if pretty {
                serde_json::to_string_pretty(&document)
            } else {
                serde_json::to_string(&document)
            }.unwrap();
            if slashes {
                text = text.replace('/', "\\/");
            }
            // In some, keys come in another order, or twice.
            match order % 4 {
                0 => text = text.replace("\"type\":", "\"yype\":"),
                1 => text = text.replace("\"l\":", "\"k\":"),
                2 => text = text.replace("\"k\":", "\"\\u007a\":"),
                _ => {}
            }
            let mut out = b"before".to_vec();
            let mut canonicaliser = Canonicaliser::default();
            canonicaliser.read(text.as_bytes(), 0, &mut out).unwrap();
            let object = Object::new(&out, &canonicaliser);
            for ((_, mut walk), (_, value)) in object.walks().zip(object.members()) {
                let (mut recorded, mut searched) = (Vec::new(), Vec::new());
                everything(&mut walk, &mut recorded);
                everything(&mut Walk::new(value), &mut searched);
                proptest::prop_assert_eq!(recorded, searched);
            }
            // Each string of the list, and there are no others behind it.
            let mut walk = object.walk("z").unwrap();
            proptest::prop_assert_eq!(walk.ends.ends.len(), strings.len());
            walk.skip();
            proptest::prop_assert!(walk.ends.ends.is_empty());
        }
    }
}
