//! What a string is made of: which bytes may be copied, what escapes mean.

use std::borrow::Cow;
use std::cmp::Ordering;

use wide::u8x32;

/// The input as UTF-8, every byte that is not replaced by U+FFFD as Go's JSON
/// reader does.
pub fn valid_utf8(input: &[u8]) -> Cow<'_, [u8]> {
    if is_utf8(input) {
        return Cow::Borrowed(input);
    }
    let mut out = Vec::with_capacity(input.len() + 64);
    let mut rest = input;
    while !rest.is_empty() {
        match std::str::from_utf8(rest) {
            Ok(_) => {
                out.extend_from_slice(rest);
                break;
            }
            Err(error) => {
                let (good, bad) = rest.split_at(error.valid_up_to());
                out.extend_from_slice(good);
                out.extend_from_slice("\u{fffd}".as_bytes());
                rest = &bad[1..];
            }
        }
    }
    Cow::Owned(out)
}

/// Faster than to validate all of it: most of a catalog is ASCII.
fn is_utf8(input: &[u8]) -> bool {
    let mut at = 0;
    while let Some(rest) = input.get(at..).filter(|rest| !rest.is_empty()) {
        let mut length = rest.len().min(4096);
        if !rest[..length].is_ascii() {
            // Not within a character.
            let more = rest[length..].iter().take(3);
            length += more.take_while(|byte| **byte & 0xc0 == 0x80).count();
            if std::str::from_utf8(&rest[..length]).is_err() {
                return false;
            }
        }
        at += length;
    }
    true
}

/// The text of a canonical JSON string (given without its quotes).
pub fn unescape(raw: &[u8]) -> Cow<'_, str> {
    if !raw.contains(&b'\\') {
        return String::from_utf8_lossy(raw);
    }
    let mut quoted = Vec::with_capacity(raw.len() + 2);
    quoted.push(b'"');
    quoted.extend_from_slice(raw);
    quoted.push(b'"');
    // The reader wrote this text, so it always parses.
    Cow::Owned(serde_json::from_slice(&quoted).unwrap_or_default())
}

/// Compares two keys as the texts that they stand for.
pub(super) fn compare_keys(a: &[u8], b: &[u8]) -> Ordering {
    unescape(a).as_bytes().cmp(unescape(b).as_bytes())
}

/// How many bytes from the start can be copied as they are: none of `"`, `\`,
/// a control character, or E2 (which may begin U+2028).
#[inline]
pub(super) fn plain_run(bytes: &[u8]) -> usize {
    run(bytes, special, |byte| {
        matches!(byte, b'"' | b'\\' | 0xe2 | 0..0x20)
    })
}

/// How many bytes from the start are neither `"` nor `\`.
#[inline]
pub(in crate::fbc) fn quote_run(bytes: &[u8]) -> usize {
    run(bytes, quotes, |byte| matches!(byte, b'"' | b'\\'))
}

/// How many bytes come before the first that ends a run. `block` marks those
/// that do.
#[inline]
fn run(bytes: &[u8], block: impl Fn(u8x32) -> u8x32, ends: impl Fn(u8) -> bool) -> usize {
    let mut at = 0;
    while let Some(chunk) = bytes[at..].first_chunk::<32>() {
        let found = block(u8x32::from(*chunk)).to_bitmask();
        if found != 0 {
            return at + found.trailing_zeros() as usize;
        }
        at += chunk.len();
    }
    let rest = bytes[at..].iter().position(|&byte| ends(byte));
    at + rest.unwrap_or(bytes.len() - at)
}

#[inline]
fn special(block: u8x32) -> u8x32 {
    let controls = block.min(u8x32::splat(0x1f)).simd_eq(block);
    controls | block.simd_eq(u8x32::splat(0xe2)) | quotes(block)
}

#[inline]
fn quotes(block: u8x32) -> u8x32 {
    block.simd_eq(u8x32::splat(b'"')) | block.simd_eq(u8x32::splat(b'\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_at_the_first_byte_that_is_not_plain_wherever_it_stands() {
        for length in 0..120 {
            for (byte, quote) in [(b'"', true), (b'\\', true), (0xe2, false), (b'\n', false)] {
                let mut text = vec![b'a'; 130];
                text[length] = byte;
                assert_eq!(plain_run(&text), length);
                assert_eq!(quote_run(&text), if quote { length } else { 130 });
                assert_eq!(plain_run(&text[..length]), length);
                assert_eq!(quote_run(&text[..length]), length);
                // Bytes above those of ASCII are plain.
                text[..length].fill(0xc3);
                assert_eq!(plain_run(&text), length);
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_become_replacement_characters() {
        assert_eq!(valid_utf8(b"a\xff\xfeb"), "a\u{fffd}\u{fffd}b".as_bytes());
        for length in 4090..4100 {
            let mut text = "a".repeat(length) + "\u{10000}bä";
            assert_eq!(valid_utf8(text.as_bytes()), text.as_bytes());
            text.push('a');
            let mut bytes = text.into_bytes();
            bytes.push(0x80);
            assert!(valid_utf8(&bytes).ends_with("äa\u{fffd}".as_bytes()));
        }
    }
}
