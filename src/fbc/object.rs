//! A canonical JSON object whose members are known by their places.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::blob::Defect;
use super::json::{Canonicaliser, unescape};
use super::problem::Code;
use super::typed::plain;
use super::walk::Walk;

/// How long a list of objects may be. What a catalog needs is far below; an
/// item of three bytes becomes one of a hundred in memory.
pub(super) const MAX_LIST: usize = 20_000;

/// A blob: its canonical text and where its top-level members lie in it.
#[derive(Clone, Copy)]
pub(super) struct Object<'a> {
    text: &'a [u8],
    canonicaliser: &'a Canonicaliser,
}

impl<'a> Object<'a> {
    /// The object that was read last, and written to `text`.
    pub(super) fn new(text: &'a [u8], canonicaliser: &'a Canonicaliser) -> Self {
        Self {
            text,
            canonicaliser,
        }
    }

    /// Keys and values as they stand in the text.
    pub(super) fn members(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'a> {
        let text = self.text;
        let members = self.canonicaliser.top_members().iter();
        members.map(move |member| (&text[member.key.clone()], &text[member.value.clone()]))
    }

    /// Keys, and walks over their values.
    pub(super) fn walks(&self) -> impl Iterator<Item = (&'a [u8], Walk<'a>)> + use<'a> {
        let Self {
            text,
            canonicaliser,
        } = *self;
        canonicaliser.top_members().iter().map(move |member| {
            let ends = canonicaliser.string_ends(member);
            let walk = Walk::with_ends(&text[member.value.clone()], ends);
            (&text[member.key.clone()], walk)
        })
    }

    /// The value of a key, whatever its case, as the peers find it.
    pub(super) fn get(&self, wanted: &str) -> Option<&'a [u8]> {
        let found = self.members().find(|(key, _)| is(key, wanted));
        found.map(|(_, value)| value)
    }

    /// A walk over the value of a key, whatever its case.
    pub(super) fn walk(&self, wanted: &str) -> Option<Walk<'a>> {
        let found = self.walks().find(|(key, _)| is(key, wanted));
        found.map(|(_, walk)| walk)
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
                    message: format!("has a malformed {key:?}: {error}").into(),
                });
                T::default()
            }
        }
    }

    /// The value of a key read as a list of objects. Of items that say nothing
    /// the first stands for all: three bytes of text are not worth more memory.
    /// What comes behind the first [`MAX_LIST`] is a defect and left out.
    pub(super) fn list<T>(&self, key: &str, defects: &mut Vec<Defect>) -> Vec<T>
    where
        T: Deserialize<'a> + Default + PartialEq,
    {
        let list: List<T> = self.field(key, defects);
        if list.goes_on {
            defects.push(Defect {
                code: Code::BlobMalformed,
                message: format!("has more than {MAX_LIST} items in {key:?}").into(),
            });
        }
        let mut items = list.items;
        // A list that grew is up to twice as long as what is in it.
        if size_of_val(&items[..]) > LARGE {
            items.shrink_to_fit();
        }
        items
    }
}

fn is(key: &[u8], wanted: &str) -> bool {
    key.eq_ignore_ascii_case(wanted.as_bytes())
        || (key.contains(&b'\\') && unescape(key).eq_ignore_ascii_case(wanted))
}

/// From here on, in bytes, a list's memory is given back.
const LARGE: usize = 1 << 12;

/// The first items of a list.
struct List<T> {
    items: Vec<T>,
    /// Whether there are more.
    goes_on: bool,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            goes_on: false,
        }
    }
}

impl<'de, T: Deserialize<'de> + Default + PartialEq> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + Default + PartialEq> Visitor<'de> for ListVisitor<T> {
            type Value = List<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T>, A::Error> {
                let mut list = List::default();
                let nothing = T::default();
                let mut said_nothing = false;
                for _ in 0..MAX_LIST {
                    match seq.next_element()? {
                        Some(item) if item == nothing && said_nothing => {}
                        Some(item) => {
                            said_nothing |= item == nothing;
                            list.items.push(item);
                        }
                        None => return Ok(list),
                    }
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    list.goes_on = true;
                }
                Ok(list)
            }
        }
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}
