//! Values of canonical objects, read on demand.

use std::ops::Range;

use async_graphql::Value;
use bytes::Bytes;
use parking_lot::Mutex;

use fbc::fields::Scalar;
use fbc::text::json::cursor::{Cursor, Member};
use fbc::text::json::unescape;

/// The longest list in a blob that is read.
pub(super) const MAX_LIST: usize = 20_000;

/// An object whose fields are requested: a blob, or an object in a list of a
/// blob. It is read up to the last requested member.
pub(super) struct Object {
    json: Bytes,
    read: Mutex<Read>,
}

/// The members so far.
#[derive(Default)]
struct Read {
    at: usize,
    members: Vec<Member>,
}

impl Object {
    /// The object with this canonical text.
    pub(super) fn new(json: Bytes) -> Self {
        Self {
            json,
            read: Mutex::default(),
        }
    }

    /// The value of the first of these keys that the object has.
    pub(super) fn get(&self, keys: &[Box<str>]) -> Option<Bytes> {
        let mut read = self.read.lock();
        let range = keys.iter().find_map(|key| self.find(&mut read, key))?;
        Some(self.json.slice(range))
    }

    fn find(&self, read: &mut Read, key: &str) -> Option<Range<usize>> {
        let is = |(name, _): &&Member| &self.json[name.clone()] == key.as_bytes();
        if let Some((_, value)) = read.members.iter().find(is) {
            return Some(value.clone());
        }
        let mut cursor = Cursor::resume(&self.json, read.at);
        if read.at == 0 && !cursor.enter_object() {
            return None;
        }
        while let Some(member) = cursor.next_member() {
            read.at = cursor.position();
            let found = is(&&member).then(|| member.1.clone());
            read.members.push(member);
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

/// The elements of a list, at most `most`. A value that is not a list is its
/// only element; null has none.
pub(super) fn list(json: &Bytes, most: usize) -> Result<Option<Vec<Bytes>>, TooMany> {
    match json.first() {
        Some(b'[') => {
            let mut cursor = Cursor::new(json);
            let mut found = Vec::new();
            cursor.enter_array();
            while cursor.next_element() {
                if found.len() == most {
                    return Err(TooMany);
                }
                let start = cursor.position();
                cursor.skip();
                found.push(json.slice(start..cursor.position()));
            }
            Ok(Some(found))
        }
        None | Some(b'n') => Ok(None),
        Some(_) => Ok(Some(vec![json.clone()])),
    }
}

/// A list has too many elements.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

/// A scalar or an element of a list, as the type of its field; null if it has
/// another type.
pub(super) fn scalar(json: &[u8], scalar: Scalar) -> Value {
    let inner = match json {
        b"" | b"null" => return Value::Null,
        [b'"', inner @ .., b'"'] => Some(unescape(inner)),
        _ => None,
    };
    let text = || match &inner {
        Some(inner) => &**inner,
        // Canonical text is UTF-8.
        None => str::from_utf8(json).unwrap_or_default(),
    };
    match scalar {
        Scalar::String => Value::String(match inner {
            Some(inner) => inner.into_owned(),
            None => text().to_owned(),
        }),
        Scalar::Boolean => match text() {
            "true" => Value::Boolean(true),
            "false" => Value::Boolean(false),
            _ => Value::Null,
        },
        Scalar::Int => text()
            .parse::<i32>()
            .map_or(Value::Null, |number| Value::Number(number.into())),
        Scalar::Float => number(text()).map_or(Value::Null, Value::Number),
    }
}

/// A number, whole ones without a point.
fn number(text: &str) -> Option<serde_json::Number> {
    if !text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return None;
    }
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    serde_json::Number::from_f64(text.parse().ok()?)
}

/// The bytes of text of a value.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        _ => size_of::<u64>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_read_no_further_than_is_asked() {
        let object = Object::new(Bytes::from_static(
            br#"{"a":1,"b\"c":{"x":[]},"d":null,"e":"end"}"#,
        ));
        let get = |keys: &[&str]| {
            let keys: Vec<Box<str>> = keys.iter().map(|key| (*key).into()).collect();
            let value = object.get(&keys)?;
            Some(String::from_utf8(value.to_vec()).unwrap())
        };
        assert_eq!(get(&["a"]).as_deref(), Some("1"));
        assert_eq!(object.read.lock().members.len(), 1);
        assert_eq!(get(&["d"]).as_deref(), Some("null"));
        assert_eq!(object.read.lock().members.len(), 3);
        assert_eq!(get(&["b\\\"c"]).as_deref(), Some("{\"x\":[]}"));
        assert_eq!(get(&["nope", "e"]).as_deref(), Some("\"end\""));
        assert_eq!(get(&["nope"]), None);
        let none = Object::new(Bytes::from_static(b"[1]"));
        assert_eq!(none.get(&["a".into()]), None);
    }

    #[test]
    fn values_come_as_the_type_of_their_field_or_not_at_all() {
        use Scalar::{Boolean, Float, Int, String};
        for (json, kind, wanted) in [
            ("\"a\\n\"", String, serde_json::json!("a\n")),
            ("1.5", String, serde_json::json!("1.5")),
            ("true", String, serde_json::json!("true")),
            ("{\"a\":1}", String, serde_json::json!("{\"a\":1}")),
            ("[1]", String, serde_json::json!("[1]")),
            ("null", String, serde_json::json!(null)),
            ("true", Boolean, serde_json::json!(true)),
            ("\"false\"", Boolean, serde_json::json!(false)),
            ("1", Boolean, serde_json::json!(null)),
            ("2147483647", Int, serde_json::json!(2_147_483_647)),
            ("2147483648", Int, serde_json::json!(null)),
            ("\"7\"", Int, serde_json::json!(7)),
            ("1.5", Int, serde_json::json!(null)),
            ("[1]", Int, serde_json::json!(null)),
            ("1.5", Float, serde_json::json!(1.5)),
            ("3", Float, serde_json::json!(3)),
            ("1e+21", Float, serde_json::json!(1e21)),
            (
                "12345678901234567000",
                Float,
                serde_json::json!(12_345_678_901_234_567_000.0_f64),
            ),
            ("\"nan\"", Float, serde_json::json!(null)),
            ("\"inf\"", Float, serde_json::json!(null)),
            ("", Float, serde_json::json!(null)),
        ] {
            let found = scalar(json.as_bytes(), kind).into_json().unwrap();
            assert_eq!(found, wanted, "{json} as {kind:?}");
        }
    }

    #[test]
    fn what_is_no_list_stands_for_one_with_itself() {
        let list = |json: &'static str| {
            let found = list(&Bytes::from_static(json.as_bytes()), 3);
            found.map(|list| list.map(|list| list.iter().map(Bytes::len).collect::<Vec<_>>()))
        };
        assert_eq!(list("[1,[22],\"333\"]"), Ok(Some(vec![1, 4, 5])));
        assert_eq!(list("[]"), Ok(Some(vec![])));
        assert_eq!(list("\"a,b\""), Ok(Some(vec![5])));
        assert_eq!(list("null"), Ok(None));
        assert_eq!(list("[1,2,3,4]"), Err(TooMany));
    }
}
