//! Texts from a catalog in messages: cut, quoted, listed and counted, so that a
//! message stays short whatever the catalog contains.

use std::fmt::Display;

/// The longest name in a message, in characters.
const MAX_NAME: usize = 253;

/// The number of names that a message lists.
pub const MAX_NAMES: usize = 20;

/// The first `limit` characters of a text, and `…` if there are more.
pub fn clip(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The same with a limit in bytes, where many texts are kept.
pub fn clip_bytes(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(limit)])
}

/// The first characters of a text for a place of `width` characters, one of which the `…` takes.
pub fn fit(text: &str, width: usize) -> String {
    if text.chars().nth(width).is_none() {
        return text.to_owned();
    }
    clip(text, width.saturating_sub(1))
}

/// Whether a character changes the writing direction: those of a catalog could mislead.
pub fn turns_direction(sign: char) -> bool {
    matches!(
        sign,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// A name, cut to the length of a message's subject.
pub fn shown(name: &str) -> String {
    clip(name, MAX_NAME)
}

/// The same in quotes.
pub fn quoted(name: &str) -> String {
    format!("{:?}", shown(name))
}

/// A count of further things: `1 more blob`, `2 more blobs`.
pub fn more(count: usize, noun: &str) -> String {
    format!("{count} more {noun}{}", if count == 1 { "" } else { "s" })
}

/// The first `most` items with `between` them; `… and 3 more` if there are more.
pub fn first_of<T: Display>(
    items: impl ExactSizeIterator<Item = T>,
    most: usize,
    between: &str,
) -> String {
    let left = items.len().saturating_sub(most);
    let shown: Vec<String> = items.take(most).map(|item| item.to_string()).collect();
    let shown = shown.join(between);
    match left {
        0 => shown,
        left => format!("{shown} and {left} more"),
    }
}

/// Names in quotes with commas between: the first of them, and a count of the
/// others.
pub fn list(names: &[&str]) -> String {
    first_of(names.iter().map(|name| quoted(name)), MAX_NAMES, ", ")
}

/// Names in quotes with arrows between: the first of them, and a count of the
/// others.
pub fn chain(names: &[&str]) -> String {
    first_of(names.iter().map(|name| quoted(name)), MAX_NAMES, " -> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_at_a_character() {
        assert_eq!(clip("abc", 3), "abc");
        assert_eq!(clip("abcd", 3), "abc…");
        assert_eq!(clip("aéé", 2), "aé…");
        assert_eq!(clip_bytes("aéé", 2), "a…");
        assert_eq!(clip_bytes("aé", 3), "aé");
        assert_eq!(fit("aéé", 3), "aéé");
        assert_eq!(fit("aééé", 3), "aé…");
        assert_eq!(fit("ab", 0), "…");
        assert_eq!(
            shown(&"x".repeat(MAX_NAME + 1)).chars().count(),
            MAX_NAME + 1
        );
    }

    #[test]
    fn long_lists_end_with_a_count() {
        assert_eq!(list(&["a", "b"]), "\"a\", \"b\"");
        assert_eq!(chain(&["a", "b"]), "\"a\" -> \"b\"");
        assert_eq!(first_of(["a", "b", "c"].iter(), 2, ", "), "a, b and 1 more");
        assert_eq!(more(1, "blob"), "1 more blob");
        assert_eq!(more(2, "blob"), "2 more blobs");
    }
}
