//! Strings: the bytes that may be copied, the meaning of escapes, and the comparison of
//! keys.

use std::borrow::Cow;
use std::cmp::Ordering;

use wide::i8x32;

/// The character that the bytes begin with, if it is one.
pub(crate) fn character(bytes: &[u8]) -> Option<char> {
    let length = match bytes.first()? {
        0..0x80 => 1,
        0xc2..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf5 => 4,
        _ => return None,
    };
    str::from_utf8(bytes.get(..length)?).ok()?.chars().next()
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
pub(crate) fn compare_keys(a: &[u8], b: &[u8]) -> Ordering {
    unescape(a).as_bytes().cmp(unescape(b).as_bytes())
}

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

/// The number of bytes from the start that can be copied unchanged: they contain no
/// `"`, no `\`, no control characters, and only ASCII.
#[inline]
pub(crate) fn plain_run(bytes: &[u8]) -> usize {
    run(
        bytes,
        special,
        |byte| matches!(byte, b'"' | b'\\' | 0..0x20 | 0x80..),
    )
}

/// The number of bytes from the start that are neither `"` nor `\`.
#[inline]
pub(crate) fn quote_run(bytes: &[u8]) -> usize {
    run(bytes, quotes, |byte| matches!(byte, b'"' | b'\\'))
}

/// The number of bytes before the first that ends a run. `marks` finds such bytes in
/// a block, and `ends` in the rest.
#[inline]
fn run(bytes: &[u8], marks: impl Fn(i8x32) -> i8x32, ends: impl Fn(u8) -> bool) -> usize {
    let mut at = 0;
    while let Some(block) = bytes[at..].first_chunk() {
        let found = marks(signed(block)).to_bitmask();
        if found != 0 {
            return at + found.trailing_zeros() as usize;
        }
        at += BLOCK;
    }
    let rest = bytes[at..].iter().position(|&byte| ends(byte));
    at + rest.unwrap_or(bytes.len() - at)
}

/// The number of bytes that are checked together.
pub(crate) const BLOCK: usize = 32;

/// A bit for each byte that [`plain_run`] stops at.
#[inline]
pub(crate) fn specials(block: &[u8; BLOCK]) -> u32 {
    special(signed(block)).to_bitmask()
}

// A loop becomes two loads; `map` becomes a call.
#[inline]
fn signed(bytes: &[u8; BLOCK]) -> i8x32 {
    let mut signed = [0; BLOCK];
    for (to, from) in signed.iter_mut().zip(bytes) {
        *to = from.cast_signed();
    }
    i8x32::from(signed)
}

#[inline]
fn special(block: i8x32) -> i8x32 {
    // As signed numbers, bytes above those of ASCII are below zero.
    block.simd_lt(i8x32::splat(0x20)) | quotes(block)
}

#[inline]
fn quotes(block: i8x32) -> i8x32 {
    block.simd_eq(i8x32::splat(b'"'.cast_signed()))
        | block.simd_eq(i8x32::splat(b'\\'.cast_signed()))
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

    #[test]
    fn a_run_ends_at_the_first_byte_that_is_not_plain_wherever_it_stands() {
        for length in 0..120 {
            for (byte, quote) in [(b'"', true), (b'\\', true), (0xc3, false), (b'\n', false)] {
                let mut text = vec![b'a'; 130];
                text[length] = byte;
                assert_eq!(plain_run(&text), length);
                assert_eq!(quote_run(&text), if quote { length } else { 130 });
                assert_eq!(plain_run(&text[..length]), length);
                assert_eq!(quote_run(&text[..length]), length);
            }
        }
    }
}
