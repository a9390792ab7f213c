//! What Go's reader and writer make of a JSON value of a known type.
//!
//! The peers read `olm.csv.metadata` into typed fields and write those out
//! again: unknown fields fall away, empty ones that are marked so are left
//! out, missing ones that are not appear with their zero value, `null` becomes
//! the zero value, and a value of another type is an error. A [`Shape`] says
//! all that of a type, and [`check`] and [`write()`] do it, on canonical JSON and
//! without a tree; only
//! objects whose keys differ from the names of fields in case go by way of
//! `folded`.

use crate::text::json::cursor::Walk;
use crate::text::json::folded;

/// A type.
#[derive(Debug)]
pub(crate) enum Shape {
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
pub(crate) struct Field {
    /// Its key.
    pub(crate) name: &'static str,
    /// Its type.
    pub(crate) shape: Shape,
    /// Whether it is left out when it is empty. Objects with known fields
    /// never count as empty.
    pub(crate) omitted: bool,
}

impl Field {
    /// A field that is left out when it is empty.
    pub(crate) const fn omitted(name: &'static str, shape: Shape) -> Self {
        Self {
            name,
            shape,
            omitted: true,
        }
    }

    /// A field that is always there.
    pub(crate) const fn kept(name: &'static str, shape: Shape) -> Self {
        Self {
            name,
            shape,
            omitted: false,
        }
    }
}

/// Where the result goes. Most values stay as they are, so whether they do is
/// found out first, without writing anything.
trait Sink {
    /// Takes bytes that stand in the value in the same place.
    fn keep(&mut self, bytes: &[u8]);
    /// Takes bytes that do not stand in the value.
    fn add(&mut self, bytes: &[u8]);
    /// How much it took.
    fn length(&self) -> usize;
    /// Forgets what it took since it had this length.
    fn cut(&mut self, length: usize);
    /// Learns that a key differs from its field's name in case; whether that
    /// is all right.
    fn folds(&mut self) -> bool;
}

/// Only tells whether anything changed.
#[derive(Default)]
struct Same {
    changed: bool,
}

impl Sink for Same {
    fn keep(&mut self, _: &[u8]) {}
    fn add(&mut self, _: &[u8]) {
        self.changed = true;
    }
    fn length(&self) -> usize {
        0
    }
    fn cut(&mut self, _: usize) {
        self.changed = true;
    }
    fn folds(&mut self) -> bool {
        self.changed = true;
        true
    }
}

impl Sink for Vec<u8> {
    fn keep(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
    fn add(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
    fn length(&self) -> usize {
        self.len()
    }
    fn cut(&mut self, length: usize) {
        self.truncate(length);
    }
    fn folds(&mut self) -> bool {
        false
    }
}

/// A sentence's end about a value of another type. Of two words, for most values
/// have none, and are many.
pub(crate) type Mismatch = Box<str>;

/// What [`check`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    /// Whether the value stays as it is.
    pub(crate) same: bool,
    /// Whether it is an empty one.
    pub(crate) empty: bool,
}

/// Goes through the value at `walk` and tells what becomes of it.
///
/// # Errors
/// A value of another type.
pub(crate) fn check(shape: &Shape, walk: &mut Walk<'_>) -> Result<Checked, Mismatch> {
    let mut same = Same::default();
    let empty = value(shape, walk, &mut same)?;
    Ok(Checked {
        same: !same.changed,
        empty,
    })
}

/// Appends what becomes of `json`, a canonical value that was checked.
pub(crate) fn write(shape: &Shape, json: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    if value(shape, &mut Walk::new(json), out).is_err() {
        out.truncate(start);
        folded::write(shape, &[json], out);
    }
}

/// Returns whether the value is an empty one.
fn value(shape: &Shape, walk: &mut Walk<'_>, out: &mut impl Sink) -> Result<bool, Mismatch> {
    let first = walk.peek().unwrap_or_default();
    if first == b'n' && !matches!(shape, Shape::Any) {
        walk.skip();
        add_zero(shape, out);
        return Ok(!matches!(shape, Shape::Object(_)));
    }
    match (shape, first) {
        (Shape::Any, _) => {
            out.keep(walk.skip());
            Ok(false)
        }
        (Shape::Text, b'"') | (Shape::Bool, b't' | b'f') => {
            let text = walk.skip();
            out.keep(text);
            Ok(matches!(text, b"\"\"" | b"false"))
        }
        (Shape::Integer, b'-' | b'0'..=b'9') => {
            let digits = walk.skip();
            out.keep(digits);
            std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| digits.parse::<i32>().ok())
                .map(|number| number == 0)
                .ok_or_else(|| "must be a 32-bit integer".into())
        }
        (Shape::Texts, b'{') => texts(walk, out),
        (Shape::List(element), b'[') => list(element, walk, out),
        (Shape::Object(fields), b'{') => object(fields, walk, out),
        (shape, _) => Err(format!("must be {}", name(shape)).into()),
    }
}

fn texts(walk: &mut Walk<'_>, out: &mut impl Sink) -> Result<bool, Mismatch> {
    walk.step();
    out.keep(b"{");
    let mut empty = true;
    while let Some(key) = walk.next_key() {
        if !empty {
            out.keep(b",");
        }
        empty = false;
        out.keep(key);
        out.keep(b":");
        value(&Shape::Text, walk, out).map_err(|error| within(key, &error))?;
    }
    out.keep(b"}");
    Ok(empty)
}

fn list(element: &Shape, walk: &mut Walk<'_>, out: &mut impl Sink) -> Result<bool, Mismatch> {
    walk.step();
    out.keep(b"[");
    let mut empty = true;
    while walk.next_element() {
        if !empty {
            out.keep(b",");
        }
        empty = false;
        value(element, walk, out)?;
    }
    out.keep(b"]");
    Ok(empty)
}

fn object(fields: &[Field], walk: &mut Walk<'_>, out: &mut impl Sink) -> Result<bool, Mismatch> {
    walk.step();
    out.keep(b"{");
    let mut first = true;
    let mut seen: u32 = 0;
    let mut next = 0;
    while let Some(key) = walk.next_key() {
        let start = out.length();
        let found = folded::find(fields, &key[1..key.len() - 1], next);
        let Some((number, exactly)) = found else {
            walk.skip();
            out.cut(start);
            continue;
        };
        next = number + 1;
        if !exactly && !out.folds() {
            return Err("is written by way of a tree".into());
        }
        if !first {
            out.keep(b",");
        }
        out.keep(key);
        out.keep(b":");
        let field = &fields[number];
        let empty = value(&field.shape, walk, out).map_err(|error| within(key, &error))?;
        if empty && field.omitted {
            out.cut(start);
        } else {
            first = false;
        }
        seen |= 1 << number;
    }
    for (number, field) in fields.iter().enumerate() {
        if field.omitted || seen & (1 << number) != 0 {
            continue;
        }
        if !first {
            out.add(b",");
        }
        first = false;
        add_key(field, out);
        add_zero(&field.shape, out);
    }
    out.keep(b"}");
    Ok(false)
}

/// Appends the zero value of a type.
pub(crate) fn write_zero(shape: &Shape, out: &mut Vec<u8>) {
    add_zero(shape, out);
}

fn add_key(field: &Field, out: &mut impl Sink) {
    out.add(b"\"");
    out.add(field.name.as_bytes());
    out.add(b"\":");
}

fn add_zero(shape: &Shape, out: &mut impl Sink) {
    let zero: &[u8] = match shape {
        Shape::Text => b"\"\"",
        Shape::Bool => b"false",
        Shape::Integer => b"0",
        Shape::Any => b"null",
        Shape::List(_) => b"[]",
        Shape::Texts => b"{}",
        Shape::Object(fields) => {
            out.add(b"{");
            let kept = fields.iter().filter(|field| !field.omitted);
            for (number, field) in kept.enumerate() {
                if number > 0 {
                    out.add(b",");
                }
                add_key(field, out);
                add_zero(&field.shape, out);
            }
            b"}"
        }
    };
    out.add(zero);
}

/// What a value of the type is called.
pub(crate) fn name(shape: &Shape) -> &'static str {
    match shape {
        Shape::Text => "a string",
        Shape::Bool => "true or false",
        Shape::Integer => "an integer",
        Shape::Any => "a value",
        Shape::List(_) => "a list",
        Shape::Texts | Shape::Object(_) => "an object",
    }
}

/// An error of a value inside of the one with this key.
pub(crate) fn within(key: &[u8], error: &str) -> Mismatch {
    let key = String::from_utf8_lossy(key);
    let inner = error.strip_prefix("its ").unwrap_or(error);
    format!("its {key} {inner}").into()
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

    /// What becomes of a value; the check must agree with it.
    fn written(json: &str) -> Result<String, String> {
        let checked = check(&SHAPE, &mut Walk::new(json.as_bytes()))?;
        let mut out = Vec::new();
        write(&SHAPE, json.as_bytes(), &mut out);
        assert_eq!(checked.same, out == json.as_bytes(), "{json}");
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
            // Keys in another case.
            (r#"{"A":"t","F":{"Y":"u"}}"#, r#"{"a":"t","f":{"y":"u"}}"#),
            (
                r#"{"A":"t","B":[{"X":true}],"a":"u","zz":1}"#,
                r#"{"a":"u","b":[{"x":true}],"f":{}}"#,
            ),
            (
                r#"{"D":{"K":"1"},"a":"t","d":{"k":"2"},"f":{}}"#,
                r#"{"a":"t","d":{"K":"1","k":"2"},"f":{}}"#,
            ),
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
            (r#"{"B":[{"X":1}]}"#, r#"its "B" "X" must be true or false"#),
            ("[]", "must be an object"),
        ] {
            assert_eq!(written(json), Err(wanted.to_owned()), "{json}");
        }
    }
}
