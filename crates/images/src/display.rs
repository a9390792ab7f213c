//! Texts from elsewhere in messages.

/// The first `limit` characters of a text, and `…` if there are more.
pub(crate) fn clip(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_ends_with_an_ellipsis() {
        assert_eq!(clip("aéé", 3), "aéé");
        assert_eq!(clip("aééé", 3), "aéé…");
        assert_eq!(clip("", 0), "");
    }
}
