//! A document: a canonical JSON object and the positions of its top-level
//! members, which the reader recorded.

use crate::document::Defect;
use crate::problem::Code;
use crate::text::display::shown;
use crate::text::json::cursor::{Cursor, key_text};
use crate::text::json::typed::{Decode, Fields, WrongType};
use crate::text::json::{Canonicaliser, unescape};

/// The longest list of objects. Catalogs need far less, and an item of three
/// bytes takes a hundred in memory.
pub(crate) const MAX_LIST: usize = 20_000;

/// The number of defects that a list may report.
const MAX_DEFECTS: usize = 1_000;

/// From this size in bytes on, a list returns the memory that it does not use.
const LARGE: usize = 1 << 12;

/// A blob: its canonical text and the positions of its top-level members.
#[derive(Clone, Copy)]
pub(crate) struct Object<'a> {
    text: &'a [u8],
    canonicaliser: &'a Canonicaliser,
}

impl<'a> Object<'a> {
    /// The object that was read last, and written to `text`.
    pub(crate) fn new(text: &'a [u8], canonicaliser: &'a Canonicaliser) -> Self {
        Self {
            text,
            canonicaliser,
        }
    }

    /// Keys and values as they stand in the text.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'a> {
        let text = self.text;
        let members = self.canonicaliser.top_members().iter();
        members.map(move |member| (&text[member.key.clone()], &text[member.value.clone()]))
    }

    /// Keys, and cursors over their values.
    pub(crate) fn cursors(&self) -> impl Iterator<Item = (&'a [u8], Cursor<'a>)> + use<'a> {
        let Self {
            text,
            canonicaliser,
        } = *self;
        canonicaliser.top_members().iter().map(move |member| {
            let ends = canonicaliser.string_ends(member);
            let cursor = Cursor::with_ends(&text[member.value.clone()], ends);
            (&text[member.key.clone()], cursor)
        })
    }

    /// The value of a key in any case, as opm and catalogd find it.
    pub(crate) fn get(&self, wanted: &str) -> Option<&'a [u8]> {
        let found = self.members().find(|(key, _)| is(key, wanted));
        found.map(|(_, value)| value)
    }

    /// A cursor over the value of a key in any case.
    pub(crate) fn cursor(&self, wanted: &str) -> Option<Cursor<'a>> {
        self.cursor_at(wanted).map(|(_, cursor)| cursor)
    }

    /// A cursor over the value of a key in any case, and the position of the value in
    /// the text.
    pub(crate) fn cursor_at(&self, wanted: &str) -> Option<(usize, Cursor<'a>)> {
        let members = self.canonicaliser.top_members().iter();
        let mut cursors = self.cursors().zip(members.map(|member| member.value.start));
        cursors.find_map(|((key, cursor), start)| is(key, wanted).then_some((start, cursor)))
    }

    /// The value of a key. A value of another type is a defect and counts as
    /// absent.
    pub(crate) fn field<T: Decode<'a>>(&self, key: &str, defects: &mut Vec<Defect>) -> T {
        let Some(mut cursor) = self.cursor(key) else {
            return T::default();
        };
        match Option::decode(&mut cursor) {
            // `null` counts as absent.
            Ok(value) => value.unwrap_or_default(),
            Err(error) => {
                defects.push(malformed(key, &error));
                T::default()
            }
        }
    }

    /// The value of a key as a list of objects.
    ///
    /// An item with a field of another type loses that field, which is a defect.
    /// Items behind the first [`MAX_LIST`] are left out, which is a defect. The
    /// first empty item stands for all: three bytes of text are not worth more
    /// memory.
    pub(crate) fn list<T>(&self, key: &str, defects: &mut Vec<Defect>) -> Vec<T>
    where
        T: Fields<'a> + PartialEq,
    {
        let Some(mut cursor) = self.cursor(key) else {
            return Vec::new();
        };
        if !cursor.enter_array() {
            if cursor.peek() != Some(b'n') {
                defects.push(malformed(key, &WrongType::at(&cursor, "a list")));
            }
            return Vec::new();
        }
        let most = defects.len() + MAX_DEFECTS;
        let mut items = Vec::new();
        let mut has_empty = false;
        let mut number = 0;
        while cursor.next_element() {
            if number == MAX_LIST {
                let message = format!(
                    "has more than {MAX_LIST} items in {key:?}, which is too many; remove some"
                );
                defects.push(Defect::new(Code::BlobMalformed, message));
                break;
            }
            let start = cursor;
            let item = T::decode(&mut cursor).or_else(|_| {
                cursor = start;
                let path = format!("{key}[{number}]");
                let mut note = |defect| {
                    if defects.len() < most {
                        defects.push(defect);
                    }
                };
                decode_members(&mut cursor, &path, &mut note)
            });
            number += 1;
            let Ok(item) = item else {
                continue;
            };
            let is_empty = item == T::default();
            if !is_empty || !has_empty {
                has_empty |= is_empty;
                items.push(item);
            }
        }
        // A list that grew is up to twice as long as its items.
        if size_of_val(&items[..]) > LARGE {
            items.shrink_to_fit();
        }
        items
    }
}

/// An item that is not an object.
struct NotObject;

/// Reads the members of an item one by one. Each of another type is a defect and
/// counts as absent.
fn decode_members<'a, T: Fields<'a>>(
    cursor: &mut Cursor<'a>,
    path: &str,
    note: &mut impl FnMut(Defect),
) -> Result<T, NotObject> {
    let mut item = T::default();
    if !cursor.enter_object() {
        note(malformed(path, &WrongType::at(cursor, "an object")));
        cursor.skip();
        return Err(NotObject);
    }
    while let Some(key) = cursor.next_key() {
        let value = *cursor;
        if let Err(error) = item.decode_member(key, cursor) {
            let member = format!("{path}.{}", shown(&key_text(key)));
            note(malformed(&member, &error));
            *cursor = value;
            cursor.skip();
        }
    }
    Ok(item)
}

fn malformed(key: &str, error: &WrongType) -> Defect {
    let message = format!("has a malformed {key:?}: {error}");
    Defect::new(Code::BlobMalformed, message)
}

fn is(key: &[u8], wanted: &str) -> bool {
    key.eq_ignore_ascii_case(wanted.as_bytes())
        || (key.contains(&b'\\') && unescape(key).eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::json::typed::{Text, fields};

    #[derive(Debug, Default, PartialEq)]
    struct Item<'a> {
        name: Text<'a>,
        skips: Vec<String>,
    }

    fields!(Item<'a> { name = "name", skips = "skips" });

    #[test]
    fn an_item_loses_only_the_fields_of_another_type() {
        let mut text = Vec::new();
        let mut canonicaliser = Canonicaliser::default();
        let json = br#"{"Entries": [
            {"name": "a", "skips": ["b", 1], "other": {"deep": [1]}},
            {"name": 1, "NAME": "c", "skips": null},
            "d", null, {}, {"name": "e"}
        ]}"#;
        canonicaliser.read(json, 0, &mut text).unwrap();
        let object = Object::new(&text, &canonicaliser);
        let mut defects = Vec::new();
        let items: Vec<Item<'_>> = object.list("entries", &mut defects);
        let names: Vec<&str> = items.iter().map(|item| &*item.name.0).collect();
        // The first of the empty items stands for both.
        assert_eq!(names, ["a", "c", "", "e"]);
        assert!(items.iter().all(|item| item.skips.is_empty()));
        let messages: Vec<&str> = defects.iter().map(|defect| &*defect.message).collect();
        assert_eq!(
            messages,
            [
                "has a malformed \"entries[0].skips\": invalid type: integer `1`, expected a \
                 string; write it in quotes",
                "has a malformed \"entries[1].name\": invalid type: integer `1`, expected a \
                 string; write it in quotes",
                "has a malformed \"entries[2]\": invalid type: string \"d\", expected an object; \
                 write an object",
            ]
        );
    }

    /// Every key and value, at every level.
    fn everything<'a>(cursor: &mut Cursor<'a>, found: &mut Vec<&'a [u8]>) {
        let start = *cursor;
        found.push(cursor.skip());
        let end = cursor.position();
        *cursor = start;
        if cursor.enter_object() {
            while let Some(key) = cursor.next_key() {
                found.push(key);
                everything(cursor, found);
            }
        } else if cursor.enter_array() {
            while cursor.next_element() {
                everything(cursor, found);
            }
        } else {
            cursor.skip();
        }
        assert_eq!(cursor.position(), end);
    }

    proptest::proptest! {
        #[test]
        fn recorded_ends_of_strings_are_where_they_are_found(
            strings in proptest::collection::vec("[a-c\"\\\\\u{2028}é /]{0,40}", 1..8),
            pretty: bool,
            slashes: bool,
            order: u8,
        ) {
            let items: Vec<_> = strings.iter().map(|text| {
                let value = serde_json::json!({"k": text, "l": [text, {}, {"m": 1.5}, "x"], "é\u{2029}": {"n": text}});
                serde_json::json!({"type": "t", "value": value})
            }).collect();
            let document = serde_json::json!({"name": "a\"", "properties": items, "z": [strings]});
            let mut text = if pretty {
                serde_json::to_string_pretty(&document)
            } else {
                serde_json::to_string(&document)
            }.unwrap();
            if slashes {
                text = text.replace('/', "\\/");
            }
            // In some, keys come in another order, or twice.
            match order % 4 {
                0 => text = text.replace("\"type\":", "\"yype\":"),
                1 => text = text.replace("\"l\":", "\"k\":"),
                2 => text = text.replace("\"k\":", "\"\\u007a\":"),
                _ => {}
            }
            let mut out = b"before".to_vec();
            let mut canonicaliser = Canonicaliser::default();
            canonicaliser.read(text.as_bytes(), 0, &mut out).unwrap();
            let object = Object::new(&out, &canonicaliser);
            for ((_, mut cursor), (_, value)) in object.cursors().zip(object.members()) {
                let (mut recorded, mut searched) = (Vec::new(), Vec::new());
                everything(&mut cursor, &mut recorded);
                everything(&mut Cursor::new(value), &mut searched);
                proptest::prop_assert_eq!(recorded, searched);
            }
            // Each string of the list, and no other string behind it.
            let mut cursor = object.cursor("z").unwrap();
            proptest::prop_assert_eq!(cursor.known_ends(), strings.len());
            cursor.skip();
            proptest::prop_assert_eq!(cursor.known_ends(), 0);
        }
    }
}
