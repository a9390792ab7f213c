//! Keys without regard to case, as the parsers of Go programs read them.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IntoDeserializer as _, MapAccess, Visitor,
};

/// A struct whose keys are read in any case. A key that is there twice, in two
/// cases, is an error.
pub(crate) struct Folded<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Folded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FoldedVisitor(PhantomData))
    }
}

struct FoldedVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for FoldedVisitor<T> {
    type Value = Folded<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Folded<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(FoldedMap(map))).map(Folded)
    }
}

struct FoldedMap<A>(A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for FoldedMap<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let key = self.0.next_key::<String>()?;
        key.map(|key| seed.deserialize(key.to_ascii_lowercase().into_deserializer()))
            .transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.0.next_value_seed(seed)
    }
}
