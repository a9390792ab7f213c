//! Texts that an index has many times, and memory once: the name of a bundle is also
//! its meta's, and most entries replace one.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text that may be shared.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedText(Arc<str>);

thread_local! {
    /// The texts of the decoding that runs on this thread.
    static KNOWN: RefCell<Option<HashSet<Arc<str>>>> = const { RefCell::new(None) };
}

/// Runs a decoding, in which equal texts become one. Finding them before memory is
/// taken leaves no gaps.
pub(super) fn sharing<T>(decode: impl FnOnce() -> T) -> T {
    KNOWN.set(Some(HashSet::new()));
    let decoded = decode();
    KNOWN.set(None);
    decoded
}

impl Deref for SharedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for SharedText {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl Serialize for SharedText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for SharedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = SharedText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<SharedText, E> {
                Ok(KNOWN.with_borrow_mut(|known| {
                    let Some(known) = known else {
                        return text.into();
                    };
                    if let Some(text) = known.get(text) {
                        return SharedText(Arc::clone(text));
                    }
                    let text: Arc<str> = text.into();
                    known.insert(Arc::clone(&text));
                    SharedText(text)
                }))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_of_one_decoding_are_one() {
        let texts = ["a.v1", "b.v1", "a.v1", ""].map(SharedText::from);
        let bytes = postcard::to_stdvec(&texts).unwrap();
        let decode = || postcard::from_bytes::<[SharedText; 4]>(&bytes).unwrap();
        let is_shared = |texts: &[SharedText; 4]| Arc::ptr_eq(&texts[0].0, &texts[2].0);
        let shared = sharing(decode);
        assert_eq!(shared, texts);
        assert!(is_shared(&shared));
        // One that is over shares with none.
        assert!(!Arc::ptr_eq(&sharing(decode)[1].0, &shared[1].0));
        assert!(!is_shared(&decode()));
    }
}
