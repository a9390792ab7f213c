//! JSON objects in which a repeated key is an error.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

/// A JSON object without repeated keys.
pub(super) struct UniqueKeys<T>(pub(super) BTreeMap<String, T>);

impl<T> Default for UniqueKeys<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for UniqueKeys<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(UniqueKeysVisitor(PhantomData))
    }
}

struct UniqueKeysVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for UniqueKeysVisitor<T> {
    type Value = UniqueKeys<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UniqueKeys<T>, A::Error> {
        let mut all = BTreeMap::new();
        while let Some((key, value)) = map.next_entry::<String, T>()? {
            if all.contains_key(&key) {
                let shown: String = key.chars().take(100).collect();
                let problem = format!("the key {shown:?} is repeated");
                return Err(serde::de::Error::custom(problem));
            }
            all.insert(key, value);
        }
        Ok(UniqueKeys(all))
    }
}
