//! Keys that stand twice in one object, with their places. The last one counts, so
//! the value of the first one is lost.

use std::collections::HashMap;
use std::ops::Range;

use crate::text::json::unescape;

/// The number of keys of a document that are compared: they take memory.
pub(crate) const MAX_KEYS: usize = 100_000;

/// A key that stands twice in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatedKey {
    /// Its text.
    pub key: String,
    /// The line of the one before, from 1.
    pub first_line: usize,
    /// The line of the one that counts, from 1.
    pub line: usize,
    /// Its column in characters, from 1.
    pub column: usize,
}

/// The repeated keys of the JSON value in this range of a text: at most `most` of them.
/// Lines count from that of the value. It must have been read without an error.
pub(crate) fn repeated_in_json(text: &[u8], range: Range<usize>, most: usize) -> Vec<RepeatedKey> {
    let mut found = Vec::new();
    // The keys of each open object with their lines; `None` for a list.
    let mut open: Vec<Option<HashMap<String, usize>>> = Vec::new();
    let before = text.get(..range.start).unwrap_or_default();
    let mut line_start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
    let text = text.get(..range.end).unwrap_or(text);
    let (mut at, mut line, mut expects_key, mut keys) = (range.start, 1, false, 0);
    while let Some(byte) = text.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'\n' => (line, line_start) = (line + 1, at),
            b'{' => {
                open.push(Some(HashMap::new()));
                expects_key = true;
            }
            b'[' => {
                open.push(None);
                expects_key = false;
            }
            b'}' | b']' => {
                open.pop();
            }
            b',' => expects_key = matches!(open.last(), Some(Some(_))),
            b'"' => {
                at = string_end(text, at);
                let inner = text.get(start + 1..at.saturating_sub(1));
                if let (true, Some(inner), Some(Some(seen))) = (expects_key, inner, open.last_mut())
                {
                    keys += 1;
                    if keys > MAX_KEYS {
                        return found;
                    }
                    let key = unescape(inner).into_owned();
                    if let Some(first_line) = seen.insert(key.clone(), line) {
                        let before = text.get(line_start..start).unwrap_or_default();
                        found.push(RepeatedKey {
                            key,
                            first_line,
                            line,
                            column: String::from_utf8_lossy(before).chars().count() + 1,
                        });
                        if found.len() >= most {
                            return found;
                        }
                    }
                }
                expects_key = false;
            }
            _ => {}
        }
    }
    found
}

/// The offset behind the quote that ends a string.
fn string_end(text: &[u8], mut at: usize) -> usize {
    while let Some(byte) = text.get(at) {
        at += match byte {
            b'\\' => 2,
            b'"' => return at + 1,
            _ => 1,
        };
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_stands_twice_in_json_is_found_at_its_second_place() {
        let found = |text: &str| -> Vec<(String, usize, usize, usize)> {
            let found = repeated_in_json(text.as_bytes(), 0..text.len(), 2).into_iter();
            found
                .map(|one| (one.key, one.first_line, one.line, one.column))
                .collect()
        };
        assert_eq!(
            found("{\"a\": [{\"b\": \"b\", \"b\\\"\": 1}],\n \"é\": {}, \"a\": \"a\"}"),
            [("a".into(), 1, 2, 11)]
        );
        assert_eq!(found(r#"{"a":{"a":{"a":1}},"b":["a","a"]}"#), []);
        assert_eq!(found(r#"[{"a":1,"\u0061":2}]"#), [("a".into(), 1, 1, 9)]);
        assert_eq!(found(r#"{"a":1,"a":1,"a":1,"a":1}"#).len(), 2);
        assert_eq!(
            found(r#"{"a":"x\\","b":"\"a\"","b":"a"}"#),
            [("b".into(), 1, 1, 24)]
        );
        let second = "\n{} {\"a\":1,\n\"a\":2,\"a\":3}";
        let keys = repeated_in_json(second.as_bytes(), 4..second.len() - 1, 2);
        let places: Vec<_> = keys.iter().map(|key| (key.line, key.column)).collect();
        assert_eq!(places, [(2, 1), (2, 7)]);
        let same_line = "{} {\"a\":1,\"a\":2}";
        let keys = repeated_in_json(same_line.as_bytes(), 3..same_line.len(), 2);
        assert_eq!((keys[0].line, keys[0].column), (1, 11));
        // No text that could not be read ends in a panic.
        for text in ["\"", "{\"", "{\"a\\", "]", "{\"a\":1,\"a"] {
            found(text);
        }
    }
}
