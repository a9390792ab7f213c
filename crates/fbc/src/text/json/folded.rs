//! Values with keys that differ in case from the names of their fields.
//!
//! Go's reader takes a key in any case for the name of a field. If an object has
//! several such keys, each later value is merged into the earlier one, objects and
//! lists member by member. Only this needs a tree, so `shape` passes a value to this
//! module once it finds such a key.

use std::collections::BTreeMap;

use crate::text::json::cursor::Cursor;
use crate::text::json::schema::{Checked, Field, Mismatch, Shape, find, integer, write_zero};

/// The number of values that a tree may have. Catalogs need far fewer.
const MAX_VALUES: usize = 100_000;

/// Checks values that Go reads one after the other into a field.
///
/// # Errors
/// A value of another type.
pub(crate) fn check(shape: &Shape, values: &[&[u8]]) -> Result<Checked, Mismatch> {
    Ok(Checked {
        same: false,
        empty: read(shape, values)?.is_empty(shape),
    })
}

/// Appends the field's value after reading all of them.
pub(crate) fn write(shape: &Shape, values: &[&[u8]], out: &mut Vec<u8>) {
    match read(shape, values) {
        Ok(value) => value.write(shape, out),
        // Not after a check.
        Err(_) => write_zero(shape, out),
    }
}

fn read<'a>(shape: &Shape, values: &[&'a [u8]]) -> Result<Value<'a>, Mismatch> {
    let mut value = Value::Zero;
    let mut left = MAX_VALUES;
    for json in values {
        value.read(shape, &mut Cursor::new(json), &mut left)?;
    }
    Ok(value)
}

/// The content of a Go value.
enum Value<'a> {
    /// The zero value of its type.
    Zero,
    /// A string, boolean or number, or a value of any type, as JSON.
    Json(&'a [u8]),
    /// An object of strings.
    Texts(BTreeMap<&'a [u8], &'a [u8]>),
    /// A list. Items beyond its length are left over from a longer list. They come
    /// back if the list grows again.
    List {
        length: usize,
        items: Vec<Value<'a>>,
    },
    /// The fields that were read, by their place in the type, in order.
    Object(Vec<(usize, Value<'a>)>),
}

impl<'a> Value<'a> {
    /// Reads the value at `cursor` into this one.
    fn read(
        &mut self,
        shape: &Shape,
        cursor: &mut Cursor<'a>,
        left: &mut usize,
    ) -> Result<(), Mismatch> {
        *left = left.checked_sub(1).ok_or_else(Mismatch::too_large)?;
        match (shape, cursor.peek().unwrap_or_default()) {
            (Shape::Any, _) | (Shape::Text, b'"') | (Shape::Bool, b't' | b'f') => {
                *self = Value::Json(cursor.skip());
            }
            (Shape::List(_) | Shape::Texts, b'n') => {
                cursor.skip();
                *self = Value::Zero;
            }
            // Of no effect.
            (_, b'n') => drop(cursor.skip()),
            (Shape::Integer, b'-' | b'0'..=b'9') => {
                let digits = cursor.skip();
                integer(digits)?;
                *self = Value::Json(digits);
            }
            (Shape::Texts, b'{') => self.read_texts(cursor, left)?,
            (Shape::List(element), b'[') => self.read_list(element, cursor, left)?,
            (Shape::Object(fields), b'{') => self.read_object(fields, cursor, left)?,
            _ => return Err(Mismatch::from_shape(shape)),
        }
        Ok(())
    }

    fn read_texts(&mut self, cursor: &mut Cursor<'a>, left: &mut usize) -> Result<(), Mismatch> {
        if !matches!(self, Value::Texts(_)) {
            *self = Value::Texts(BTreeMap::new());
        }
        let Value::Texts(texts) = self else {
            return Ok(());
        };
        cursor.step();
        while let Some(key) = cursor.next_key() {
            let mut text = Value::Zero;
            text.read(&Shape::Text, cursor, left)
                .map_err(|mismatch| mismatch.within(key))?;
            let text = if let Value::Json(text) = text {
                text
            } else {
                b"\"\""
            };
            texts.insert(key, text);
        }
        Ok(())
    }

    fn read_list(
        &mut self,
        element: &Shape,
        cursor: &mut Cursor<'a>,
        left: &mut usize,
    ) -> Result<(), Mismatch> {
        if !matches!(self, Value::List { .. }) {
            *self = Value::List {
                length: 0,
                items: Vec::new(),
            };
        }
        let Value::List { length, items } = self else {
            return Ok(());
        };
        *length = 0;
        cursor.step();
        while cursor.next_element() {
            if *length == items.len() {
                items.push(Value::Zero);
            }
            items[*length].read(element, cursor, left)?;
            *length += 1;
        }
        if *length == 0 {
            items.clear();
        }
        Ok(())
    }

    fn read_object(
        &mut self,
        fields: &[Field],
        cursor: &mut Cursor<'a>,
        left: &mut usize,
    ) -> Result<(), Mismatch> {
        if !matches!(self, Value::Object(_)) {
            *self = Value::Object(Vec::new());
        }
        let Value::Object(read) = self else {
            return Ok(());
        };
        cursor.step();
        while let Some(key) = cursor.next_key() {
            let name = &key[1..key.len() - 1];
            let Some((number, _)) = find(fields, name, 0) else {
                cursor.skip();
                continue;
            };
            let place = match read.binary_search_by_key(&number, |(number, _)| *number) {
                Ok(place) => place,
                Err(place) => {
                    read.reserve_exact(1);
                    read.insert(place, (number, Value::Zero));
                    place
                }
            };
            read[place]
                .1
                .read(&fields[number].shape, cursor, left)
                .map_err(|mismatch| mismatch.within(key))?;
        }
        Ok(())
    }

    /// Whether Go omits it from a field with `omitempty`.
    fn is_empty(&self, shape: &Shape) -> bool {
        match self {
            Value::Zero => !matches!(shape, Shape::Object(_)),
            Value::Json(json) => {
                !matches!(shape, Shape::Any) && matches!(*json, b"\"\"" | b"false" | b"0" | b"-0")
            }
            Value::Texts(texts) => texts.is_empty(),
            Value::List { length, .. } => *length == 0,
            Value::Object(_) => false,
        }
    }

    fn write(&self, shape: &Shape, out: &mut Vec<u8>) {
        match (self, shape) {
            (Value::Json(json), _) => out.extend_from_slice(json),
            (Value::Texts(texts), _) => {
                out.push(b'{');
                for (number, (key, text)) in texts.iter().enumerate() {
                    out.extend_from_slice(if number > 0 { b"," } else { b"" });
                    out.extend_from_slice(key);
                    out.push(b':');
                    out.extend_from_slice(text);
                }
                out.push(b'}');
            }
            (Value::List { length, items }, Shape::List(element)) => {
                out.push(b'[');
                for (number, item) in items.iter().take(*length).enumerate() {
                    out.extend_from_slice(if number > 0 { b"," } else { b"" });
                    item.write(element, out);
                }
                out.push(b']');
            }
            (Value::Object(read), Shape::Object(fields)) => write_object(read, fields, out),
            _ => write_zero(shape, out),
        }
    }
}

fn write_object(read: &[(usize, Value<'_>)], fields: &[Field], out: &mut Vec<u8>) {
    out.push(b'{');
    let mut read = read.iter().peekable();
    let mut first = true;
    for (number, field) in fields.iter().enumerate() {
        let value = match read.next_if(|(found, _)| *found == number) {
            Some((_, value)) => value,
            None if field.omitted => continue,
            None => &Value::Zero,
        };
        if field.omitted && value.is_empty(&field.shape) {
            continue;
        }
        out.extend_from_slice(if first { b"\"" } else { b",\"" });
        first = false;
        out.extend_from_slice(field.name.as_bytes());
        out.extend_from_slice(b"\":");
        value.write(&field.shape, out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    static LINKS: Shape = Shape::List(&Shape::Object(&[
        Field::kept("name", Shape::Text),
        Field::omitted("url", Shape::Text),
        Field::omitted("port", Shape::Integer),
    ]));

    /// The result of these values for one field, one after the other.
    fn made(shape: &Shape, values: &[&str]) -> Result<(String, bool), String> {
        let values: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
        let checked = check(shape, &values).map_err(|mismatch| mismatch.to_string())?;
        assert!(!checked.same);
        let mut out = Vec::new();
        write(shape, &values, &mut out);
        Ok((String::from_utf8(out).unwrap(), checked.empty))
    }

    #[test]
    fn later_values_add_to_earlier_ones() {
        for (shape, values, wanted, empty) in [
            (&Shape::Text, &[r#""a""#, r#""b""#][..], r#""b""#, false),
            (&Shape::Text, &[r#""a""#, "null"], r#""a""#, false),
            (&Shape::Text, &[r#""a""#, r#""""#], r#""""#, true),
            (&Shape::Any, &[r#"{"a":1}"#, "null"], "null", false),
            (
                &Shape::Texts,
                &[r#"{"a":"1","b":"2"}"#, r#"{"b":null,"c":"3"}"#],
                r#"{"a":"1","b":"","c":"3"}"#,
                false,
            ),
            (&Shape::Texts, &[r#"{"a":"1"}"#, "null"], "{}", true),
            (
                &LINKS,
                &[
                    r#"[{"name":"a","url":"u"},{"NAME":"b"}]"#,
                    r#"[{"Url":"v"}]"#,
                ],
                r#"[{"name":"a","url":"v"}]"#,
                false,
            ),
            // The earlier value comes back.
            (
                &LINKS,
                &[r#"[{"name":"a"},{"name":"b","Port":1}]"#, "[{}]", "[{},{}]"],
                r#"[{"name":"a"},{"name":"b","port":1}]"#,
                false,
            ),
            (
                &LINKS,
                &[r#"[{"name":"a"}]"#, "[]", "[null]"],
                r#"[{"name":""}]"#,
                false,
            ),
            (&LINKS, &[r#"[{"name":"a"}]"#, "null"], "[]", true),
        ] {
            let made = made(shape, values);
            assert_eq!(made, Ok((wanted.to_owned(), empty)), "{values:?}");
        }
    }

    #[test]
    fn a_value_of_another_type_is_named_by_the_key_as_it_stands() {
        assert_eq!(
            made(&LINKS, &[r#"[{"Name":1}]"#]),
            Err(r#"its "Name" must be a string"#.into())
        );
        assert_eq!(
            made(&LINKS, &[r#"[{"PORT":1.5}]"#]),
            Err(r#"its "PORT" must be a 32-bit integer"#.into())
        );
        assert!(made(&Shape::Texts, &["{}", "[]"]).is_err());
    }

    #[test]
    fn values_are_bounded() {
        let many = |count: usize| format!("[{}]", vec!["{}"; count].join(","));
        assert!(made(&LINKS, &[&many(MAX_VALUES - 1)]).is_ok());
        assert!(made(&LINKS, &[&many(MAX_VALUES)]).is_err());
    }
}
