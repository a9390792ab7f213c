//! Texts that an index has many of. Those of an index that was read stay where they lie
//! in its mapped file: a catalog has tens of thousands of names, and memory none.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use postcard::de_flavors::Flavor;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text in a file, or one of its own.
#[derive(Clone, Default)]
pub struct SharedText {
    file: Arc<Bytes>,
    start: u32,
    length: u32,
}

thread_local! {
    /// The file of the decoding that runs on this thread, and where the bytes start that
    /// it took last.
    static DECODING: RefCell<Option<(Arc<Bytes>, usize)>> = const { RefCell::new(None) };
}

/// Decodes what lies in a file from `start` on. Its texts stay where they lie.
pub(super) fn decode_in<'a, T: Deserialize<'a>>(
    file: &'a Bytes,
    start: usize,
) -> postcard::Result<T> {
    DECODING.set(Some((Arc::new(file.clone()), 0)));
    let mut decoding = postcard::Deserializer::from_flavor(Counting { file, at: start });
    let decoded = T::deserialize(&mut decoding);
    DECODING.set(None);
    decoded
}

/// Counts the bytes that a decoding takes.
struct Counting<'a> {
    file: &'a [u8],
    at: usize,
}

impl<'a> Flavor<'a> for Counting<'a> {
    type Remainder = ();
    type Source = &'a [u8];

    fn pop(&mut self) -> postcard::Result<u8> {
        let byte = self.file.get(self.at);
        self.at += 1;
        byte.copied()
            .ok_or(postcard::Error::DeserializeUnexpectedEnd)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.file.len().saturating_sub(self.at))
    }

    fn try_take_n(&mut self, count: usize) -> postcard::Result<&'a [u8]> {
        let start = self.at;
        self.at = start.saturating_add(count);
        DECODING.with_borrow_mut(|decoding| {
            if let Some((_, last)) = decoding {
                *last = start;
            }
        });
        let bytes = self.file.get(start..self.at);
        bytes.ok_or(postcard::Error::DeserializeUnexpectedEnd)
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

impl SharedText {
    /// Its bytes, to compare: nothing checks that they are UTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        let start = self.start as usize;
        let bytes = self.file.get(start..start + self.length as usize);
        bytes.unwrap_or_default()
    }

    /// A text that starts there in a file; one of its own when another text does.
    fn within(file: &Arc<Bytes>, start: usize, text: &str) -> Self {
        let place = (u32::try_from(start), u32::try_from(text.len()));
        if let (Ok(start), Ok(length)) = place {
            let file = Arc::clone(file);
            let found = Self {
                file,
                start,
                length,
            };
            if found.as_bytes() == text.as_bytes() {
                return found;
            }
        }
        text.into()
    }
}

impl Deref for SharedText {
    type Target = str;

    /// The empty text when the file was damaged since it was read.
    fn deref(&self) -> &str {
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

impl From<&str> for SharedText {
    fn from(text: &str) -> Self {
        Self {
            file: Arc::new(Bytes::copy_from_slice(text.as_bytes())),
            start: 0,
            // No document is longer.
            length: u32::try_from(text.len()).unwrap_or(u32::MAX),
        }
    }
}

impl PartialEq for SharedText {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for SharedText {}

impl PartialOrd for SharedText {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SharedText {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl fmt::Debug for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
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
                Ok(DECODING.with_borrow(|decoding| match decoding {
                    Some((file, start)) => SharedText::within(file, *start, text),
                    None => text.into(),
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
    fn texts_of_a_decoding_stay_in_its_file() {
        let texts = ["a.v1", "b.v1", "a.v1", ""].map(SharedText::from);
        assert_eq!(
            texts.each_ref().map(|text| &**text),
            ["a.v1", "b.v1", "a.v1", ""]
        );
        assert!(texts[0] == texts[2] && texts[3] < texts[0] && texts[0] < texts[1]);
        let file = Bytes::from(postcard::to_stdvec(&texts).unwrap());
        let staying: [SharedText; 4] = decode_in(&file, 0).unwrap();
        assert_eq!(staying, texts);
        // The file is alive as long as they are.
        assert!(staying.iter().all(|text| *text.file == file));
        let starts = staying.each_ref().map(|text| (text.start, text.length));
        assert_eq!(starts, [(1, 4), (6, 4), (11, 4), (16, 0)]);
        for end in 0..file.len() {
            assert!(decode_in::<[SharedText; 4]>(&file.slice(..end), 0).is_err());
        }
        // Another decoding has no file.
        let owned: [SharedText; 4] = postcard::from_bytes(&file).unwrap();
        assert_eq!(owned, texts);
        assert!(owned.iter().all(|text| *text.file == **text));
        drop(file);
        assert_eq!(staying, texts);
    }
}
