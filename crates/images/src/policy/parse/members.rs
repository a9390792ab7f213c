//! JSON read strictly, as the tools for containers read `policy.json`: keys are
//! case-sensitive and unique, unknown keys and `null` are errors, and byte
//! fields are base64 with padding.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::display::clip;

/// The longest key that an error repeats, in characters.
const MAX_SHOWN: usize = 100;
/// How many letters of a key may be wrong for a proposal.
const MAX_DISTANCE: usize = 2;
/// Base64 with padding, whose last bits may be any.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// A JSON value without repeated keys and `null`.
#[derive(Clone, Debug)]
pub(super) enum Json {
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
    /// A number or a truth value: no field takes one.
    Other,
}

/// The members of an object that are not taken yet.
#[derive(Debug)]
pub(super) struct Members(BTreeMap<String, Json>);

impl From<Value> for Json {
    /// The same value. A member with `null` is none, as Kubernetes has it.
    fn from(value: Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text),
            Value::Array(list) => Self::List(list.into_iter().map(Self::from).collect()),
            Value::Object(members) => {
                let given = members.into_iter().filter(|(_, value)| !value.is_null());
                Self::Object(given.map(|(key, value)| (key, value.into())).collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Self::Other,
        }
    }
}

impl Json {
    pub(super) fn object(self) -> Result<Members, String> {
        match self {
            Self::Object(members) => Ok(Members(members)),
            _ => Err("it is not an object".into()),
        }
    }

    pub(super) fn list(self) -> Result<Vec<Json>, String> {
        match self {
            Self::List(list) => Ok(list),
            _ => Err("it is not a list".into()),
        }
    }

    fn text(self) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text),
            _ => Err("it is not a string".into()),
        }
    }

    fn bytes(self) -> Result<Vec<u8>, String> {
        let text = self.text()?;
        if text.trim_start().starts_with("-----BEGIN") {
            return Err("it is PEM: write the base64 of the PEM file".into());
        }
        let text = text.replace(['\r', '\n'], "");
        BASE64.decode(text).map_err(|_| "it is not base64".into())
    }
}

impl Members {
    /// All members.
    pub(super) fn into_all(self) -> BTreeMap<String, Json> {
        self.0
    }

    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        self.field(key, Json::text)
    }

    pub(super) fn required_text(&mut self, key: &str) -> Result<String, String> {
        self.text(key)?.ok_or_else(|| format!("{key} is missing"))
    }

    /// A text that is missing or not empty.
    pub(super) fn full_text(&mut self, key: &str) -> Result<Option<String>, String> {
        let text = self.text(key)?;
        if text.as_deref() == Some("") {
            return Err(format!("{key} is empty"));
        }
        Ok(text)
    }

    /// A path that is missing or not empty.
    pub(super) fn path(&mut self, key: &str) -> Result<Option<PathBuf>, String> {
        Ok(self.full_text(key)?.map(PathBuf::from))
    }

    pub(super) fn paths(&mut self, key: &str) -> Result<Option<Vec<PathBuf>>, String> {
        let texts = self.texts(key)?;
        Ok(texts.map(|texts| texts.into_iter().map(PathBuf::from).collect()))
    }

    pub(super) fn texts(&mut self, key: &str) -> Result<Option<Vec<String>>, String> {
        self.field(key, |value| {
            value.list()?.into_iter().map(Json::text).collect()
        })
    }

    pub(super) fn bytes(&mut self, key: &str) -> Result<Option<Vec<u8>>, String> {
        self.field(key, Json::bytes)
    }

    pub(super) fn many_bytes(&mut self, key: &str) -> Result<Option<Vec<Vec<u8>>>, String> {
        self.field(key, |value| {
            value.list()?.into_iter().map(Json::bytes).collect()
        })
    }

    /// A member, whose problem names it.
    pub(super) fn field<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(Json) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let value = self.0.remove(key).map(read).transpose();
        value.map_err(|problem| format!("{key}: {problem}"))
    }

    /// Fails if a member is none of these. A misspelt one is a better reason than the
    /// absence of the right one.
    pub(super) fn check_known(&self, known: &[&str]) -> Result<(), String> {
        let Some(key) = self.0.keys().find(|key| !known.contains(&key.as_str())) else {
            return Ok(());
        };
        let key = shown(key);
        let distance =
            |known: &str| strsim::osa_distance(&key.to_lowercase(), &known.to_lowercase());
        let nearest = known.iter().min_by_key(|known| distance(known));
        let nearest = nearest.filter(|known| distance(known) <= MAX_DISTANCE);
        Err(match nearest {
            Some(known) => format!("the key {key:?} is unknown; did you mean {known:?}?"),
            None => format!("the key {key:?} is unknown"),
        })
    }

    /// Fails if members are left: they are unknown.
    pub(super) fn finish(self) -> Result<(), String> {
        match self.0.into_keys().next() {
            Some(key) => Err(format!("the key {:?} is unknown", shown(&key))),
            None => Ok(()),
        }
    }
}

/// A text from the file, cut to a bounded length.
pub(super) fn shown(text: &str) -> String {
    clip(text, MAX_SHOWN)
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a list or an object")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut all = Vec::new();
        while let Some(value) = list.next_element()? {
            all.push(value);
        }
        Ok(Json::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut all = BTreeMap::new();
        while let Some((key, value)) = map.next_entry::<String, Json>()? {
            if all.contains_key(&key) {
                let problem = format!("the key {:?} is repeated", shown(&key));
                return Err(A::Error::custom(problem));
            }
            all.insert(key, value);
        }
        Ok(Json::Object(all))
    }
}
