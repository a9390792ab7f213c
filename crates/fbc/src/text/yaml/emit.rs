//! Canonical JSON to YAML with the same meaning: in block style, with quotes around
//! texts that YAML 1.1 would read as another type.

use crate::text::json::MAX_DEPTH;
use crate::text::json::cursor::{Cursor, key_text};

/// From this length on, a key needs YAML's explicit form. Parsers look 1024 characters
/// ahead for the colon of any other key.
const LONG_KEY: usize = 500;
/// Plain words that YAML 1.1 does not read as text, in any case.
const WORDS: &[&str] = &["y", "n", "yes", "no", "true", "false", "on", "off", "null"];

/// Appends a canonical JSON value (a line of a catalog, with or without its
/// line end) to `out` as one YAML document, without a separator line before
/// it. [`to_json`](crate::text::yaml::to_json) makes the same JSON of it again, as long as
/// it nests no deeper than that allows.
///
/// Input that is not canonical JSON results in some text, and no panic.
pub fn from_json(json: &[u8], out: &mut Vec<u8>) {
    let cursor = Cursor::new(json.trim_ascii_end());
    Emitter { cursor, out }.value(0, true, 0);
}

struct Emitter<'a> {
    cursor: Cursor<'a>,
    out: &'a mut Vec<u8>,
}

impl Emitter<'_> {
    /// Writes the next value and ends its line. The content of a collection starts at
    /// `column`. `inline` tells whether its first line continues the current line, as it
    /// can behind a dash but not behind a colon.
    fn value(&mut self, column: usize, inline: bool, depth: usize) {
        let start = self.cursor;
        let is_object = self.cursor.enter_object();
        let is_list = !is_object && self.cursor.enter_array();
        let is_empty = matches!(self.cursor.peek(), Some(b'}' | b']'));
        // Canonical JSON does not nest deeper.
        if (is_object || is_list) && !is_empty && depth <= MAX_DEPTH {
            if !inline {
                self.out.push(b'\n');
            }
            if is_object {
                self.members(column, inline, depth);
            } else {
                self.items(column, inline, depth);
            }
            return;
        }
        self.cursor = start;
        if !inline {
            self.out.push(b' ');
        }
        match self.cursor.skip() {
            text @ [b'"', ..] => write_text(self.out, &key_text(text), column),
            // YAML reads this one as an integer, which has no sign.
            b"-0" => self.out.extend_from_slice(b"-0.0"),
            literal => self.out.extend_from_slice(literal),
        }
        // Only text that is not canonical has an empty value; move on in any case.
        if self.cursor.position() == start.position() {
            self.cursor.step();
        }
        self.out.push(b'\n');
    }

    fn members(&mut self, column: usize, mut inline: bool, depth: usize) {
        while let Some(key) = self.cursor.next_key() {
            self.indent(column, &mut inline);
            let start = self.out.len();
            write_line(self.out, &key_text(key));
            if self.out.len() - start > LONG_KEY {
                self.out.splice(start..start, *b"? ");
                self.out.push(b'\n');
                self.indent(column, &mut false);
            }
            self.out.push(b':');
            // As in Go's encoder, a list has the column of its key.
            let inner = match self.cursor.peek() {
                Some(b'[') => column,
                _ => column + 2,
            };
            self.value(inner, false, depth + 1);
        }
    }

    fn items(&mut self, column: usize, mut inline: bool, depth: usize) {
        while self.cursor.next_element() {
            self.indent(column, &mut inline);
            self.out.extend_from_slice(b"- ");
            self.value(column + 2, true, depth + 1);
        }
    }

    /// Indents a line, unless it continues the current line.
    fn indent(&mut self, column: usize, inline: &mut bool) {
        if !std::mem::take(inline) {
            self.out.resize(self.out.len() + column, b' ');
        }
    }
}

/// Writes a text as a value, over several lines if it has several.
fn write_text(out: &mut Vec<u8>, text: &str, column: usize) {
    if !fits_block(text) {
        return write_line(out, text);
    }
    out.extend_from_slice(if text.ends_with('\n') { b"|" } else { b"|-" });
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        out.push(b'\n');
        if !line.is_empty() {
            out.resize(out.len() + column, b' ');
            out.extend_from_slice(line.as_bytes());
        }
    }
}

/// Whether a text can be written line by line and reads back unchanged.
fn fits_block(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with([' ', '\t', '\n'])
        && !text.ends_with("\n\n")
        && text.chars().all(|sign| sign == '\n' || is_plain_sign(sign))
        && text.split('\n').all(|line| {
            line.is_empty() || (!line.starts_with('\t') && !line.trim_matches(' ').is_empty())
        })
}

/// Writes a text in one line.
fn write_line(out: &mut Vec<u8>, text: &str) {
    if is_plain(text) {
        out.extend_from_slice(text.as_bytes());
    } else {
        write_quoted(out, text);
    }
}

/// Whether a text needs no quotes at any position. Numbers, dates and the like never
/// start with a letter.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b" ._-/:@+()".contains(byte);
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.iter().all(allowed)
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

fn write_quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut encoded = [0; 4];
    for sign in text.chars() {
        match sign {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\r' => out.extend_from_slice(b"\\r"),
            _ if is_plain_sign(sign) => {
                out.extend_from_slice(sign.encode_utf8(&mut encoded).as_bytes());
            }
            _ => out.extend_from_slice(format!("\\u{:04X}", u32::from(sign)).as_bytes()),
        }
    }
    out.push(b'"');
}

/// Whether a character needs no escape in YAML and is no line end. All others are among
/// the first 65,536.
fn is_plain_sign(sign: char) -> bool {
    sign == '\t'
        || !(sign.is_control()
            || matches!(
                sign,
                '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
            ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::json::Canonicaliser;
    use crate::text::yaml::{Limits, documents, to_json};

    fn yaml(json: &[u8]) -> String {
        let mut out = Vec::new();
        from_json(json, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// Holds that what is written is one document, and means what was given.
    fn held(json: &str) {
        let mut canonical = Vec::new();
        Canonicaliser::default()
            .read(json.as_bytes(), 0, &mut canonical)
            .unwrap();
        let file = format!("---\n{}---\n{}", yaml(&canonical), yaml(&canonical));
        let documents: Vec<_> = documents(file.as_bytes()).collect();
        assert_eq!(documents.len(), 2, "{file}");
        for document in documents {
            let mut back = Vec::new();
            let read = to_json(document.bytes, &Limits::default(), &mut back);
            assert_eq!(read, Ok(true), "{file}");
            assert_eq!(
                String::from_utf8(back).unwrap(),
                String::from_utf8(canonical.clone()).unwrap(),
                "{file}"
            );
        }
    }

    #[test]
    fn a_blob_is_written_in_block_style() {
        let json = br#"{"entries":[{"name":"etcd.v1.0.0","skips":["a","true"]},[1,[]],{}],"image":"quay.io/a/b@sha256:00","schema":"olm.channel","text":"two\n  lines\n","version":"1.10"}"#;
        assert_eq!(
            yaml(json),
            "entries:\n- name: etcd.v1.0.0\n  skips:\n  - a\n  - \"true\"\n- - 1\n  - []\n- {}\n\
             image: quay.io/a/b@sha256:00\nschema: olm.channel\ntext: |\n  two\n    lines\n\
             version: \"1.10\"\n"
        );
    }

    #[test]
    fn what_yaml_would_take_for_something_else_is_quoted() {
        for text in [
            "",
            " ",
            "~",
            "null",
            "Yes",
            "off",
            "y",
            "N",
            "0x1f",
            "0o7",
            "1_000",
            "1:20",
            ".inf",
            "1e3",
            "2001-01-01",
            "<<",
            "=",
            "-",
            "- a",
            "? a",
            "a: b",
            "a :b",
            "a #b",
            "#",
            "&a",
            "*a",
            "!a",
            "|",
            ">",
            "%a",
            "@a",
            "`a",
            "'a'",
            "{",
            "[a]",
            "a,",
            "a:",
            "---",
            "...",
            "--- a",
            "\u{feff}a",
            "a\u{85}b",
            "\u{2028}",
            "\u{7f}",
            "\u{0}",
            "\u{fffe}",
            "😀",
            "a\r\nb",
            "a\nb",
            "a\n",
            "a\n\n",
            "\na",
            " a\nb",
            "\ta\nb",
            "a\n\tb",
            "a\n  \nb",
            "a\n---\nb",
            "a\n  ",
            "a \nb",
            "---\na",
            "#a\nb",
            "a\n#b",
            "[!a, b]",
            "!a, b\nc",
            "%TAG\n%TAG",
            "a\tb\nc",
        ] {
            let text = serde_json::to_string(text).unwrap();
            held(&format!(
                "{{\"a\":{text},\"b\":[{text},[{text}],{{\"c\":{text}}}]}}"
            ));
            held(&format!("{{{text}:{text}}}"));
            held(&format!("{{{text}:[1]}}"));
        }
    }

    #[test]
    fn numbers_come_back_as_they_were() {
        for number in [
            "0",
            "-0",
            "1",
            "-1",
            "1.5",
            "1e21",
            "1e-7",
            "-2.5E+300",
            "9007199254740993",
            "18446744073709551616",
            "123456789012345678901234567890",
            "-9223372036854775809",
        ] {
            held(&format!("{{\"a\":{number},\"b\":[{number}]}}"));
        }
    }

    #[test]
    fn a_long_key_is_found_again() {
        for length in [LONG_KEY, LONG_KEY + 1, 5000] {
            let key = "é".repeat(length / 2) + "k";
            held(&format!(
                "{{\"{key}\":[{{\"{key}\":{{\"{key}\":\"a\\nb\"}}}}]}}"
            ));
        }
        let key = "\\u0001".repeat(LONG_KEY);
        held(&format!("{{\"{key}\":1}}"));
    }

    #[test]
    fn what_is_no_json_makes_no_panic() {
        for text in [
            "", "{", "{\"", "{\"a\"", "{\"a\":", "[", "[[", "[}", "{\"a\\", "x", "]", ",",
        ] {
            yaml(text.as_bytes());
        }
        yaml("[".repeat(100_000).as_bytes());
    }

    fn value() -> impl Strategy<Value = serde_json::Value> {
        let text = prop_oneof!["[ -~]{0,12}", "[a-c \n\t:#-]{0,12}", any::<String>(),];
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            text.clone().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                prop::collection::btree_map(text.clone(), inner, 0..5)
                    .prop_map(|fields| serde_json::Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_blob_comes_back_as_it_was(value in value()) {
            held(&format!("{{\"a\":{value}}}"));
        }
    }
}
