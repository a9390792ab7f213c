//! The entries of one object in the output. They are sorted if necessary; of equal
//! keys the last remains.

use std::cmp::Ordering;

use crate::text::json::{compare_keys, unescape};

/// An offset into the output of a document.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the budget of a document is less than 4 GiB, see `Limits`"
)]
pub(crate) fn offset(at: usize) -> u32 {
    at as u32
}

/// The position of an entry of an object in the JSON: `"key":value` from `key` to
/// `end`, in bytes. 32 bits are enough, see [`Limits`](crate::text::yaml::Limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The opening quote of the key.
    pub(crate) key: u32,
    /// Right after the colon.
    pub(crate) value: u32,
    pub(crate) end: u32,
}

impl Entry {
    /// The same entry with its offset `from` now at `to`.
    pub(crate) fn moved(self, from: u32, to: u32) -> Self {
        let moved = |offset: u32| offset.saturating_sub(from).saturating_add(to);
        Self {
            key: moved(self.key),
            value: moved(self.value),
            end: moved(self.end),
        }
    }

    /// The key as it is written, without its quotes.
    fn key(self, json: &[u8]) -> &[u8] {
        // A quote and a colon stand between the key and the value.
        let range = self.key as usize + 1..(self.value as usize).saturating_sub(2);
        json.get(range).unwrap_or_default()
    }

    fn text(self, json: &[u8]) -> &[u8] {
        json.get(self.key as usize..self.end as usize)
            .unwrap_or_default()
    }
}

/// Whether the keys are sorted and distinct.
pub(crate) fn are_sorted(entries: &[Entry], json: &[u8], escaped: bool) -> bool {
    entries.is_sorted_by(|a, b| compare(a.key(json), b.key(json), escaped) == Ordering::Less)
}

/// Sorts the entries and writes their object to `into`. Afterwards the entries have
/// their positions there, as if it started at offset `start`. `escaped` says whether
/// keys may have escapes. Returns whether an entry was dropped.
pub(crate) fn rebuild(
    entries: &mut Vec<Entry>,
    first: usize,
    json: &[u8],
    escaped: bool,
    start: u32,
    into: &mut Vec<u8>,
) -> bool {
    let order = |a: &Entry, b: &Entry| compare(a.key(json), b.key(json), escaped);
    // Both sorts keep the order of equal keys: the last is the last written.
    let own = entries.get_mut(first..).unwrap_or_default();
    if escaped {
        own.sort_by_cached_key(|entry| unescape(entry.key(json)).into_owned());
    } else {
        own.sort_by(order);
    }
    into.clear();
    into.push(b'{');
    let mut kept = first;
    for index in first..entries.len() {
        let entry = entries[index];
        if entries
            .get(index + 1)
            .is_some_and(|next| order(&entry, next) == Ordering::Equal)
        {
            continue;
        }
        if into.len() > 1 {
            into.push(b',');
        }
        let to = offset(into.len()).saturating_add(start);
        into.extend_from_slice(entry.text(json));
        entries[kept] = entry.moved(entry.key, to);
        kept += 1;
    }
    into.push(b'}');
    let drops = kept < entries.len();
    entries.truncate(kept);
    drops
}

/// Compares two keys by the bytes of their text, not of its escaped form.
fn compare(a: &[u8], b: &[u8], escaped: bool) -> Ordering {
    if escaped {
        compare_keys(a, b)
    } else {
        a.cmp(b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_by_their_text_and_the_last_of_equal_ones_counts() {
        let json = br#"{"b":1,"a":2,"b":3,"\"":4,"!":5}"#;
        let mut entries: Vec<Entry> = [
            (1, 5, 6),
            (7, 11, 12),
            (13, 17, 18),
            (19, 24, 25),
            (26, 30, 31),
        ]
        .map(|(key, value, end)| Entry { key, value, end })
        .into();
        assert!(!are_sorted(&entries, json, true));
        let mut out = Vec::new();
        assert!(rebuild(&mut entries, 0, json, true, 0, &mut out));
        assert_eq!(
            std::str::from_utf8(&out),
            Ok(r#"{"!":5,"\"":4,"a":2,"b":3}"#)
        );
        assert_eq!(entries.len(), 4);
        assert!(are_sorted(&entries, &out, true));
        assert_eq!(entries[3].text(&out), br#""b":3"#);
    }
}
