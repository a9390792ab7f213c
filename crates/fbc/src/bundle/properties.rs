//! The list of a bundle's properties.

use std::borrow::Cow;

use crate::bundle::images::note;
use crate::bundle::values::{KnownValues, PACKAGE_TYPE};
use crate::csv;
use crate::document::Defect;
use crate::fields::PLAIN_LISTS;
use crate::object::MAX_LIST;
use crate::problem::Code;
use crate::text::json::cursor::Cursor;
use crate::text::json::unescape;
use crate::visit::{CSV_METADATA_TYPE, Property};

/// The properties of a bundle.
#[derive(Default)]
pub(super) struct Properties<'a> {
    pub(super) list: Vec<Property<'a>>,
    pub(super) known: KnownValues<'a>,
    /// Whether they match [`PLAIN_LISTS`].
    pub(super) plain: bool,
}

/// Reads the list of properties and the values of known types. `cursor` begins at
/// the byte `start` of the lines. Large values are read only once: the keys of
/// a property are sorted, so its type is known when its value comes.
pub(super) fn read_properties<'a>(
    mut cursor: Cursor<'a>,
    start: usize,
    defects: &mut Vec<Defect>,
) -> Properties<'a> {
    let mut properties: Vec<Property<'a>> = Vec::new();
    let mut known = KnownValues::default();
    // The number of properties without a value, and the type and number of the first.
    let (mut without_value, mut first_without_value) = (0, None);
    let mut plain = true;
    if !cursor.enter_array() {
        let mut none = Properties::default();
        if cursor.peek() != Some(b'n') {
            defects.push(malformed("they must be a list; write one"));
            none.known.lost_package = true;
        }
        return none;
    }
    let mut passed = 0;
    while cursor.next_element() {
        passed += 1;
        if passed > MAX_LIST {
            (plain, known.lost_package) = (false, true);
            let many = format!("there are more than {MAX_LIST}; remove some");
            note(defects, malformed(&many));
            cursor.skip();
            continue;
        }
        let mut property = Property {
            kind: Cow::Borrowed(""),
            value: b"null",
        };
        let is_object = cursor.enter_object();
        if !is_object && cursor.skip() != b"null" {
            (plain, known.lost_package) = (false, true);
            let other = "each must be an object; write one with \"type\" and \"value\"";
            note(defects, malformed(other));
            continue;
        }
        let (mut checked, mut value_start) = (None, None);
        let mut keys = PLAIN_LISTS[0].1.iter();
        while is_object && let Some(key) = cursor.next_key() {
            plain &= keys
                .next()
                .is_some_and(|plain| plain.as_bytes() == &key[1..key.len() - 1]);
            // The case of keys does not matter, as in Go.
            if key.eq_ignore_ascii_case(b"\"type\"") {
                match cursor.skip() {
                    [b'"', kind @ .., b'"'] => property.kind = unescape(kind),
                    b"null" => {}
                    _ => {
                        known.lost_package = true;
                        let other = "a type must be a string; write it in quotes";
                        note(defects, malformed(other));
                    }
                }
                continue;
            }
            if !key.eq_ignore_ascii_case(b"\"value\"") {
                cursor.skip();
                continue;
            }
            let before = cursor;
            value_start = Some(start + before.position());
            if property.kind == CSV_METADATA_TYPE {
                let metadata = csv::check(&mut cursor, start);
                if metadata.is_err() {
                    cursor = before;
                    cursor.skip();
                }
                property.value = cursor.since(before.position());
                checked = Some(metadata);
            } else {
                property.value = cursor.skip();
            }
        }
        let Some(value_start) = value_start else {
            known.lost_package |= property.kind == PACKAGE_TYPE;
            without_value += 1;
            first_without_value.get_or_insert_with(|| (property.kind.clone(), passed - 1));
            plain = false;
            properties.push(property);
            continue;
        };
        let csv =
            || checked.unwrap_or_else(|| csv::check(&mut Cursor::new(property.value), value_start));
        if let Err(defect) = known.take(&property, csv) {
            known.lost_package |= property.kind == PACKAGE_TYPE;
            note(defects, in_property(&property.kind, passed - 1, &defect));
        }
        plain &= keys.len() == 0;
        properties.push(property);
    }
    if let Some((kind, number)) = first_without_value {
        defects.push(lack_value(&kind, number, without_value));
    }
    Properties {
        list: properties,
        known,
        plain,
    }
}

fn malformed(message: &str) -> Defect {
    let message = format!("has malformed \"properties\": {message}");
    Defect::new(Code::BlobMalformed, message)
}

/// The defect of a value, as one of its property.
fn in_property(kind: &str, number: usize, Defect { code, message }: &Defect) -> Defect {
    let message = format!(
        "has a property of type {kind:?} with an invalid value (properties[{number}]): {message}"
    );
    Defect::new(*code, message)
}

/// The defect of properties without a value. opm cannot read such a property, whatever
/// its type, and refuses the package; it accepts `null`. One defect stands for all of
/// them: a list may have one in every few bytes.
fn lack_value(kind: &str, number: usize, count: usize) -> Defect {
    let others = match count - 1 {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    let message = format!(
        "has a property of type {kind:?} without a value (properties[{number}]{others}); add its \
         \"value\""
    );
    Defect::new(Code::PropertyInvalid, message)
}
