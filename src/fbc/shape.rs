//! What Go's reader and writer make of a JSON value of a known type.
//!
//! The peers read `olm.csv.metadata` into typed fields and write those out
//! again: unknown fields fall away, empty ones that are marked so are left
//! out, missing ones that are not appear with their zero value, `null` becomes
//! the zero value, and a value of another type is an error. A [`Shape`] says
//! all that of a type, and [`write`] does it, on canonical JSON and without a
//! tree.

/// A type.
#[derive(Debug)]
pub(super) enum Shape {
    /// A string.
    Text,
    /// A truth value.
    Bool,
    /// A 32-bit integer.
    Integer,
    /// Anything; kept as it is.
    Any,
    /// An object of strings.
    Texts,
    /// An array.
    List(&'static Shape),
    /// An object with known fields.
    Object(&'static [Field]),
}

/// A field of an object.
#[derive(Debug)]
pub(super) struct Field {
    /// Its key.
    pub(super) name: &'static str,
    /// Its type.
    pub(super) shape: Shape,
    /// Whether it is left out when it is empty. Objects with known fields
    /// never count as empty.
    pub(super) omitted: bool,
}

impl Field {
    /// A field that is left out when it is empty.
    pub(super) const fn omitted(name: &'static str, shape: Shape) -> Self {
        Self {
            name,
            shape,
            omitted: true,
        }
    }

    /// A field that is always there.
    pub(super) const fn kept(name: &'static str, shape: Shape) -> Self {
        Self {
            name,
            shape,
            omitted: false,
        }
    }
}

/// Appends what becomes of `json`, a canonical value, and tells whether that is
/// an empty one. Afterwards `out` holds the same bytes as `json` when nothing
/// had to change.
///
/// # Errors
/// A sentence's end about a value of another type.
pub(super) fn write(shape: &Shape, json: &[u8], out: &mut Vec<u8>) -> Result<bool, String> {
    let mut walk = Walk { json, at: 0 };
    walk.value(shape, out)
}

/// The members of a canonical object: key without quotes and value.
pub(super) fn members(json: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut members = Vec::new();
    let mut walk = Walk { json, at: 1 };
    while walk.peek() == Some(b'"') {
        let key = walk.skip();
        walk.at += 1;
        let value = walk.skip();
        members.push((&key[1..key.len() - 1], value));
        walk.at += usize::from(walk.peek() == Some(b','));
    }
    members
}

/// A place in canonical JSON, which was checked when it was written: no white
/// space, no errors.
struct Walk<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    fn value(&mut self, shape: &Shape, out: &mut Vec<u8>) -> Result<bool, String> {
        let first = self.peek().unwrap_or_default();
        let start = out.len();
        if first == b'n' && !matches!(shape, Shape::Any) {
            self.skip();
            write_zero(shape, out);
            return Ok(!matches!(shape, Shape::Object(_)));
        }
        match (shape, first) {
            (Shape::Any, _) => {
                out.extend_from_slice(self.skip());
                Ok(false)
            }
            (Shape::Text, b'"') | (Shape::Bool, b't' | b'f') => {
                out.extend_from_slice(self.skip());
                Ok(matches!(&out[start..], b"\"\"" | b"false"))
            }
            (Shape::Integer, b'-' | b'0'..=b'9') => {
                let digits = self.skip();
                out.extend_from_slice(digits);
                std::str::from_utf8(digits)
                    .ok()
                    .and_then(|digits| digits.parse::<i32>().ok())
                    .map(|number| number == 0)
                    .ok_or_else(|| "must be a 32-bit integer".to_owned())
            }
            (Shape::Texts, b'{') => self.texts(out),
            (Shape::List(element), b'[') => self.list(element, out),
            (Shape::Object(fields), b'{') => self.object(fields, out),
            (shape, _) => Err(format!("must be {}", name(shape))),
        }
    }

    fn texts(&mut self, out: &mut Vec<u8>) -> Result<bool, String> {
        self.at += 1;
        out.push(b'{');
        let mut empty = true;
        while self.peek() == Some(b'"') {
            if !empty {
                out.push(b',');
            }
            empty = false;
            let key = self.key();
            out.extend_from_slice(key);
            out.push(b':');
            self.value(&Shape::Text, out)
                .map_err(|error| within(key, &error))?;
            self.comma();
        }
        self.at += 1;
        out.push(b'}');
        Ok(empty)
    }

    fn list(&mut self, element: &Shape, out: &mut Vec<u8>) -> Result<bool, String> {
        self.at += 1;
        out.push(b'[');
        let mut empty = true;
        while self.peek().is_some_and(|byte| byte != b']') {
            if !empty {
                out.push(b',');
            }
            empty = false;
            self.value(element, out)?;
            self.comma();
        }
        self.at += 1;
        out.push(b']');
        Ok(empty)
    }

    fn object(&mut self, fields: &[Field], out: &mut Vec<u8>) -> Result<bool, String> {
        self.at += 1;
        out.push(b'{');
        let mut first = true;
        let mut seen: u32 = 0;
        while self.peek() == Some(b'"') {
            let key = self.key();
            let known = fields
                .iter()
                .position(|field| *field.name.as_bytes() == key[1..key.len() - 1]);
            let Some(number) = known else {
                self.skip();
                self.comma();
                continue;
            };
            let start = out.len();
            if !first {
                out.push(b',');
            }
            out.extend_from_slice(key);
            out.push(b':');
            let field = &fields[number];
            let empty = self
                .value(&field.shape, out)
                .map_err(|error| within(key, &error))?;
            if empty && field.omitted {
                out.truncate(start);
            } else {
                first = false;
            }
            seen |= 1 << number;
            self.comma();
        }
        self.at += 1;
        for (number, field) in fields.iter().enumerate() {
            if field.omitted || seen & 1 << number != 0 {
                continue;
            }
            if !first {
                out.push(b',');
            }
            first = false;
            write_key(field, out);
            write_zero(&field.shape, out);
        }
        out.push(b'}');
        Ok(false)
    }

    /// The key at this place, with its quotes; goes on behind the colon.
    fn key(&mut self) -> &'a [u8] {
        let key = self.skip();
        self.at += 1;
        key
    }

    fn comma(&mut self) {
        self.at += usize::from(self.peek() == Some(b','));
    }

    /// The value at this place, whatever it is.
    fn skip(&mut self) -> &'a [u8] {
        let start = self.at;
        let mut depth = 0;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'"' => self.skip_string(),
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth > 0 => depth -= 1,
                b'}' | b']' | b',' | b':' if depth == 0 => {
                    self.at -= 1;
                    break;
                }
                _ => {}
            }
            if depth == 0 && matches!(byte, b'"' | b'}' | b']') {
                break;
            }
        }
        &self.json[start..self.at]
    }

    /// Goes on behind the string whose first quote was just passed.
    fn skip_string(&mut self) {
        while let Some(found) = memchr::memchr2(b'"', b'\\', &self.json[self.at..]) {
            let escape = self.json[self.at + found] == b'\\';
            self.at += found + 1 + usize::from(escape);
            if !escape {
                return;
            }
            if self.at >= self.json.len() {
                break;
            }
        }
        self.at = self.json.len();
    }
}

fn write_key(field: &Field, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(field.name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn write_zero(shape: &Shape, out: &mut Vec<u8>) {
    let zero: &[u8] = match shape {
        Shape::Text => b"\"\"",
        Shape::Bool => b"false",
        Shape::Integer => b"0",
        Shape::Any => b"null",
        Shape::List(_) => b"[]",
        Shape::Texts => b"{}",
        Shape::Object(fields) => {
            out.push(b'{');
            let kept = fields.iter().filter(|field| !field.omitted);
            for (number, field) in kept.enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                write_key(field, out);
                write_zero(&field.shape, out);
            }
            b"}"
        }
    };
    out.extend_from_slice(zero);
}

fn name(shape: &Shape) -> &'static str {
    match shape {
        Shape::Text => "a string",
        Shape::Bool => "true or false",
        Shape::Integer => "an integer",
        Shape::Any => "a value",
        Shape::List(_) => "a list",
        Shape::Texts | Shape::Object(_) => "an object",
    }
}

fn within(key: &[u8], error: &str) -> String {
    let key = String::from_utf8_lossy(key);
    match error.strip_prefix("its ") {
        Some(inner) => format!("its {key} {inner}"),
        None => format!("its {key} {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SHAPE: Shape = Shape::Object(&[
        Field::kept("a", Shape::Text),
        Field::omitted(
            "b",
            Shape::List(&Shape::Object(&[Field::kept("x", Shape::Bool)])),
        ),
        Field::omitted("c", Shape::Integer),
        Field::omitted("d", Shape::Texts),
        Field::omitted("e", Shape::Any),
        Field::kept("f", Shape::Object(&[Field::omitted("y", Shape::Text)])),
    ]);

    fn written(json: &str) -> Result<String, String> {
        let mut out = Vec::new();
        write(&SHAPE, json.as_bytes(), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn what_go_would_write_back_stays_as_it_is() {
        for json in [
            r#"{"a":"","f":{}}"#,
            r#"{"a":"\"x\\","b":[{"x":true},{"x":false}],"c":-7,"d":{"k":"}"},"e":{"z":[1,{"q":","}]},"f":{"y":"t"}}"#,
        ] {
            assert_eq!(written(json).as_deref(), Ok(json));
        }
    }

    #[test]
    fn the_rest_is_cut_and_filled_in() {
        for (json, wanted) in [
            ("{}", r#"{"a":"","f":{}}"#),
            ("null", r#"{"a":"","f":{}}"#),
            (r#"{"a":null,"f":null}"#, r#"{"a":"","f":{}}"#),
            (r#"{"a":"t","zz":[{"q":"]"}]}"#, r#"{"a":"t","f":{}}"#),
            (
                r#"{"b":[],"c":0,"d":{},"e":null}"#,
                r#"{"e":null,"a":"","f":{}}"#,
            ),
            (
                r#"{"b":[{},null]}"#,
                r#"{"b":[{"x":false},{"x":false}],"a":"","f":{}}"#,
            ),
            (r#"{"f":{"y":"","z":1}}"#, r#"{"f":{},"a":""}"#),
        ] {
            assert_eq!(written(json).as_deref(), Ok(wanted), "{json}");
        }
    }

    #[test]
    fn a_value_of_another_type_is_named() {
        for (json, wanted) in [
            (r#"{"a":1}"#, r#"its "a" must be a string"#),
            (r#"{"b":[{"x":1}]}"#, r#"its "b" "x" must be true or false"#),
            (r#"{"c":1.5}"#, r#"its "c" must be a 32-bit integer"#),
            (r#"{"d":{"k":[]}}"#, r#"its "d" "k" must be a string"#),
            ("[]", "must be an object"),
        ] {
            assert_eq!(written(json), Err(wanted.to_owned()), "{json}");
        }
    }

    #[test]
    fn members_are_found_whatever_their_values() {
        let json = br#"{"a":{"x":"}"},"b\"":"q","c":-1.5e+21,"d":null,"e":[]}"#;
        let found: Vec<_> = members(json)
            .into_iter()
            .map(|(key, value)| {
                (
                    std::str::from_utf8(key).unwrap(),
                    std::str::from_utf8(value).unwrap(),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("a", r#"{"x":"}"}"#),
                ("b\\\"", "\"q\""),
                ("c", "-1.5e+21"),
                ("d", "null"),
                ("e", "[]")
            ]
        );
        assert!(members(b"{}").is_empty());
    }
}
