//! Characters that YAML does not allow.

use memchr::memchr_iter;

/// The first character of `text` that YAML does not allow, with its line and
/// column from 0.
pub(crate) fn forbidden_character(text: &str) -> Option<(char, u64, u64)> {
    let allowed = |char: char| match char {
        '\t' | '\n' | '\r' | '\u{85}' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        _ => !char.is_control(),
    };
    let (at, char) = text.char_indices().find(|(_, char)| !allowed(*char))?;
    let (line, column) = position(&text.as_bytes()[..at]);
    Some((char, line, column))
}

/// The position after `before`, line and column from 0.
pub(crate) fn position(before: &[u8]) -> (u64, u64) {
    let line = memchr_iter(b'\n', before).count();
    let start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[start..]).chars().count();
    (line as u64, column as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_characters_are_found() {
        assert_eq!(forbidden_character("a\n\tb\u{85}\u{feff}\r"), None);
        assert_eq!(forbidden_character("a\nbä\0"), Some(('\0', 1, 2)));
        assert_eq!(forbidden_character("\u{7f}"), Some(('\u{7f}', 0, 0)));
        assert_eq!(forbidden_character("\u{fffe}"), Some(('\u{fffe}', 0, 0)));
    }
}
