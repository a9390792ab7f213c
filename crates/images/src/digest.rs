//! Content digests (`sha256:<64 hex>`, image-spec, descriptor).
//!
//! Other algorithms are rejected: registries and layouts use sha256 alone.

use std::fmt;
use std::io;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::display::clip;

/// A sha256 content digest.
///
/// ```
/// use images::Digest;
///
/// let digest = Digest::of(b"");
/// let text = digest.to_string();
/// assert!(text.starts_with("sha256:e3b0c442"));
/// assert_eq!(text.parse(), Ok(digest));
/// assert!("sha256:E3B0".parse::<Digest>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// Why a text is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// Another algorithm than sha256, or none.
    #[error("digest {0:?} is not a sha256 digest (sha256: and 64 hexadecimal digits)")]
    Algorithm(String),
    /// Not 64 lower-case hexadecimal digits.
    #[error("digest {0:?} does not have 64 lower-case hexadecimal digits after sha256:")]
    Hex(String),
}

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The 64 hexadecimal digits, without the algorithm: a file name.
    pub fn hex(&self) -> String {
        self.digits().map(char::from).iter().collect()
    }

    /// The 64 hexadecimal digits as ASCII bytes.
    pub fn digits(&self) -> [u8; 64] {
        digits(&self.0)
    }

    /// The first 32 hexadecimal digits as ASCII bytes.
    #[expect(clippy::inline_always, reason = "each response has an entity tag")]
    #[inline(always)]
    pub fn first_digits(&self) -> [u8; 32] {
        digits(&self.0)
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A digest from 32 bytes that were computed elsewhere.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// Whether a text is a digest in an algorithm of image-spec: sha256, sha384 or sha512.
pub(crate) fn is_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(algorithm, digits)| {
        let length = match algorithm {
            "sha256" => 64,
            "sha384" => 96,
            "sha512" => 128,
            _ => return false,
        };
        is_hexadecimal(digits, length)
    })
}

/// Whether a text has this many lower-case hexadecimal digits and nothing else.
pub(crate) fn is_hexadecimal(text: &str, length: usize) -> bool {
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == length && text.bytes().all(is_digit)
}

/// As many of the hexadecimal digits as fit.
#[expect(clippy::inline_always, reason = "the same")]
#[inline(always)]
fn digits<const COUNT: usize>(bytes: &[u8; 32]) -> [u8; COUNT] {
    // Computed instead of looked up: the compiler makes vector instructions of it.
    let digit = |nibble: u8| nibble + if nibble < 10 { b'0' } else { b'a' - 10 };
    let mut digits = [0; COUNT];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair[0] = digit(byte >> 4);
        pair[1] = digit(byte & 15);
    }
    digits
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        // Errors carry the text, so it is cut.
        let shown = || clip(text, 100);
        let hex = text
            .strip_prefix("sha256:")
            .ok_or_else(|| DigestError::Algorithm(shown()))?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).ok();
            // Another text than the digits of a digest differs from those below.
            *byte = pair
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
                .unwrap_or_default();
        }
        let digest = Self(bytes);
        if digest.digits() != hex.as_bytes() {
            return Err(DigestError::Hex(shown()));
        }
        Ok(digest)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        f.write_str(&self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Computes the digest and the size of bytes that arrive in pieces.
#[derive(Clone, Default)]
pub struct Hasher {
    hash: Sha256,
    size: u64,
}

impl Hasher {
    /// Adds the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.hash.update(piece);
        self.size += piece.len() as u64;
    }

    /// The number of bytes so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The digest of all pieces.
    pub fn finish(self) -> Digest {
        Digest(self.hash.finalize().into())
    }
}

/// Hashes all that is written.
impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_only_when_it_is_whole_and_lower_case() {
        let good = format!("sha256:{}", "0f".repeat(32));
        assert_eq!(good.parse::<Digest>().map(|d| d.to_string()), Ok(good));
        for bad in [
            String::new(),
            "sha256:".into(),
            format!("sha256:{}", "0F".repeat(32)),
            format!("sha256:{}", "0f".repeat(31)),
            format!("sha256:{}é", "0f".repeat(31)),
            format!("sha512:{}", "0f".repeat(64)),
            "0f".repeat(32),
        ] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }

    #[test]
    fn pieces_give_the_digest_of_the_whole() {
        let mut hasher = Hasher::default();
        hasher.update(b"ab");
        hasher.update(b"c");
        assert_eq!(hasher.size(), 3);
        assert_eq!(hasher.finish(), Digest::of(b"abc"));
    }
}
