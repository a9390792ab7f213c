//! Go's way of reading JSON into types, where it differs from serde's.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::text::json::folded::is_name;

/// A struct that is read as Go reads one: from an object or `null`; a field
/// takes the value of its name or of one that differs only in case; `null`
/// leaves a field as it is, and of two values the last counts.
/// [`fields`] implements it.
pub(crate) trait Fields<'de>: Default {
    /// The names of the fields.
    const NAMES: &'static [&'static str];

    /// Reads the value of the field that has this place in the names.
    fn read<A: MapAccess<'de>>(&mut self, place: usize, map: &mut A) -> Result<(), A::Error>;
}

/// Implements `Deserialize` for a struct by way of [`Fields`]. Fields that are
/// not named stay as they are by default.
macro_rules! fields {
    ($type:ident $(<$life:lifetime>)? { $($field:ident = $name:literal),+ $(,)? }) => {
        impl<'de $(: $life, $life)?> $crate::text::json::typed::Fields<'de> for $type $(<$life>)? {
            const NAMES: &'static [&'static str] = &[$($name),+];

            fn read<A: serde::de::MapAccess<'de>>(
                &mut self,
                place: usize,
                map: &mut A,
            ) -> Result<(), A::Error> {
                let mut next = 0..;
                $(if next.next() == Some(place) {
                    if let Some(value) = map.next_value::<Option<_>>()? {
                        self.$field = value;
                    }
                    return Ok(());
                })+
                Ok(())
            }
        }

        impl<'de $(: $life, $life)?> serde::Deserialize<'de> for $type $(<$life>)? {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::text::json::typed::read_fields(deserializer)
            }
        }
    };
}
pub(crate) use fields;

/// Reads a struct by its [`Fields`].
pub(crate) fn read_fields<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Fields<'de>,
{
    struct FieldsVisitor<T>(PhantomData<T>);
    impl<'de, T: Fields<'de>> Visitor<'de> for FieldsVisitor<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_unit<E: de::Error>(self) -> Result<T, E> {
            Ok(T::default())
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
            let mut value = T::default();
            while let Some(Text(key)) = map.next_key()? {
                let names = T::NAMES.iter();
                let place = names.clone().position(|name| **name == *key);
                // Nearly all are written as they should be.
                let place = place.or_else(|| {
                    let mut names = names;
                    names.position(|name| is_name(key.as_bytes(), name))
                });
                match place {
                    Some(place) => value.read(place, &mut map)?,
                    None => {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
            }
            Ok(value)
        }
    }
    deserializer.deserialize_any(FieldsVisitor(PhantomData))
}

/// Reads a property's value: an object or `null`.
pub(crate) fn object<'de, T: Deserialize<'de> + Default>(json: &'de [u8]) -> Result<T, String> {
    match json.first() {
        Some(b'{') => serde_json::from_slice(json).map_err(|error| advised(&error)),
        Some(b'n') => Ok(T::default()),
        _ => Err("it must be an object; write one".into()),
    }
}

/// serde's message without its position, which means nothing in the author's
/// file: it counts in the canonical text.
pub(crate) fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// The same, and what is to be done.
pub(crate) fn advised(error: &serde_json::Error) -> String {
    let text = plain(error).replace("expected a sequence", "expected a list");
    let quotes = ["integer", "floating", "number", "boolean"];
    let bare = text.strip_prefix("invalid type: ");
    let bare = bare.is_some_and(|found| quotes.iter().any(|kind| found.starts_with(kind)));
    match text.rsplit_once(", expected ") {
        Some((_, "a string")) if bare => text + "; write it in quotes",
        Some((_, expected)) => format!("{text}; write {expected}"),
        None => text + "; correct it",
    }
}

/// A text that borrows from its JSON where it can; `null` is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl Text<'_> {
    /// Whether there is no text.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
            fn visit_unit<E: de::Error>(self) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
        }
        deserializer.deserialize_any(TextVisitor)
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
        serde_json::from_str(json).map_err(|error| plain(&error))
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
            assert!(error.ends_with("expected an object"), "{json}: {error}");
        }
        for json in [r#"{"First":1}"#, r#"{"secondOne":[1]}"#] {
            assert!(pair(json).unwrap_err().contains("expected a string"));
        }
    }
}
