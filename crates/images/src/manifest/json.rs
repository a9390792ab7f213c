//! Reading JSON objects, and showing their texts.

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

use crate::display::clip;

/// The longest text of a document that an error repeats, in characters.
const MAX_SHOWN: usize = 200;

/// Parses a JSON object. Derived readers accept an array as well, which no
/// other client does.
pub(crate) fn object<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    if bytes.trim_ascii_start().starts_with(b"{") {
        serde_json::from_slice(bytes)
    } else {
        Err(serde_json::Error::custom("not a JSON object"))
    }
}

/// Reads texts by name. A null is an empty text, and null in their place means none,
/// as Go's clients read them.
pub(crate) fn texts<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let texts: Option<BTreeMap<String, Option<String>>> = Option::deserialize(deserializer)?;
    let texts = texts.unwrap_or_default().into_iter();
    Ok(texts
        .map(|(name, text)| (name, text.unwrap_or_default()))
        .collect())
}

/// Reads a value. A null is the default, as Go's clients read it.
pub(crate) fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A text of a document, cut for an error message.
pub(crate) fn cut(text: &str) -> String {
    clip(text, MAX_SHOWN)
}
