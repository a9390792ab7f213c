//! The fields of `olm.csv.metadata`, checked against their types.

use std::ops::Range;

use crate::csv::types::{CSV_METADATA, RELATED};
use crate::text::json::cursor::Cursor;
use crate::text::json::schema;
use crate::text::json::schema::{Checked, Field, Mismatch, Shape, find};
use crate::text::json::{folded, shape};

/// A value of `olm.csv.metadata` that matches its type.
#[derive(Debug, Default)]
pub struct CsvMetadata<'a>(Vec<CsvField<'a>>);

impl<'a> CsvMetadata<'a> {
    /// The field of that name, if the value has it.
    pub fn get(&self, name: &str) -> Option<&CsvField<'a>> {
        self.0.iter().find(|field| field.name() == name)
    }
}

/// A field of `olm.csv.metadata`, or the related images of a bundle.
#[derive(Debug)]
pub struct CsvField<'a> {
    field: &'static Field,
    /// Where the value begins in the lines.
    start: usize,
    value: &'a [u8],
    /// Values before it, under keys that differ from this one in case.
    earlier: Vec<&'a [u8]>,
    checked: Checked,
}

impl<'a> CsvField<'a> {
    /// Checks a bundle's related images. `cursor` begins at the byte `start` of
    /// the lines. `plain` means that they are known to have the usual form.
    pub(crate) fn from_related_images(
        mut cursor: Cursor<'a>,
        start: usize,
        plain: bool,
    ) -> Option<Self> {
        let checked = if plain {
            cursor.finish();
            Checked {
                same: true,
                empty: false,
            }
        } else {
            shape::check(&RELATED.shape, &mut cursor).ok()?
        };
        Some(Self {
            field: &RELATED,
            start,
            value: cursor.since(0),
            earlier: Vec::new(),
            checked,
        })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.field.name
    }

    /// Whether it holds its type's empty value.
    pub fn is_empty(&self) -> bool {
        self.checked.empty
    }

    /// Where its text lies in [`Output::lines`](crate::read::Output::lines), if
    /// that is what [`write`](Self::write) would write.
    pub fn unchanged(&self) -> Option<Range<usize>> {
        let range = self.start..self.start + self.value.len();
        Some(range).filter(|_| self.checked.same)
    }

    /// Appends its value as Go writes it: known fields only, and all that Go
    /// does not omit.
    pub fn write(&self, out: &mut Vec<u8>) {
        match &self.earlier[..] {
            [] => shape::write(&self.field.shape, self.value, out),
            _ => folded::write(&self.field.shape, &self.values(), out),
        }
    }

    /// All values of the field, in order.
    fn values(&self) -> Vec<&'a [u8]> {
        [&self.earlier[..], &[self.value]].concat()
    }
}

/// Appends the empty value of a field of `olm.csv.metadata`; nothing when there
/// is no such field.
pub fn write_zero(name: &str, out: &mut Vec<u8>) {
    if let Some(field) = CSV_METADATA.iter().find(|field| field.name == name) {
        schema::write_zero(&field.shape, out);
    }
}

/// Checks the `olm.csv.metadata` value at `cursor` against its type. The text of
/// `cursor` begins at the byte `start` of the lines.
pub(crate) fn check<'a>(
    cursor: &mut Cursor<'a>,
    start: usize,
) -> Result<CsvMetadata<'a>, Mismatch> {
    let mut found: Vec<CsvField<'a>> = Vec::with_capacity(CSV_METADATA.len());
    match cursor.peek() {
        Some(b'{') => cursor.step(),
        Some(b'n') => {
            cursor.skip();
            return Ok(CsvMetadata::default());
        }
        _ => return Err(Mismatch::from_shape(&Shape::Object(&CSV_METADATA))),
    }
    let mut next = 0;
    while let Some(key) = cursor.next_key() {
        let name = &key[1..key.len() - 1];
        let Some((number, exactly)) = find(&CSV_METADATA, name, next) else {
            cursor.skip();
            continue;
        };
        next = number + 1;
        let field = &CSV_METADATA[number];
        let position = cursor.position();
        let mut checked =
            shape::check(&field.shape, cursor).map_err(|mismatch| mismatch.within(key))?;
        // Under another key the text cannot be used with its neighbours.
        checked.same &= exactly;
        let value = cursor.since(position);
        let start = start + position;
        match found.iter_mut().find(|known| known.name() == field.name) {
            Some(known) => {
                let before = std::mem::replace(&mut known.value, value);
                known.earlier.push(before);
                known.start = start;
            }
            None => found.push(CsvField {
                field,
                start,
                value,
                earlier: Vec::new(),
                checked,
            }),
        }
    }
    for known in &mut found {
        if !known.earlier.is_empty() {
            known.checked =
                folded::check(&known.field.shape, &known.values()).map_err(|mismatch| {
                    mismatch.within(format!("{:?}", known.field.name).as_bytes())
                })?;
        }
    }
    Ok(CsvMetadata(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_another_type_is_refused() {
        let check = |json: &str| {
            let checked = check(&mut Cursor::new(json.as_bytes()), 0);
            checked.map(drop).map_err(|mismatch| mismatch.to_string())
        };
        assert_eq!(
            check(r#"{"installModes":"all"}"#),
            Err(r#"its "installModes" must be a list"#.to_owned())
        );
        assert_eq!(
            check(r#"{"InstallModes":[{"Type":1}]}"#),
            Err(r#"its "InstallModes" "Type" must be a string"#.to_owned())
        );
        assert!(check(r#"["a"]"#).is_err());
    }

    #[test]
    fn a_field_knows_where_its_text_lies() {
        let json = br#"before{"description":"d","keywords":[],"Maturity":"m","provider":{"x":1}}"#;
        let (before, value) = json.split_at(6);
        let metadata = check(&mut Cursor::new(value), before.len()).unwrap();
        let unchanged = |name: &str| metadata.get(name)?.unchanged().map(|range| &json[range]);
        assert_eq!(unchanged("description"), Some(&b"\"d\""[..]));
        assert_eq!(unchanged("keywords"), Some(&b"[]"[..]));
        assert_eq!(unchanged("maturity"), None);
        assert_eq!(unchanged("provider"), None);
        assert!(metadata.get("keywords").unwrap().is_empty());
        let mut written = Vec::new();
        metadata.get("provider").unwrap().write(&mut written);
        assert_eq!(written, b"{}");
        assert!(metadata.get("links").is_none());
    }
}
