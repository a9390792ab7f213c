//! The fields of the blobs of each schema, and their kinds: the source for a
//! typed schema of the whole catalog.
//!
//! Fields are collected piece by piece while blobs are read, and joined in
//! catalog order. The first blob with a key decides the key's kind. Later blobs
//! only add fields, to the blob or to the objects in one of its lists. catalogd
//! has the same rule, but there the order of keys is random; here it is fixed.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::object::Object;
use crate::text::json::cursor::Cursor;
use crate::text::json::schema::integer;

/// The number of schemas that are distinguished.
pub const MAX_SCHEMAS: usize = 1_000;
/// The number of fields of a blob, or of an object in one of its lists.
const MAX_FIELDS: usize = 200;
/// The number of fields of a catalog.
const MAX_ALL_FIELDS: usize = 20_000;
/// The length of a key in bytes.
const MAX_KEY: usize = 200;
/// The number of elements of each list that are inspected.
const SAMPLE: usize = 10;

/// Large lists in bundles, and the usual keys of their objects.
pub(crate) const PLAIN_LISTS: [(&str, [&str; 2]); 2] = [
    ("properties", ["type", "value"]),
    ("relatedImages", ["image", "name"]),
];

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scalar {
    /// A string; also null, and the JSON text of objects and lists.
    String,
    /// True or false.
    Boolean,
    /// A whole number of 32 bits.
    Int,
    /// Any other number.
    Float,
}

/// A value, or a list of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaf {
    /// Its type, or that of the list's elements.
    pub scalar: Scalar,
    /// Whether it is a list.
    pub list: bool,
}

/// The kind of a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A value, or a list of values.
    Leaf(Leaf),
    /// A list of objects, with their fields.
    Objects(Vec<Field<Leaf>>),
}

/// A field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field<K> {
    /// Its key, escaped as in canonical JSON.
    pub key: Box<str>,
    /// Its kind.
    pub kind: K,
}

/// The fields of the blobs of one schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaFields {
    /// The schema.
    pub schema: Box<str>,
    /// The fields, in the order in which they were first seen.
    pub fields: Vec<Field<Kind>>,
}

/// The fields of the blobs so far.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub struct Fields {
    /// The schemas in catalog order.
    pub schemas: Vec<SchemaFields>,
    #[serde(skip)]
    numbers: HashMap<Box<str>, usize>,
    /// The first document of each schema: its number and line in the piece, from
    /// 1.
    first: Vec<(u32, u32)>,
    /// The schema of the last blob.
    #[serde(skip)]
    last: usize,
    /// The number of fields of all schemas.
    count: usize,
    /// Schemas that lack some fields for their number or length; `None` when whole
    /// schemas are missing.
    pub omitted: Vec<Option<Box<str>>>,
}

/// The stored part of [`Fields`]: the rest follows from it.
#[derive(Deserialize)]
struct Stored {
    schemas: Vec<SchemaFields>,
    first: Vec<(u32, u32)>,
    count: usize,
    omitted: Vec<Option<Box<str>>>,
}

impl From<Stored> for Fields {
    fn from(stored: Stored) -> Self {
        let names = stored.schemas.iter().map(|schema| schema.schema.clone());
        Self {
            numbers: names.zip(0..).collect(),
            last: 0,
            schemas: stored.schemas,
            first: stored.first,
            count: stored.count,
            omitted: stored.omitted,
        }
    }
}

impl Fields {
    /// Adds the fields of a blob. `at` is the number of its document and its
    /// line. `plain` says which lists are known to match [`PLAIN_LISTS`]; they
    /// are not inspected again.
    pub(crate) fn add(
        &mut self,
        schema: &str,
        at: (u32, u32),
        object: &Object<'_>,
        plain: [bool; 2],
    ) {
        let plain = PLAIN_LISTS.iter().zip(plain).filter(|(_, plain)| *plain);
        let Some(number) = self.number(schema, at) else {
            return;
        };
        let (fields, count) = (&mut self.schemas[number].fields, &mut self.count);
        let mut whole = true;
        let mut next = 0;
        for (key, cursor) in object.cursors() {
            match find(fields, key, next) {
                Some(at) => {
                    next = at + 1;
                    let kind = &mut fields[at].kind;
                    let mut plain = plain.clone();
                    if plain.any(|((list, keys), _)| key == list.as_bytes() && kind.has(keys)) {
                        continue;
                    }
                    whole &= kind.add(cursor, count);
                }
                None if has_room(fields, key, *count) => {
                    let mut kind = Kind::Leaf(Leaf::new(cursor.clone().skip()));
                    whole &= kind.add(cursor, count);
                    next = fields.len() + 1;
                    push(fields, key, kind, count);
                }
                None => whole = false,
            }
        }
        if !whole {
            self.omit(Some(schema));
        }
    }

    /// Adds the fields of the next part of the catalog.
    pub fn append(&mut self, later: Self) {
        for (SchemaFields { schema, fields }, at) in later.schemas.into_iter().zip(later.first) {
            let Some(number) = self.number(&schema, at) else {
                continue;
            };
            let (into, count) = (&mut self.schemas[number].fields, &mut self.count);
            let mut whole = true;
            let mut next = 0;
            for field in fields {
                let key = field.key.as_bytes();
                match find(into, key, next) {
                    Some(at) => {
                        next = at + 1;
                        whole &= into[at].kind.append(field.kind, count);
                    }
                    None if has_room(into, key, *count) => {
                        let mut kind = field.kind;
                        if let Kind::Objects(fields) = &mut kind {
                            let room = MAX_ALL_FIELDS.saturating_sub(*count + 1);
                            whole &= fields.len() <= room;
                            fields.truncate(room);
                            *count += fields.len();
                        }
                        push(into, key, kind, count);
                    }
                    None => whole = false,
                }
            }
            if !whole {
                self.omit(Some(&schema));
            }
        }
        for schema in later.omitted {
            self.omit(schema.as_deref());
        }
    }

    /// The schemas, each with the number and the line of its first document in
    /// the piece, from 1.
    pub fn first(&self) -> impl Iterator<Item = (&str, (u32, u32))> {
        let schemas = self.schemas.iter().map(|schema| &*schema.schema);
        schemas.zip(self.first.iter().copied())
    }

    fn number(&mut self, schema: &str, at: (u32, u32)) -> Option<usize> {
        let last = self.schemas.get(self.last);
        if last.is_some_and(|last| *last.schema == *schema) {
            return Some(self.last);
        }
        if let Some(number) = self.numbers.get(schema) {
            self.last = *number;
            return Some(*number);
        }
        if self.schemas.len() >= MAX_SCHEMAS || schema.len() > MAX_KEY {
            self.omit(None);
            return None;
        }
        self.last = self.schemas.len();
        self.numbers.insert(schema.into(), self.last);
        self.first.push(at);
        self.schemas.push(SchemaFields {
            schema: schema.into(),
            fields: Vec::new(),
        });
        Some(self.last)
    }

    fn omit(&mut self, schema: Option<&str>) {
        if !self.omitted.iter().any(|found| found.as_deref() == schema) {
            self.omitted.push(schema.map(Into::into));
        }
    }
}

/// The field of a key, most likely the one at `next`: the sorted keys of most
/// blobs follow each other in the same order.
fn find<K>(fields: &[Field<K>], key: &[u8], next: usize) -> Option<usize> {
    let is = |field: &Field<K>| field.key.as_bytes() == key;
    if fields.get(next).is_some_and(is) {
        return Some(next);
    }
    fields.iter().position(is)
}

fn has_room<K>(fields: &[Field<K>], key: &[u8], count: usize) -> bool {
    fields.len() < MAX_FIELDS && count < MAX_ALL_FIELDS && key.len() <= MAX_KEY
}

fn push<K>(fields: &mut Vec<Field<K>>, key: &[u8], kind: K, count: &mut usize) {
    *count += 1;
    // Canonical text is UTF-8.
    let key = String::from_utf8_lossy(key).into();
    fields.push(Field { key, kind });
}

impl Kind {
    /// Whether it is a list of objects that have these keys.
    fn has(&self, keys: &[&str]) -> bool {
        let Self::Objects(fields) = self else {
            return false;
        };
        let known = |key: &&str| fields.iter().any(|field| *field.key == **key);
        keys.iter().all(known)
    }

    /// Adds the fields of the objects in the value at `cursor`. Returns whether there was
    /// room for all.
    fn add(&mut self, mut cursor: Cursor<'_>, count: &mut usize) -> bool {
        if !cursor.enter_array() {
            return true;
        }
        let (mut whole, mut objects) = (true, false);
        for _ in 0..SAMPLE {
            if !cursor.next_element() {
                break;
            }
            if !cursor.enter_object() {
                // The first element that is not null decides.
                if cursor.skip() == b"null" || objects {
                    continue;
                }
                break;
            }
            objects = true;
            let mut next = 0;
            while let Some(key) = cursor.next_key() {
                let key = &key[1..key.len() - 1];
                let value = cursor.skip();
                if let Self::Leaf(_) = self {
                    *self = Self::Objects(Vec::new());
                }
                let Self::Objects(fields) = self else { break };
                match find(fields, key, next) {
                    Some(at) => next = at + 1,
                    None if has_room(fields, key, *count) => {
                        next = fields.len() + 1;
                        push(fields, key, Leaf::new(value), count);
                    }
                    None => whole = false,
                }
            }
        }
        whole
    }

    /// Adds the fields of objects of another kind. Returns whether there was
    /// room for all.
    fn append(&mut self, later: Self, count: &mut usize) -> bool {
        let Self::Objects(later) = later else {
            return true;
        };
        if let Self::Leaf(_) = self {
            *self = Self::Objects(Vec::new());
        }
        let Self::Objects(fields) = self else {
            return true;
        };
        let mut whole = true;
        for (next, Field { key, kind }) in later.into_iter().enumerate() {
            if find(fields, key.as_bytes(), next).is_some() {
                continue;
            }
            if has_room(fields, key.as_bytes(), *count) {
                push(fields, key.as_bytes(), kind, count);
            } else {
                whole = false;
            }
        }
        whole
    }
}

impl Leaf {
    /// The type of a value. That of a list is common to its first elements.
    fn new(value: &[u8]) -> Self {
        let mut cursor = Cursor::new(value);
        if !cursor.enter_array() {
            let (scalar, list) = (Scalar::new(value), false);
            return Self { scalar, list };
        }
        let mut common = None;
        for _ in 0..SAMPLE {
            if !cursor.next_element() {
                break;
            }
            let element = cursor.skip();
            if element == b"null" {
                continue;
            }
            let this = Scalar::new(element);
            common = Some(match (common, this) {
                (None, this) => this,
                (Some(common), this) if common == this => this,
                (Some(Scalar::Int | Scalar::Float), Scalar::Int | Scalar::Float) => Scalar::Float,
                _ => Scalar::String,
            });
        }
        Self {
            scalar: common.unwrap_or(Scalar::String),
            list: true,
        }
    }
}

impl Scalar {
    fn new(value: &[u8]) -> Self {
        match value.first() {
            Some(b't' | b'f') => Self::Boolean,
            Some(b'-' | b'0'..=b'9') => {
                // catalogd calls larger ones Int as well, and then answers null.
                integer(value).map_or(Self::Float, |_| Self::Int)
            }
            _ => Self::String,
        }
    }
}
