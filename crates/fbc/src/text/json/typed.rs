//! Values read into types as Go reads them: names of fields in any case, `null`
//! for a value that stays as it is, the last of several values.

use std::borrow::Cow;
use std::fmt;

use crate::text::display::shown;
use crate::text::json::cursor::{Cursor, key_text};
use crate::text::json::strings::{is_name, unescape};

/// A type that is read from canonical JSON.
pub(crate) trait Decode<'de>: Default {
    /// Reads the value at the cursor and moves over it. After an error the cursor may
    /// be anywhere in the value.
    fn decode(cursor: &mut Cursor<'de>) -> Result<Self, WrongType>;
}

/// A struct that is read from an object or from `null`. [`fields`] implements
/// this trait.
pub(crate) trait Fields<'de>: Default {
    /// The names of the fields.
    const NAMES: &'static [&'static str];

    /// Reads the value at the cursor into the field with this number.
    fn decode_field(&mut self, number: usize, cursor: &mut Cursor<'de>) -> Result<(), WrongType>;

    /// Reads the member with this key and moves over its value.
    fn decode_member(&mut self, key: &[u8], cursor: &mut Cursor<'de>) -> Result<(), WrongType> {
        let key = key_text(key);
        let names = Self::NAMES;
        let number = names.iter().position(|name| **name == *key).or_else(|| {
            let mut names = names.iter();
            names.position(|name| is_name(key.as_bytes(), name))
        });
        match number {
            // `null` leaves a field as it is.
            Some(number) if cursor.peek() != Some(b'n') => self.decode_field(number, cursor),
            _ => {
                cursor.skip();
                Ok(())
            }
        }
    }
}

impl<'de, T: Fields<'de>> Decode<'de> for T {
    fn decode(cursor: &mut Cursor<'de>) -> Result<Self, WrongType> {
        let mut value = Self::default();
        if cursor.enter_object() {
            while let Some(key) = cursor.next_key() {
                value.decode_member(key, cursor)?;
            }
        } else if cursor.peek() == Some(b'n') {
            cursor.skip();
        } else {
            return Err(WrongType::at(cursor, "an object"));
        }
        Ok(value)
    }
}

/// Implements [`Fields`] for a struct. Fields without a name stay as they are by
/// default.
macro_rules! fields {
    ($type:ident $(<$life:lifetime>)? { $($field:ident = $name:literal),+ $(,)? }) => {
        impl<'de $(: $life, $life)?> $crate::text::json::typed::Fields<'de> for $type $(<$life>)? {
            const NAMES: &'static [&'static str] = &[$($name),+];

            fn decode_field(
                &mut self,
                number: usize,
                cursor: &mut $crate::text::json::cursor::Cursor<'de>,
            ) -> Result<(), $crate::text::json::typed::WrongType> {
                let mut next = 0..;
                $(if next.next() == Some(number) {
                    self.$field = $crate::text::json::typed::Decode::decode(cursor)?;
                    return Ok(());
                })+
                Ok(())
            }
        }
    };
}
pub(crate) use fields;

/// Reads a whole text.
pub(crate) fn from_json<'de, T: Decode<'de>>(json: &'de [u8]) -> Result<T, WrongType> {
    T::decode(&mut Cursor::new(json))
}

/// Reads the value at the cursor and moves over it. A value of another type
/// counts as absent.
pub(crate) fn or_default<'de, T: Decode<'de>>(cursor: &mut Cursor<'de>) -> T {
    let start = *cursor;
    T::decode(cursor).unwrap_or_else(|_| {
        *cursor = start;
        cursor.skip();
        T::default()
    })
}

/// Reads the value of a property: an object or `null`.
pub(crate) fn object<'de, T: Decode<'de>>(json: &'de [u8]) -> Result<T, String> {
    match json.first() {
        Some(b'{') => from_json(json).map_err(|error| error.to_string()),
        Some(b'n') => Ok(T::default()),
        _ => Err("it must be an object; write one".into()),
    }
}

/// The type of a string, as messages name it.
const STRING: &str = "a string";

/// A value does not have the type of its field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrongType {
    /// The type and the value, or the beginning of a long one.
    found: Cow<'static, str>,
    expected: &'static str,
    remedy: &'static str,
}

impl WrongType {
    /// The value at the cursor should have another type, such as `a list`.
    #[cold]
    pub(crate) fn at(cursor: &Cursor<'_>, expected: &'static str) -> Self {
        let value = cursor.clone().skip();
        let found = match value {
            [b'"', text @ .., b'"'] => format!("string {:?}", shown(&unescape(text))).into(),
            [b'{', ..] => "object".into(),
            [b'[', ..] => "list".into(),
            [b't' | b'f', ..] => format!("boolean `{}`", value == b"true").into(),
            [b'-' | b'0'..=b'9', digits @ ..] => {
                let is_integer = digits.iter().all(u8::is_ascii_digit);
                let kind = if is_integer {
                    "integer"
                } else {
                    "floating point"
                };
                format!("{kind} `{}`", String::from_utf8_lossy(value)).into()
            }
            _ => "null".into(),
        };
        // Such a scalar becomes a string in quotes.
        let is_scalar = matches!(value, [b't' | b'f' | b'-' | b'0'..=b'9', ..]);
        let quote = is_scalar && expected == STRING;
        Self {
            found,
            expected,
            remedy: if quote { "it in quotes" } else { expected },
        }
    }
}

impl fmt::Display for WrongType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            found,
            expected,
            remedy,
        } = self;
        write!(
            f,
            "invalid type: {found}, expected {expected}; write {remedy}"
        )
    }
}

/// A text that borrows from its JSON if possible; `null` is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl Text<'_> {
    /// Whether there is no text.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de: 'a, 'a> Decode<'de> for Text<'a> {
    fn decode(cursor: &mut Cursor<'de>) -> Result<Self, WrongType> {
        match cursor.peek() {
            Some(b'"') => Ok(Self(key_text(cursor.skip()))),
            Some(b'n') => {
                cursor.skip();
                Ok(Self::default())
            }
            _ => Err(WrongType::at(cursor, STRING)),
        }
    }
}

impl Decode<'_> for String {
    fn decode(cursor: &mut Cursor<'_>) -> Result<Self, WrongType> {
        if cursor.peek() != Some(b'"') {
            return Err(WrongType::at(cursor, STRING));
        }
        Ok(key_text(cursor.skip()).into_owned())
    }
}

impl Decode<'_> for bool {
    fn decode(cursor: &mut Cursor<'_>) -> Result<Self, WrongType> {
        match cursor.peek() {
            Some(b't' | b'f') => Ok(cursor.skip() == b"true"),
            _ => Err(WrongType::at(cursor, "a boolean")),
        }
    }
}

impl<'de, T: Decode<'de>> Decode<'de> for Vec<T> {
    fn decode(cursor: &mut Cursor<'de>) -> Result<Self, WrongType> {
        if !cursor.enter_array() {
            return Err(WrongType::at(cursor, "a list"));
        }
        let mut list = Self::new();
        while cursor.next_element() {
            list.push(T::decode(cursor)?);
        }
        Ok(list)
    }
}

impl<'de, T: Decode<'de>> Decode<'de> for Option<T> {
    fn decode(cursor: &mut Cursor<'de>) -> Result<Self, WrongType> {
        if cursor.peek() == Some(b'n') {
            cursor.skip();
            return Ok(None);
        }
        T::decode(cursor).map(Some)
    }
}

/// A value of any type, as its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raw<'a>(pub(crate) &'a [u8]);

impl Default for Raw<'_> {
    fn default() -> Self {
        Self(b"null")
    }
}

impl<'de: 'a, 'a> Decode<'de> for Raw<'a> {
    fn decode(cursor: &mut Cursor<'de>) -> Result<Self, WrongType> {
        Ok(Self(cursor.skip()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Pair<'a> {
        first: Text<'a>,
        second_one: Vec<String>,
        kept: bool,
    }

    fields!(Pair<'a> { first = "first", second_one = "secondOne" });

    fn pair(json: &str) -> Result<Pair<'_>, String> {
        from_json(json.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn fields_are_found_whatever_their_case() {
        let wanted = Pair {
            first: Text("a".into()),
            second_one: vec!["b".to_owned()],
            kept: false,
        };
        for json in [
            r#"{"first":"a","secondOne":["b"]}"#,
            r#"{"FIRST":"a","secondone":["b"],"kept":true,"other":{"first":1}}"#,
            r#"{"First":"x","first":"a","FIRST":null,"SecondOne":null,"secondOne":["b"]}"#,
            r#"{"\u0066irst":"a","secondOne":["b"]}"#,
        ] {
            assert_eq!(pair(json).as_ref(), Ok(&wanted), "{json}");
        }
    }

    #[test]
    fn a_struct_is_an_object_or_null() {
        assert_eq!(pair("null"), Ok(Pair::default()));
        assert_eq!(pair("{}"), Ok(Pair::default()));
        for json in [r#"["a",["b"]]"#, "1", r#""a""#, "true"] {
            let error = pair(json).unwrap_err();
            let wanted = "expected an object; write an object";
            assert!(error.ends_with(wanted), "{json}: {error}");
        }
        for json in [r#"{"First":1}"#, r#"{"secondOne":[1]}"#] {
            assert!(pair(json).unwrap_err().contains("expected a string"));
        }
    }

    #[test]
    fn a_wrong_type_is_told_with_the_value_and_the_remedy() {
        for (json, wanted) in [
            ("4", "integer `4`, expected a string; write it in quotes"),
            (
                "1.5",
                "floating point `1.5`, expected a string; write it in quotes",
            ),
            (
                "true",
                "boolean `true`, expected a string; write it in quotes",
            ),
            ("null", "null, expected a string; write a string"),
            ("[1]", "list, expected a string; write a string"),
            ("{}", "object, expected a string; write a string"),
        ] {
            let error = from_json::<String>(json.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), format!("invalid type: {wanted}"));
        }
        // The text of the author is no part of the decision.
        let text = r#""x, expected a string at line 1""#;
        assert_eq!(
            from_json::<Vec<String>>(text.as_bytes())
                .unwrap_err()
                .to_string(),
            format!("invalid type: string {text}, expected a list; write a list")
        );
        let long = format!("\"{}\"", "x".repeat(10_000));
        let error = from_json::<bool>(long.as_bytes()).unwrap_err();
        assert!(error.to_string().len() < 400, "{error}");
    }

    #[test]
    fn a_value_of_another_type_is_passed() {
        let mut cursor = Cursor::new(br#"[[{"first":[1]}],"a"]"#);
        assert!(cursor.enter_array() && cursor.next_element());
        assert_eq!(or_default::<Vec<Pair<'_>>>(&mut cursor), []);
        assert!(cursor.next_element());
        assert_eq!(or_default::<String>(&mut cursor), "a");
    }
}
