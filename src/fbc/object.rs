//! A canonical JSON object whose members are known by their places.

use std::ops::Range;

use serde::Deserialize;

use super::blob::Defect;
use super::json::unescape;
use super::problem::Code;
use super::typed::plain;

/// A blob: its canonical text and where its top-level members lie in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object<'a> {
    text: &'a [u8],
    members: &'a [(Range<usize>, Range<usize>)],
}

impl<'a> Object<'a> {
    /// The object with the given members: ranges of keys (without quotes) and
    /// values in `text`.
    pub(super) fn new(text: &'a [u8], members: &'a [(Range<usize>, Range<usize>)]) -> Self {
        Self { text, members }
    }

    /// Keys and values as they stand in the text.
    pub(super) fn members(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let text = self.text;
        self.members
            .iter()
            .map(move |(key, value)| (&text[key.clone()], &text[value.clone()]))
    }

    /// The value of a key, whatever its case, as the peers find it.
    pub(super) fn get(&self, wanted: &str) -> Option<&'a [u8]> {
        self.members()
            .find(|(key, _)| unescape(key).eq_ignore_ascii_case(wanted))
            .map(|(_, value)| value)
    }

    /// The value of a key read into a type; a value of another type is a
    /// defect and counts as absent.
    pub(super) fn field<T>(&self, key: &str, defects: &mut Vec<Defect>) -> T
    where
        T: Deserialize<'a> + Default,
    {
        let Some(value) = self.get(key) else {
            return T::default();
        };
        match serde_json::from_slice::<Option<T>>(value) {
            Ok(value) => value.unwrap_or_default(),
            Err(error) => {
                let error = plain(&error);
                defects.push(Defect {
                    code: Code::BlobMalformed,
                    message: format!("has a malformed {key:?}: {error}"),
                });
                T::default()
            }
        }
    }

    /// The value of a key read as a list of objects.
    pub(super) fn list<T>(&self, key: &str, defects: &mut Vec<Defect>) -> Vec<T>
    where
        T: Deserialize<'a>,
    {
        self.field(key, defects)
    }
}
