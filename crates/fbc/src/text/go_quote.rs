//! Texts in quotes, exactly as Go's `%q` writes them: clients compare messages.

use std::fmt::{self, Display, Formatter, Write as _};

/// A text in quotes. Characters that are not printable are escaped.
///
/// <https://pkg.go.dev/strconv#Quote>
pub struct Quoted<'a>(pub &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for sign in self.0.chars() {
            match sign {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\u{7}' => f.write_str("\\a")?,
                '\u{8}' => f.write_str("\\b")?,
                '\u{c}' => f.write_str("\\f")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\u{b}' => f.write_str("\\v")?,
                _ if is_seen(sign) => f.write_char(sign)?,
                '\0'..='\u{7f}' => write!(f, "\\x{:02x}", u32::from(sign))?,
                '\u{80}'..='\u{ffff}' => write!(f, "\\u{:04x}", u32::from(sign))?,
                _ => write!(f, "\\U{:08x}", u32::from(sign))?,
            }
        }
        f.write_char('"')
    }
}

/// Whether Go prints a sign: letters, marks, numbers, punctuation, symbols, and the
/// plain blank.
fn is_seen(sign: char) -> bool {
    if sign.is_ascii() {
        return matches!(sign, ' '..='~');
    }
    // Behind another sign, a mark is not escaped.
    let mut text = [0; 5];
    text[0] = b'a';
    let length = sign.encode_utf8(&mut text[1..]).len();
    let text = std::str::from_utf8(&text[..=length]).unwrap_or_default();
    text.escape_debug().count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_go_does() {
        for (text, wanted) in [
            ("", r#""""#),
            ("a b'`", r#""a b'`""#),
            ("\"\\", r#""\"\\""#),
            ("\u{7}\u{8}\u{c}\n\r\t\u{b}", r#""\a\b\f\n\r\t\v""#),
            ("\0\u{1}\u{1b}\u{7f}", r#""\x00\x01\x1b\x7f""#),
            (
                "\u{85}\u{a0}\u{200b}\u{feff}",
                r#""\u0085\u00a0\u200b\ufeff""#,
            ),
            (
                "\u{e000}\u{f0000}\u{e0001}",
                r#""\ue000\U000f0000\U000e0001""#,
            ),
            ("äé\u{301}語🧀", "\"äé\u{301}語🧀\""),
        ] {
            assert_eq!(Quoted(text).to_string(), wanted, "{text:?}");
        }
    }
}
