//! Holding bytes that come in pieces against their descriptor.

use std::io::{self, Read};

use crate::digest::{Digest, Hasher};
use crate::manifest::Descriptor;

/// Takes the pieces of some content and tells whether they are what the
/// descriptor promised.
pub struct Verifier {
    hasher: Hasher,
    digest: Digest,
    size: u64,
}

/// Content that is not what its descriptor promised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// More bytes than promised.
    #[error("{digest} is longer than its {size} bytes")]
    TooLong {
        /// What was read.
        digest: Digest,
        /// The promised size in bytes.
        size: u64,
    },
    /// Fewer bytes than promised.
    #[error("{digest} ends after {actual} of {size} bytes")]
    TooShort {
        /// What was read.
        digest: Digest,
        /// The promised size in bytes.
        size: u64,
        /// The bytes that came.
        actual: u64,
    },
    /// The promised size, but other bytes.
    #[error("the content of {digest} has the digest {actual}")]
    Digest {
        /// What was read.
        digest: Digest,
        /// The digest of what came.
        actual: Digest,
    },
}

impl Verifier {
    /// A verifier of what `descriptor` describes.
    pub fn new(descriptor: &Descriptor) -> Self {
        Self {
            hasher: Hasher::default(),
            digest: descriptor.digest,
            size: descriptor.size,
        }
    }

    /// Takes the next piece; fails as soon as there are too many bytes.
    pub fn update(&mut self, piece: &[u8]) -> Result<(), VerifyError> {
        if piece.len() as u64 > self.size - self.hasher.size() {
            return Err(VerifyError::TooLong {
                digest: self.digest,
                size: self.size,
            });
        }
        self.hasher.update(piece);
        Ok(())
    }

    /// How many bytes came so far.
    pub fn received(&self) -> u64 {
        self.hasher.size()
    }

    /// How many bytes are missing.
    pub fn missing(&self) -> u64 {
        self.size - self.hasher.size()
    }

    /// Whether the pieces so far are the whole content.
    pub fn finish(&self) -> Result<(), VerifyError> {
        let actual = self.hasher.size();
        if actual < self.size {
            return Err(VerifyError::TooShort {
                digest: self.digest,
                size: self.size,
                actual,
            });
        }
        let actual = self.hasher.clone().finish();
        if actual != self.digest {
            return Err(VerifyError::Digest {
                digest: self.digest,
                actual,
            });
        }
        Ok(())
    }
}

/// A reader that verifies what passes through it: it reports the end only when
/// size and digest hold, and fails with [`io::ErrorKind::InvalidData`] (around
/// a [`VerifyError`]) otherwise.
pub struct VerifiedReader<R> {
    inner: R,
    verifier: Verifier,
}

impl<R: Read> VerifiedReader<R> {
    /// Verifies `inner` against `descriptor`.
    pub fn new(inner: R, descriptor: &Descriptor) -> Self {
        Self {
            inner,
            verifier: Verifier::new(descriptor),
        }
    }
}

impl<R: Read> Read for VerifiedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let read = self.inner.read(buffer)?;
        let verified = if read == 0 {
            self.verifier.finish()
        } else {
            self.verifier.update(buffer.get(..read).unwrap_or_default())
        };
        verified.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(content: &[u8]) -> Descriptor {
        Descriptor {
            media_type: String::new(),
            digest: Digest::of(content),
            size: content.len() as u64,
        }
    }

    fn read(content: &[u8], promised: &Descriptor) -> Result<Vec<u8>, VerifyError> {
        let mut bytes = Vec::new();
        match VerifiedReader::new(content, promised).read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(*error.into_inner().unwrap().downcast().unwrap()),
        }
    }

    #[test]
    fn what_was_promised_passes() {
        assert_eq!(read(b"abc", &descriptor(b"abc")), Ok(b"abc".to_vec()));
        assert_eq!(read(b"", &descriptor(b"")), Ok(Vec::new()));
    }

    #[test]
    fn anything_else_fails() {
        let promised = descriptor(b"abc");
        assert!(matches!(
            read(b"abcd", &promised),
            Err(VerifyError::TooLong { .. })
        ));
        assert!(matches!(
            read(b"ab", &promised),
            Err(VerifyError::TooShort { actual: 2, .. })
        ));
        assert!(matches!(
            read(b"abd", &promised),
            Err(VerifyError::Digest { .. })
        ));
        assert!(matches!(
            read(b"", &promised),
            Err(VerifyError::TooShort { .. })
        ));
    }

    #[test]
    fn a_piece_too_much_stops_it_at_once() {
        let mut verifier = Verifier::new(&descriptor(b"abc"));
        verifier.update(b"abc").unwrap();
        assert!(verifier.update(b"d").is_err());
    }
}
