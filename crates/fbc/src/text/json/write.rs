//! Strings and numbers in JSON, as Go's encoder writes them. The readers of JSON and
//! YAML share these functions, so both write the same canonical bytes.

use std::io::Write as _;

/// A number beyond the range of a float64: its exponent is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the number is too large for a 64-bit float")]
pub(crate) struct NumberTooLarge;

/// The number of bytes that are searched together for characters to escape.
const BLOCK: usize = 32;
/// Integers of so many digits are held exactly by a float64.
const EXACT_DIGITS: usize = 15;
/// From this size on, Go writes floats with an exponent.
const LARGE: f64 = 1e21;
/// Below this size, Go writes floats with an exponent.
const SMALL: f64 = 1e-6;

/// Appends `text` as a JSON string with its quotes, escaped as by Go's encoder
/// without HTML escaping: short escapes if they exist, other control characters,
/// U+2028 and U+2029 as `\u` with lower-case digits, and everything else unchanged.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    write_string_part(out, text);
    out.push(b'"');
}

/// Appends `text` escaped as by [`write_string`], but without quotes: for a string in
/// several parts.
pub(crate) fn write_string_part(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut copied = 0;
    let mut from = 0;
    while let Some(at) = next_suspect(bytes, from) {
        let (code, length) = match bytes[at..] {
            [byte @ (0..0x20 | b'"' | b'\\'), ..] => (u32::from(byte), 1),
            // U+2028 and U+2029.
            [0xe2, 0x80, last @ (0xa8 | 0xa9), ..] => (0x2000 | u32::from(last & 0x3f), 3),
            _ => {
                from = at + 1;
                continue;
            }
        };
        out.extend_from_slice(&bytes[copied..at]);
        match short_escape(bytes[at]) {
            Some(letter) => out.extend_from_slice(&[b'\\', letter]),
            // Writing to a Vec cannot fail.
            None => drop(write!(out, "\\u{code:04x}")),
        }
        copied = at + length;
        from = copied;
    }
    out.extend_from_slice(&bytes[copied..]);
}

/// Appends a float as Go writes a float64 in JSON: the shortest digits that
/// give the same float, with an exponent below 1e-6 and from 1e21 on.
///
/// Infinities and NaN have no JSON form; callers refuse them. Here they become `null`.
pub(crate) fn write_float(out: &mut Vec<u8>, float: f64) {
    let size = float.abs();
    // Writing to a Vec cannot fail.
    let _ = if !float.is_finite() {
        out.write_all(b"null")
    } else if size != 0.0 && !(SMALL..LARGE).contains(&size) {
        let start = out.len();
        let written = write!(out, "{float:e}");
        sign_exponent(out, start);
        written
    } else {
        write!(out, "{float}")
    };
}

/// Appends a valid JSON number in canonical form.
///
/// An integer that no float64 holds exactly keeps its digits. Other integers are
/// written as Go writes that float, which differs from the digits only above 2^53. All
/// other numbers become the nearest float64, see [`write_float`].
pub(crate) fn write_number(out: &mut Vec<u8>, number: &str) -> Result<(), NumberTooLarge> {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let integer = digits.bytes().all(|byte| byte.is_ascii_digit());
    if integer && digits.len() <= EXACT_DIGITS {
        out.extend_from_slice(number.as_bytes());
        return Ok(());
    }
    let float: f64 = number.parse().map_err(|_| NumberTooLarge)?;
    if !float.is_finite() {
        return Err(NumberTooLarge);
    }
    if integer && !holds(out, float, number) {
        out.extend_from_slice(number.as_bytes());
    } else {
        write_float(out, float);
    }
    Ok(())
}

/// Whether `float` is exactly the integer `number`. Uses the end of `scratch` and
/// restores it.
fn holds(scratch: &mut Vec<u8>, float: f64, number: &str) -> bool {
    let start = scratch.len();
    let written = write!(scratch, "{float:.0}");
    let same = written.is_ok() && scratch.get(start..) == Some(number.as_bytes());
    scratch.truncate(start);
    same
}

/// Inserts the `+` into `1e21`: the number starts at `start` and ends with `out`.
fn sign_exponent(out: &mut Vec<u8>, start: usize) {
    if let Some(at) = out[start..].iter().position(|byte| *byte == b'e') {
        let after = start + at + 1;
        if out.get(after).is_some_and(|byte| *byte != b'-') {
            out.insert(after, b'+');
        }
    }
}

/// The letter that stands for a byte behind a backslash.
fn short_escape(byte: u8) -> Option<u8> {
    Some(match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => return None,
    })
}

/// The position of the next byte from `from` on that may need an escape.
fn next_suspect(bytes: &[u8], from: usize) -> Option<usize> {
    // Whole blocks without a branch per byte: the compiler makes vectors of it.
    let (blocks, rest) = bytes[from..].as_chunks::<BLOCK>();
    let clean = blocks
        .iter()
        .take_while(|block| !block.iter().fold(false, |any, byte| any | suspect(*byte)))
        .count();
    let start = from + clean * BLOCK;
    debug_assert!(clean < blocks.len() || start + rest.len() == bytes.len());
    bytes[start..]
        .iter()
        .position(|byte| suspect(*byte))
        .map(|at| start + at)
}

/// Whether a byte may begin a character that needs an escape. 0xE2 begins U+2028 and
/// U+2029, and many harmless characters.
#[expect(
    clippy::needless_bitwise_bool,
    reason = "branches would keep it from being vectors"
)]
fn suspect(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\') | (byte == 0xe2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn string(text: &str) -> String {
        let mut out = Vec::new();
        write_string(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    fn float(float: f64) -> String {
        let mut out = Vec::new();
        write_float(&mut out, float);
        String::from_utf8(out).unwrap()
    }

    fn number(text: &str) -> Result<String, NumberTooLarge> {
        let mut out = b"kept".to_vec();
        write_number(&mut out, text)?;
        let text = String::from_utf8(out).unwrap();
        Ok(text.strip_prefix("kept").unwrap().to_owned())
    }

    #[test]
    fn strings_are_escaped_as_go_does() {
        let table = [
            ("", r#""""#),
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\n\r\t\u{8}\u{c}", r#""\n\r\t\b\f""#),
            ("\0\u{1}\u{1f}\u{7f}", "\"\\u0000\\u0001\\u001f\u{7f}\""),
            ("<>&'/", r#""<>&'/""#),
            (
                "\u{2027}\u{2028}\u{2029}\u{202a}",
                "\"\u{2027}\\u2028\\u2029\u{202a}\"",
            ),
            ("é😀", "\"é😀\""),
        ];
        for (text, expected) in table {
            assert_eq!(string(text), expected);
        }
    }

    #[test]
    fn floats_are_written_as_go_does() {
        let table = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (-1.25e-9, "-1.25e-9"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (12_345_678_901_234_567_890.0, "12345678901234567000"),
        ];
        for (value, expected) in table {
            assert_eq!(float(value), expected);
        }
    }

    #[test]
    fn numbers_keep_the_digits_that_no_float_holds() {
        let table = [
            ("0", "0"),
            ("-0", "-0"),
            ("-0.0", "-0"),
            ("1.50", "1.5"),
            ("1e3", "1000"),
            ("1E+3", "1000"),
            ("999999999999999", "999999999999999"),
            ("9007199254740992", "9007199254740992"),
            ("9007199254740993", "9007199254740993"),
            ("-9007199254740993", "-9007199254740993"),
            ("12345678901234567890", "12345678901234567890"),
            ("9223372036854775808", "9223372036854776000"),
            ("10000000000000000000000", "1e+22"),
            ("100000000000000000000000", "100000000000000000000000"),
            ("1e-07", "1e-7"),
            ("1e-400", "0"),
        ];
        for (text, expected) in table {
            assert_eq!(number(text).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(number("1e400"), Err(NumberTooLarge));
        assert_eq!(number(&"9".repeat(400)), Err(NumberTooLarge));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_string_reads_back_as_it_was(text in any::<String>()) {
            prop_assert_eq!(serde_json::from_str::<String>(&string(&text)).unwrap(), text);
        }

        #[test]
        fn a_float_reads_back_as_it_was(value in any::<f64>()) {
            prop_assume!(value.is_finite());
            prop_assert_eq!(float(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
        }
    }
}
