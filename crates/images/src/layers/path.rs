//! Paths inside an image.
//!
//! A path is kept as a *key*: its names, joined by zero bytes, without a
//! leading one; the root is the empty key. A zero byte sorts before every byte
//! of a name, so the plain order of keys is the order of a folder walk, and
//! everything below a folder is one range of keys.

use std::cmp::Ordering;

use crate::display::clip;
use crate::layers::error::LayerRejection;

/// The separator between the names of a key.
pub(super) const SEPARATOR: char = '\0';

/// The longest path in messages, in characters.
const SHOWN: usize = 256;

/// The order of Go's `fs.WalkDir`: name by name, each compared bytewise, so that
/// `a/b` comes before `a.yaml`.
///
/// ```
/// use images::layers::walk_order;
///
/// let mut paths = ["b", "a.yaml", "a/b", "a/B"];
/// paths.sort_by(|a, b| walk_order(a, b));
/// assert_eq!(paths, ["a/B", "a/b", "a.yaml", "b"]);
/// ```
pub fn walk_order(a: &str, b: &str) -> Ordering {
    a.split('/').cmp(b.split('/'))
}

/// Writes the key of a path into `key`. Leading, doubled and trailing slashes
/// and `.` names are dropped.
pub(super) fn write_key(path: &[u8], key: &mut Vec<u8>) -> Result<(), LayerRejection> {
    key.clear();
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => return Err(LayerRejection::ParentComponent),
            name if memchr::memchr(0, name).is_some() => return Err(LayerRejection::ZeroByte),
            name => {
                if !key.is_empty() {
                    key.push(SEPARATOR as u8);
                }
                key.extend_from_slice(name);
            }
        }
    }
    Ok(())
}

/// The path of `key` relative to `folder`, with `/` between names; the name, if the
/// folder is the file itself.
pub(super) fn relative(key: &str, folder: &str) -> String {
    let below = match key.strip_prefix(folder) {
        Some("") => key.rsplit(SEPARATOR).next().unwrap_or_default(),
        Some(below) => below.trim_start_matches(SEPARATOR),
        None => key,
    };
    below.replace(SEPARATOR, "/")
}

/// The key of `name` in the folder `folder`.
pub(super) fn join(folder: &str, name: &str) -> String {
    let mut key = String::with_capacity(folder.len() + 1 + name.len());
    key.push_str(folder);
    push(&mut key, name);
    key
}

/// Appends one name to a key.
pub(super) fn push(key: &mut String, name: &str) {
    if !key.is_empty() {
        key.push(SEPARATOR);
    }
    key.push_str(name);
}

/// A key's folder and its last name; `None` for the root.
pub(super) fn split_last(key: &[u8]) -> Option<(&[u8], &[u8])> {
    if key.is_empty() {
        return None;
    }
    Some(match memchr::memrchr(0, key) {
        Some(at) => (&key[..at], &key[at + 1..]),
        None => (b"", key),
    })
}

/// The folder of a key; the root's is the root.
pub(super) fn parent(key: &str) -> &str {
    key.rfind(SEPARATOR).map_or("", |at| &key[..at])
}

/// The folders above a key, from the root down, without the key itself.
pub(super) fn ancestors(key: &str) -> impl Iterator<Item = &str> {
    let root = (!key.is_empty()).then_some("");
    root.into_iter()
        .chain(key.match_indices(SEPARATOR).map(|(at, _)| &key[..at]))
}

/// Whether `key` is `folder` or below it.
pub(super) fn is_within(key: &[u8], folder: &[u8]) -> bool {
    folder.is_empty()
        || key
            .strip_prefix(folder)
            .is_some_and(|rest| rest.first().is_none_or(|byte| *byte == 0))
}

/// A key as a path, for messages.
pub(super) fn shown_key(key: &str) -> String {
    shown(key.replace(SEPARATOR, "/").as_bytes())
}

/// A path for messages: cut, with replacements for invalid UTF-8.
pub(super) fn shown(path: &[u8]) -> String {
    // A character has at most four bytes.
    let head = &path[..path.len().min(4 * SHOWN + 4)];
    let text = String::from_utf8_lossy(head);
    clip(&text, SHOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str) -> Result<String, LayerRejection> {
        let mut key = vec![b'x'];
        write_key(path.as_bytes(), &mut key)?;
        Ok(String::from_utf8(key).unwrap())
    }

    #[test]
    fn paths_are_normalised() {
        for path in [
            "configs/a",
            "/configs/a",
            "./configs//a/",
            "//configs/./a/.",
        ] {
            assert_eq!(key(path), Ok("configs\0a".into()), "{path}");
        }
        for path in ["", "/", ".", "./", "//"] {
            assert_eq!(key(path), Ok(String::new()), "{path}");
        }
        assert_eq!(key("a/../b"), Err(LayerRejection::ParentComponent));
        assert_eq!(key("a\0b"), Err(LayerRejection::ZeroByte));
        assert_eq!(key("..a/b.."), Ok("..a\0b..".into()));
    }

    #[test]
    fn keys_sort_in_the_order_of_a_walk() {
        let paths = [
            "a/b", "a/b/c", "a/b-", "a.yaml", "a0", "a", "", "B", "a/é", "a/\u{1}",
        ];
        let mut by_key = paths.map(|path| (key(path).unwrap(), path));
        by_key.sort();
        let mut by_walk = paths;
        by_walk.sort_by(|a, b| walk_order(a, b));
        assert_eq!(by_key.map(|(_, path)| path), by_walk);
    }

    #[test]
    fn a_folder_contains_itself_and_its_descendants() {
        let within =
            |a: &str, b: &str| is_within(key(a).unwrap().as_bytes(), key(b).unwrap().as_bytes());
        assert!(within("configs", "configs"));
        assert!(within("configs/a", "configs"));
        assert!(within("configs", ""));
        assert!(within("", ""));
        assert!(!within("configs-extra/a", "configs"));
        assert!(!within("config", "configs"));
        assert!(!within("", "configs"));
    }

    #[test]
    fn ancestors_go_from_the_root_down() {
        let key = key("a/b/c").unwrap();
        assert_eq!(ancestors(&key).collect::<Vec<_>>(), ["", "a", "a\0b"]);
        assert_eq!(ancestors("").count(), 0);
    }

    #[test]
    fn messages_show_a_bounded_part() {
        assert_eq!(shown(b"a\xff"), "a\u{fffd}");
        assert_eq!(shown("é".repeat(300).as_bytes()).chars().count(), 257);
        assert_eq!(shown(&[0xff; 10_000]).chars().count(), 257);
    }
}
