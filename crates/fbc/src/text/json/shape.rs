//! The result of reading a JSON value into a Go type and writing it again.
//!
//! opm and catalogd do this with `olm.csv.metadata`. Unknown fields are dropped.
//! Empty fields are dropped if they are marked `omitempty`; other missing fields
//! appear with their zero value. `null` becomes the zero value, and a value of
//! another type is an error. A [`Shape`] describes a type. [`check`] and
//! [`write()`] apply it to canonical JSON without building a tree. Only objects
//! whose keys differ from the names of fields in case need one, see `folded`.

use crate::text::json::cursor::Cursor;
use crate::text::json::folded;
use crate::text::json::schema::{Checked, Field, Mismatch, Shape, find, integer, write_zero};

/// The receiver of the result. Most values do not change, so a first pass finds out
/// whether they do, without writing anything.
trait Sink {
    /// Takes bytes that the value has in the same place.
    fn keep(&mut self, bytes: &[u8]);
    /// Takes bytes that the value does not have.
    fn add(&mut self, bytes: &[u8]);
    /// Takes the zero value of a type, which the value does not have.
    fn add_zero(&mut self, shape: &Shape);
    /// The number of bytes it took.
    fn length(&self) -> usize;
    /// Removes everything appended after this length.
    fn cut(&mut self, length: usize);
    /// Learns that a key differs from its field's name in case. An error if that
    /// needs a tree.
    fn folds(&mut self) -> Result<(), Stop>;
}

/// The reason why a value is not read to its end.
#[derive(Debug, PartialEq, Eq)]
enum Stop {
    /// It has another type.
    Mismatch(Mismatch),
    /// It cannot be written without a tree: a key has another case than its
    /// field.
    NeedsTree,
}

impl Stop {
    fn within(self, key: &[u8]) -> Self {
        match self {
            Self::Mismatch(mismatch) => Self::Mismatch(mismatch.within(key)),
            Self::NeedsTree => Self::NeedsTree,
        }
    }
}

impl From<Mismatch> for Stop {
    fn from(mismatch: Mismatch) -> Self {
        Self::Mismatch(mismatch)
    }
}

/// Notes whether anything changed.
#[derive(Default)]
struct Same {
    changed: bool,
}

impl Sink for Same {
    fn keep(&mut self, _: &[u8]) {}
    fn add(&mut self, _: &[u8]) {
        self.changed = true;
    }
    fn add_zero(&mut self, _: &Shape) {
        self.changed = true;
    }
    fn length(&self) -> usize {
        0
    }
    fn cut(&mut self, _: usize) {
        self.changed = true;
    }
    fn folds(&mut self) -> Result<(), Stop> {
        self.changed = true;
        Ok(())
    }
}

impl Sink for Vec<u8> {
    fn keep(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
    fn add(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
    fn add_zero(&mut self, shape: &Shape) {
        write_zero(shape, self);
    }
    fn length(&self) -> usize {
        self.len()
    }
    fn cut(&mut self, length: usize) {
        self.truncate(length);
    }
    fn folds(&mut self) -> Result<(), Stop> {
        Err(Stop::NeedsTree)
    }
}

/// Moves over the value at the cursor and compares it with the text that Go writes
/// for it.
///
/// # Errors
/// A value of another type.
pub(crate) fn check(shape: &Shape, cursor: &mut Cursor<'_>) -> Result<Checked, Mismatch> {
    let start = *cursor;
    let mut same = Same::default();
    match value(shape, cursor, &mut same) {
        Ok(empty) => Ok(Checked {
            same: !same.changed,
            empty,
        }),
        Err(Stop::Mismatch(mismatch)) => Err(mismatch),
        // Impossible for this sink, which writes nothing.
        Err(Stop::NeedsTree) => {
            *cursor = start;
            folded::check(shape, &[cursor.skip()])
        }
    }
}

/// Appends the text that Go writes for `json`, a checked canonical value.
pub(crate) fn write(shape: &Shape, json: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    match value(shape, &mut Cursor::new(json), out) {
        Ok(_) => {}
        Err(Stop::NeedsTree) => {
            out.truncate(start);
            folded::write(shape, &[json], out);
        }
        // Impossible after a check.
        Err(Stop::Mismatch(_)) => {
            out.truncate(start);
            write_zero(shape, out);
        }
    }
}

/// Returns whether the value is empty.
fn value(shape: &Shape, cursor: &mut Cursor<'_>, out: &mut impl Sink) -> Result<bool, Stop> {
    let first = cursor.peek().unwrap_or_default();
    if first == b'n' && !matches!(shape, Shape::Any) {
        cursor.skip();
        out.add_zero(shape);
        return Ok(!matches!(shape, Shape::Object(_)));
    }
    match (shape, first) {
        (Shape::Any, _) => {
            out.keep(cursor.skip());
            Ok(false)
        }
        (Shape::Text, b'"') | (Shape::Bool, b't' | b'f') => {
            let text = cursor.skip();
            out.keep(text);
            Ok(matches!(text, b"\"\"" | b"false"))
        }
        (Shape::Integer, b'-' | b'0'..=b'9') => {
            let digits = cursor.skip();
            out.keep(digits);
            Ok(integer(digits)? == 0)
        }
        (Shape::Texts, b'{') => texts(cursor, out),
        (Shape::List(element), b'[') => list(element, cursor, out),
        (Shape::Object(fields), b'{') => object(fields, cursor, out),
        (shape, _) => Err(Mismatch::from_shape(shape).into()),
    }
}

fn texts(cursor: &mut Cursor<'_>, out: &mut impl Sink) -> Result<bool, Stop> {
    cursor.step();
    out.keep(b"{");
    let mut empty = true;
    while let Some(key) = cursor.next_key() {
        if !empty {
            out.keep(b",");
        }
        empty = false;
        out.keep(key);
        out.keep(b":");
        value(&Shape::Text, cursor, out).map_err(|stop| stop.within(key))?;
    }
    out.keep(b"}");
    Ok(empty)
}

fn list(element: &Shape, cursor: &mut Cursor<'_>, out: &mut impl Sink) -> Result<bool, Stop> {
    cursor.step();
    out.keep(b"[");
    let mut empty = true;
    while cursor.next_element() {
        if !empty {
            out.keep(b",");
        }
        empty = false;
        value(element, cursor, out)?;
    }
    out.keep(b"]");
    Ok(empty)
}

fn object(fields: &[Field], cursor: &mut Cursor<'_>, out: &mut impl Sink) -> Result<bool, Stop> {
    cursor.step();
    out.keep(b"{");
    let mut first = true;
    let mut seen: u32 = 0;
    let mut next = 0;
    while let Some(key) = cursor.next_key() {
        let start = out.length();
        let found = find(fields, &key[1..key.len() - 1], next);
        let Some((number, exactly)) = found else {
            cursor.skip();
            out.cut(start);
            continue;
        };
        next = number + 1;
        if !exactly {
            out.folds()?;
        }
        if !first {
            out.keep(b",");
        }
        out.keep(key);
        out.keep(b":");
        let field = &fields[number];
        let empty = value(&field.shape, cursor, out).map_err(|stop| stop.within(key))?;
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
        out.add(b"\"");
        out.add(field.name.as_bytes());
        out.add(b"\":");
        out.add_zero(&field.shape);
    }
    out.keep(b"}");
    Ok(false)
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

    /// The text that is written; the check must agree with it.
    fn written(json: &str) -> Result<String, String> {
        let checked = check(&SHAPE, &mut Cursor::new(json.as_bytes()));
        let checked = checked.map_err(|mismatch| mismatch.to_string())?;
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

    #[test]
    fn only_a_key_in_another_case_needs_a_tree() {
        let stop = |json: &str| {
            let mut out = Vec::new();
            value(&SHAPE, &mut Cursor::new(json.as_bytes()), &mut out).unwrap_err()
        };
        assert_eq!(stop(r#"{"b":[{"X":true}]}"#), Stop::NeedsTree);
        for json in [
            "[]",
            r#"{"a":1}"#,
            r#"{"b":[{"x":1}]}"#,
            r#"{"d":{"is written by way of a tree":1}}"#,
        ] {
            assert!(matches!(stop(json), Stop::Mismatch(_)), "{json}");
            let mut out = b"before".to_vec();
            write(&SHAPE, json.as_bytes(), &mut out);
            assert_eq!(out, br#"before{"a":"","f":{}}"#, "{json}");
        }
    }

    #[test]
    fn a_mismatch_names_the_keys_as_they_are_written() {
        for (json, wanted) in [
            (
                r#"{"d":{"its own":1}}"#,
                r#"its "d" "its own" must be a string"#,
            ),
            (r#"{"D":{"K":1}}"#, r#"its "D" "K" must be a string"#),
        ] {
            assert_eq!(written(json), Err(wanted.to_owned()), "{json}");
        }
    }
}
