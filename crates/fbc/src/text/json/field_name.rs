//! The rule by which Go's reader matches keys of objects with names of fields.

/// Whether Go takes `key` for `name`: in any case, and as Unicode folds it.
pub(crate) fn is_name(key: &[u8], name: &str) -> bool {
    if key.is_ascii() {
        return key.eq_ignore_ascii_case(name.as_bytes());
    }
    let folded = |character| match character {
        'ſ' => 's',
        // The sign for Kelvin.
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    str::from_utf8(key).is_ok_and(|key| {
        let name = name.chars().map(|character| character.to_ascii_lowercase());
        key.chars().map(folded).eq(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_as_go_folds_them() {
        for key in ["kinds", "KINDS", "Kinds", "\u{212a}ind\u{17f}"] {
            assert!(is_name(key.as_bytes(), "kinds"), "{key}");
        }
        for key in ["kind", "kindss", "kınds", "k\u{131}nds", ""] {
            assert!(!is_name(key.as_bytes(), "kinds"), "{key}");
        }
        assert!(is_name(b"X-Descriptors", "x-descriptors"));
        assert!(!is_name(b"\xff", "x"));
    }
}
