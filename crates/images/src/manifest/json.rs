//! Reading JSON objects, and showing their texts.

use serde::de::{DeserializeOwned, Error as _};

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

/// A text of a document, cut for an error message.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}
