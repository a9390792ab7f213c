//! Canonical JSON objects as messages `google.protobuf.Struct`, written without
//! a tree.
//!
//! A message follows its length, which is known only at its end. An object is
//! therefore read twice: once to measure it, and once to write it.

use std::borrow::Cow;
use std::slice;

use crate::answers::grpc::message::{field_length, put_field_header, text_length};
use fbc::text::json::cursor::Cursor;
use fbc::text::json::unescape;

// The field of `Struct` and `ListValue`: an item.
const ITEM: u32 = 1;
// Fields of an item of a `Struct`.
const KEY: u32 = 1;
const VALUE: u32 = 2;
// Fields of `Value`, which has exactly one: those of fixed size include their wire
// types, varint and 64 bits.
const NULL: u8 = 1 << 3;
const NUMBER: u8 = 2 << 3 | 1;
const STRING: u32 = 3;
const BOOL: u8 = 4 << 3;
const STRUCT: u32 = 5;
const LIST: u32 = 6;

/// A measured object.
pub struct Struct<'a> {
    json: &'a [u8],
    length: u32,
    /// The lengths of the objects and lists in it that are not empty, in the
    /// order of their beginnings.
    lengths: Vec<u32>,
}

impl<'a> Struct<'a> {
    /// Measures a canonical object. Returns nothing for other values, and for
    /// objects that are too long for a message.
    pub fn of(json: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor::new(json);
        if cursor.peek() != Some(b'{') {
            return None;
        }
        let mut lengths = Vec::new();
        let length = measure(&mut cursor, STRUCT, &mut lengths);
        Some(Self {
            json,
            length: u32::try_from(length).ok()?,
            lengths,
        })
    }

    /// The length of the message in bytes.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// Writes the message, in small parts.
    pub fn write<E>(&self, sink: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut writer = Writer {
            cursor: Cursor::new(self.json),
            lengths: self.lengths.iter(),
            scratch: Vec::new(),
            sink,
        };
        writer.items(STRUCT)
    }
}

/// A value as the field of a `Value`.
enum Field<'a> {
    Null,
    Bool(bool),
    Number(f64),
    Text(Cow<'a, str>),
    /// A struct or a list by its field, and the length of its items.
    Items(u32, u64),
}

impl<'a> Field<'a> {
    /// The value at this place. For objects and lists, `items` returns the length.
    fn next(cursor: &mut Cursor<'a>, items: impl FnOnce(&mut Cursor<'a>, u32) -> u64) -> Self {
        let field = match cursor.peek() {
            Some(b'{') => STRUCT,
            Some(b'[') => LIST,
            _ => return Self::scalar(cursor.skip()),
        };
        Self::Items(field, items(cursor, field))
    }

    fn scalar(json: &'a [u8]) -> Self {
        match json.first() {
            Some(b'"') => Self::Text(text(json)),
            Some(b't') => Self::Bool(true),
            Some(b'f') => Self::Bool(false),
            Some(b'-' | b'0'..=b'9') => {
                let number = str::from_utf8(json).ok().and_then(|n| n.parse().ok());
                // A canonical number always parses.
                Self::Number(number.unwrap_or_default())
            }
            _ => Self::Null,
        }
    }

    fn length(&self) -> u64 {
        match self {
            Self::Null | Self::Bool(_) => 2,
            Self::Number(_) => 9,
            Self::Text(text) => field_length(text.len() as u64),
            Self::Items(_, length) => field_length(*length),
        }
    }
}

/// The text of a string with its quotes.
fn text(json: &[u8]) -> Cow<'_, str> {
    match json {
        [b'"', inner @ .., b'"'] => unescape(inner),
        _ => Cow::Borrowed(""),
    }
}

/// The length of an item of a `Struct`.
fn item_length(key: &str, value: &Field<'_>) -> u64 {
    text_length(key) + field_length(value.length())
}

/// Whether the struct or list at this place is empty.
fn is_empty(mut cursor: Cursor<'_>) -> bool {
    cursor.step();
    matches!(cursor.peek(), Some(b'}' | b']') | None)
}

/// Passes the struct or list at this place and returns the length of its items.
/// The lengths of nested ones that are not empty are appended to `lengths`.
fn measure(cursor: &mut Cursor<'_>, field: u32, lengths: &mut Vec<u32>) -> u64 {
    let mut inner = |cursor: &mut Cursor<'_>, field| {
        if is_empty(*cursor) {
            cursor.skip();
            return 0;
        }
        let place = lengths.len();
        lengths.push(0);
        let length = measure(cursor, field, lengths);
        // If this is too long, so is the whole object, and it is not written.
        lengths[place] = u32::try_from(length).unwrap_or(u32::MAX);
        length
    };
    cursor.step();
    let mut length = 0;
    if field == LIST {
        while cursor.next_element() {
            length += field_length(Field::next(cursor, &mut inner).length());
        }
    } else {
        while let Some(key) = cursor.next_key() {
            let value = Field::next(cursor, &mut inner);
            length += field_length(item_length(&text(key), &value));
        }
    }
    length
}

/// The second cursor.
struct Writer<'a, S> {
    cursor: Cursor<'a>,
    /// The lengths of the objects and lists that follow.
    lengths: slice::Iter<'a, u32>,
    scratch: Vec<u8>,
    sink: S,
}

impl<'a, E, S: FnMut(&[u8]) -> Result<(), E>> Writer<'a, S> {
    /// Writes the items of the struct or list at this place.
    fn items(&mut self, field: u32) -> Result<(), E> {
        self.cursor.step();
        if field == LIST {
            while self.cursor.next_element() {
                let value = self.next();
                self.header(ITEM, value.length())?;
                self.value(&value)?;
            }
            return Ok(());
        }
        while let Some(key) = self.cursor.next_key() {
            let (key, value) = (text(key), self.next());
            self.header(ITEM, item_length(&key, &value))?;
            if !key.is_empty() {
                self.header(KEY, key.len() as u64)?;
                (self.sink)(key.as_bytes())?;
            }
            self.header(VALUE, value.length())?;
            self.value(&value)?;
        }
        Ok(())
    }

    fn next(&mut self) -> Field<'a> {
        let lengths = &mut self.lengths;
        Field::next(&mut self.cursor, |cursor, _| {
            if is_empty(*cursor) {
                return 0;
            }
            // The first reading measured each of them.
            lengths.next().copied().unwrap_or_default().into()
        })
    }

    fn value(&mut self, value: &Field<'a>) -> Result<(), E> {
        match value {
            Field::Null => (self.sink)(&[NULL, 0]),
            Field::Bool(value) => (self.sink)(&[BOOL, u8::from(*value)]),
            Field::Number(number) => {
                (self.sink)(&[NUMBER])?;
                (self.sink)(&number.to_le_bytes())
            }
            Field::Text(text) => {
                self.header(STRING, text.len() as u64)?;
                (self.sink)(text.as_bytes())
            }
            Field::Items(field, length) => {
                self.header(*field, *length)?;
                self.items(*field)
            }
        }
    }

    fn header(&mut self, field: u32, length: u64) -> Result<(), E> {
        self.scratch.clear();
        put_field_header(&mut self.scratch, field, length);
        (self.sink)(&self.scratch)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;
    use prost::Message as _;
    use prost_types::value::Kind;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::answers::grpc::message::put_field;
    use fbc::text::json::{Canonicaliser, MAX_DEPTH};

    /// The message of what a document becomes in the store.
    fn written(document: &str) -> Vec<u8> {
        let mut line = Vec::new();
        let mut canonicaliser = Canonicaliser::default();
        canonicaliser
            .read(document.as_bytes(), 0, &mut line)
            .unwrap();
        line.push(b'\n');
        let message = Struct::of(&line).unwrap();
        let mut out = Vec::new();
        let done = message.write(|part| {
            out.extend_from_slice(part);
            Ok::<_, Infallible>(())
        });
        assert_eq!(done, Ok(()));
        assert_eq!(message.length() as usize, out.len());
        out
    }

    fn to_struct(object: Map<String, Value>) -> prost_types::Struct {
        let fields = object.into_iter();
        prost_types::Struct {
            fields: fields.map(|(key, value)| (key, to_value(value))).collect(),
        }
    }

    fn to_value(value: Value) -> prost_types::Value {
        let kind = match value {
            Value::Null => Kind::NullValue(0),
            Value::Bool(value) => Kind::BoolValue(value),
            Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap()),
            Value::String(text) => Kind::StringValue(text),
            Value::Array(values) => Kind::ListValue(prost_types::ListValue {
                values: values.into_iter().map(to_value).collect(),
            }),
            Value::Object(object) => Kind::StructValue(to_struct(object)),
        };
        prost_types::Value { kind: Some(kind) }
    }

    /// A document is written byte by byte as prost writes the tree of it.
    fn compare(document: &Value) {
        let Value::Object(object) = document.clone() else {
            panic!("{document} is no object");
        };
        let wanted = to_struct(object).encode_to_vec();
        assert!(written(&document.to_string()) == wanted, "{document}");
    }

    #[test]
    fn an_object_is_written_as_prost_writes_the_tree_of_it() {
        compare(&json!({}));
        compare(&json!({"": "", "a": {}, "b": [], "c": [{}, [], [[]], null, ""]}));
        compare(
            &json!({"null": null, "true": true, "false": false, "nested": {"a": {"": {"b": [1, "two", [3.5]]}}}}),
        );
        compare(
            &json!({"Grüße \u{1f347}": "e\u{301}\u{0}\u{7}\t\n\r\u{8}\u{c}\"\\/\u{2028}<&>", "\"\\": "\u{ffff}"}),
        );
        compare(
            &json!({"numbers": [0, -0.0, 1, -1, 0.1, 1e-7, 1e21, 1.5e300, 5e-324, f64::MAX, f64::MIN,
            9_007_199_254_740_993_i64, u64::MAX, i64::MIN]}),
        );
        // Lengths of one byte, of two, and of three.
        for length in [0, 1, 125, 126, 127, 128, 129, 16_381, 16_384, 70_000] {
            compare(&json!({"text": "x".repeat(length), "list": vec![Value::Null; length]}));
            compare(&json!({"x".repeat(length): {"y".repeat(length): length}}));
        }
    }

    #[test]
    fn integers_that_no_float_holds_become_the_nearest_one() {
        let out = written(r#"{"n": [123456789012345678901234567890, -9007199254740993]}"#);
        let message = prost_types::Struct::decode(&out[..]).unwrap();
        let Some(Kind::ListValue(list)) = &message.fields["n"].kind else {
            panic!("{message:?}");
        };
        let number = |value: &prost_types::Value| value.kind.clone();
        assert_eq!(
            list.values.iter().map(number).collect::<Vec<_>>(),
            [
                123_456_789_012_345_680_000_000_000_000.0,
                -9_007_199_254_740_992.0
            ]
            .map(|number| Some(Kind::NumberValue(number)))
        );
    }

    #[test]
    fn values_nest_as_deep_as_the_reader_admits() {
        let wrapped = |number: u32, inner: &[u8]| {
            let mut out = Vec::new();
            put_field(&mut out, number, inner);
            out
        };
        let one = [&[NUMBER][..], &1_f64.to_le_bytes()].concat();
        let list = |value: &[u8]| wrapped(LIST, &wrapped(ITEM, value));
        let item = |value: &[u8]| [wrapped(KEY, b"a"), wrapped(VALUE, value)].concat();
        let object = |value: &[u8]| wrapped(STRUCT, &wrapped(ITEM, &item(value)));
        for (begin, end, around) in [
            ("[", "]", &list as &dyn Fn(&[u8]) -> Vec<u8>),
            (r#"{"a":"#, "}", &object),
        ] {
            let nested =
                |depth| format!(r#"{{"a":{}1{}}}"#, begin.repeat(depth), end.repeat(depth));
            let wanted = (1..MAX_DEPTH).fold(one.clone(), |value, _| around(&value));
            assert!(written(&nested(MAX_DEPTH - 1)) == wrapped(ITEM, &item(&wanted)));
            let mut line = Vec::new();
            let deeper = Canonicaliser::default().read(nested(MAX_DEPTH).as_bytes(), 0, &mut line);
            assert!(deeper.is_err());
        }
    }

    #[test]
    fn what_is_no_object_is_not_written_and_an_error_of_the_sink_ends_it() {
        for json in [&b""[..], b"[]", b"\"{}\"", b"1", b"null"] {
            assert!(Struct::of(json).is_none());
        }
        let message = Struct::of(br#"{"a":[1,2],"b":"c"}"#).unwrap();
        let mut left = 3;
        let stopped = message.write(|_| {
            left -= 1;
            if left == 0 { Err("full") } else { Ok(()) }
        });
        assert_eq!((stopped, left), (Err("full"), 0));
    }

    /// Any JSON. Numbers are such as a float holds.
    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            (-(1_i64 << 53)..1 << 53).prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(6, 96, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
                objects(inner),
            ]
        })
    }

    fn objects(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
        let members = prop::collection::vec((any::<String>(), inner), 0..8);
        members.prop_map(|members| Value::Object(members.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn any_object_is_written_as_prost_writes_the_tree_of_it(document in objects(values())) {
            compare(&document);
        }
    }
}
