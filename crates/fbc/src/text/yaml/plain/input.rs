//! The check for documents that can be read without the parser.

use crate::text::yaml::input::tag_like_commas;

/// The number of bytes that are checked together.
const BLOCK: usize = 64;

/// The text of a document that is UTF-8 and holds nothing but ordinary
/// characters: no control characters, no line ends but LF and CRLF, no byte
/// order marks, and nothing that looks like a tag before a comma, which
/// [`checked`](crate::text::yaml::input::checked) treats in a way of its own.
pub(crate) fn acceptable(document: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(document).ok()?;
    let (blocks, rest) = document.as_chunks::<BLOCK>();
    let mut start = 0;
    for block in blocks {
        // Without a branch per byte: the compiler makes vectors of it.
        if block.iter().fold(false, |any, byte| any | suspect(*byte))
            && !are_ordinary(document, start, start + BLOCK)
        {
            return None;
        }
        start += BLOCK;
    }
    debug_assert_eq!(start + rest.len(), document.len());
    if !are_ordinary(document, start, document.len()) {
        return None;
    }
    tag_like_commas(document).is_empty().then_some(text)
}

/// Whether a byte may be or begin a character that is not ordinary.
#[expect(
    clippy::needless_bitwise_bool,
    reason = "branches would keep it from being vectors"
)]
fn suspect(byte: u8) -> bool {
    ((byte < 0x20) & (byte != b'\n'))
        | (byte == 0x7f)
        | (byte == 0xc2)
        | (byte == 0xe2)
        | (byte == 0xef)
}

/// Whether the characters that begin in a range of the document are ordinary.
fn are_ordinary(document: &[u8], start: usize, end: usize) -> bool {
    (start..end).all(|at| match document.get(at..).unwrap_or_default() {
        [b'\n' | b'\t', ..] | [b'\r', b'\n', ..] => true,
        [0..0x20 | 0x7f, ..]
        // To U+009F, among them U+0085, a line end.
        | [0xc2, 0x80..=0x9f, ..]
        // U+2028 and U+2029, line ends.
        | [0xe2, 0x80, 0xa8 | 0xa9, ..]
        // U+FEFF, U+FFFE and U+FFFF.
        | [0xef, 0xbb, 0xbf, ..]
        | [0xef, 0xbf, 0xbe | 0xbf, ..] => false,
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ordinary_text_is_accepted() {
        for text in ["", "a: b\n\tc\r\n", "é“”😀\u{a0}\u{2027}\u{fffd}", "so!, a"] {
            for before in [0, 1, 60, 63, 64, 200] {
                let padded = "x".repeat(before) + text;
                let expected = text != "so!, a";
                assert_eq!(
                    acceptable(padded.as_bytes()).is_some(),
                    expected,
                    "{text:?}"
                );
            }
        }
        for text in [
            "\0", "\u{1b}", "\u{7f}", "\r", "a\rb", "\r\r\n", "\u{80}", "\u{85}", "\u{9f}",
            "\u{2028}", "\u{2029}", "\u{feff}", "\u{fffe}", "\u{ffff}",
        ] {
            for before in [0, 1, 61, 62, 63, 64, 200] {
                for after in ["", "\t", &"x".repeat(100)] {
                    let padded = "x".repeat(before) + text + after;
                    assert_eq!(acceptable(padded.as_bytes()), None, "{padded:?}");
                }
            }
        }
        assert_eq!(acceptable(b"a\xff"), None);
    }
}
