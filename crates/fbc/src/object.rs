//! A canonical JSON object whose members are known by their places.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapDeserializer;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::document::Defect;
use crate::graph::shown;
use crate::problem::Code;
use crate::text::json::cursor::Walk;
use crate::text::json::typed::{Text, advised};
use crate::text::json::{Canonicaliser, unescape};

/// How long a list of objects may be. What a catalog needs is far below; an
/// item of three bytes becomes one of a hundred in memory.
pub(crate) const MAX_LIST: usize = 20_000;

/// A blob: its canonical text and where its top-level members lie in it.
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

    /// Keys, and walks over their values.
    pub(crate) fn walks(&self) -> impl Iterator<Item = (&'a [u8], Walk<'a>)> + use<'a> {
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
    pub(crate) fn get(&self, wanted: &str) -> Option<&'a [u8]> {
        let found = self.members().find(|(key, _)| is(key, wanted));
        found.map(|(_, value)| value)
    }

    /// A walk over the value of a key, whatever its case.
    pub(crate) fn walk(&self, wanted: &str) -> Option<Walk<'a>> {
        let found = self.walks().find(|(key, _)| is(key, wanted));
        found.map(|(_, walk)| walk)
    }

    /// A walk over the value of a key, whatever its case, and where the value
    /// begins in the text.
    pub(crate) fn walk_at(&self, wanted: &str) -> Option<(usize, Walk<'a>)> {
        let members = self.canonicaliser.top_members().iter();
        let mut walks = self.walks().zip(members.map(|member| member.value.start));
        walks.find_map(|((key, walk), start)| is(key, wanted).then_some((start, walk)))
    }

    /// The value of a key read into a type; a value of another type is a
    /// defect and counts as absent.
    pub(crate) fn field<T>(&self, key: &str, defects: &mut Vec<Defect>) -> T
    where
        T: Deserialize<'a> + Default,
    {
        let Some(value) = self.get(key) else {
            return T::default();
        };
        match serde_json::from_slice::<Option<T>>(value) {
            Ok(value) => value.unwrap_or_default(),
            Err(error) => {
                defects.push(malformed(key, &error));
                T::default()
            }
        }
    }

    /// The value of a key read as a list of objects. Of items that say nothing
    /// the first stands for all: three bytes of text are not worth more memory.
    /// What comes behind the first [`MAX_LIST`] is a defect and left out; of an
    /// item with a field of another type only that field is.
    pub(crate) fn list<T>(&self, key: &str, defects: &mut Vec<Defect>) -> Vec<T>
    where
        T: Deserialize<'a> + Default + PartialEq,
    {
        let read = self.get(key).map(serde_json::from_slice::<Option<List<T>>>);
        let list = match read {
            None => List::default(),
            Some(Ok(list)) => list.unwrap_or_default(),
            Some(Err(_)) => {
                let items: Option<List<Item<'a>>> = self.field(key, defects);
                items.unwrap_or_default().into_objects(key, defects)
            }
        };
        if list.goes_on {
            defects.push(Defect {
                code: Code::BlobMalformed,
                message: format!(
                    "has more than {MAX_LIST} items in {key:?}, which is too many; remove some"
                )
                .into(),
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

fn malformed(key: &str, error: &serde_json::Error) -> Defect {
    Defect {
        code: Code::BlobMalformed,
        message: format!("has a malformed {key:?}: {}", advised(error)).into(),
    }
}

/// How many defects of a list are noted.
const MAX_DEFECTS: usize = 1_000;

/// An item of a list in which not all are as they should be.
#[derive(Default)]
struct Item<'a>(Option<&'a RawValue>);

/// None is the same as another: each is to be looked at.
impl PartialEq for Item<'_> {
    fn eq(&self, _: &Self) -> bool {
        false
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Item<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(Self)
    }
}

impl<'a> List<Item<'a>> {
    /// Reads each item by itself, and notes the defects of each.
    fn into_objects<T>(self, key: &str, defects: &mut Vec<Defect>) -> List<T>
    where
        T: Deserialize<'a> + Default + PartialEq,
    {
        let mut list = List {
            items: Vec::new(),
            goes_on: self.goes_on,
            says_nothing: false,
        };
        let most = defects.len() + MAX_DEFECTS;
        for (number, item) in self.items.into_iter().enumerate() {
            let text = item.0.map_or("null", RawValue::get);
            let mut found = Vec::new();
            let item = serde_json::from_str::<Option<T>>(text).or_else(|_| {
                let members = members(text)?;
                let (item, wrong) = by_members(&members);
                found = wrong;
                Ok(item)
            });
            match item {
                Ok(item) => list.push(item.unwrap_or_default()),
                Err(error) => found.push((String::new(), error)),
            }
            let path = format!("{key}[{number}]");
            for (member, error) in found {
                if defects.len() < most {
                    defects.push(malformed(&format!("{path}{member}"), &error));
                }
            }
        }
        list
    }
}

type Members<'a> = Vec<(Cow<'a, str>, &'a RawValue)>;

/// The members of an object, by their keys.
fn members(text: &str) -> Result<Members<'_>, serde_json::Error> {
    struct MembersVisitor;
    impl<'de> Visitor<'de> for MembersVisitor {
        type Value = Members<'de>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
            let mut members = Members::new();
            while let Some((Text(key), value)) = map.next_entry()? {
                members.push((key, value));
            }
            Ok(members)
        }
    }
    serde_json::Deserializer::from_str(text).deserialize_any(MembersVisitor)
}

/// An object without those members that are not as they should be, and what is
/// wrong with each of these.
fn by_members<'a, T>(members: &Members<'a>) -> (Option<T>, Vec<(String, serde_json::Error)>)
where
    T: Deserialize<'a>,
{
    let object = |members: &[(Cow<'a, str>, &'a RawValue)]| {
        T::deserialize(MapDeserializer::new(members.iter().cloned()))
    };
    let mut wrong = Vec::new();
    let mut right = Members::new();
    for member in members {
        match object(std::slice::from_ref(member)) {
            Ok(_) => right.push(member.clone()),
            Err(error) => wrong.push((format!(".{}", shown(&member.0)), error)),
        }
    }
    (object(&right).ok(), wrong)
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
    /// Whether an item says nothing.
    says_nothing: bool,
}

impl<T: Default + PartialEq> List<T> {
    /// Adds an item, unless it is another that says nothing.
    fn push(&mut self, item: T) {
        let nothing = item == T::default();
        if !nothing || !self.says_nothing {
            self.says_nothing |= nothing;
            self.items.push(item);
        }
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            goes_on: false,
            says_nothing: false,
        }
    }
}

impl<'de, T: Deserialize<'de> + Default + PartialEq> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + Default + PartialEq> Visitor<'de> for ListVisitor<T> {
            type Value = List<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T>, A::Error> {
                let mut list = List::default();
                for _ in 0..MAX_LIST {
                    match seq.next_element()? {
                        Some(item) => list.push(item),
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
