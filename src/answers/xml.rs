//! Text in XML documents: drawings and feeds.

/// A text as XML 1.0 may have it, in an element or an attribute. Line breaks stay;
/// characters that XML cannot have become U+FFFD.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push('\n'),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ if sign.is_control() => out.push('\u{fffd}'),
            _ => out.push(sign),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_in_xml() {
        assert_eq!(
            escaped("</a b='c' d=\"e\">&\u{0}\u{1b}\u{fffe}\né"),
            "&lt;/a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;\u{fffd}\u{fffd}\u{fffd}\né"
        );
    }
}
