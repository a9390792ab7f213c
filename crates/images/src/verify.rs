//! Verifying bytes that arrive in pieces against their descriptor.

use std::io::{self, Read};

use crate::digest::{Digest, Hasher};
use crate::manifest::Descriptor;

/// Compares pieces of some content with the size and digest of a descriptor.
pub struct Verifier {
    hasher: Hasher,
    digest: Digest,
    size: u64,
}

/// Content that does not match its descriptor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// More bytes than the descriptor says.
    #[error("{digest} is longer than its {size} bytes")]
    TooLong {
        /// The digest in the descriptor.
        digest: Digest,
        /// The size in the descriptor, in bytes.
        size: u64,
    },
    /// Fewer bytes than the descriptor says.
    #[error("{digest} ends after {actual} of {size} bytes")]
    TooShort {
        /// The digest in the descriptor.
        digest: Digest,
        /// The size in the descriptor, in bytes.
        size: u64,
        /// The number of received bytes.
        actual: u64,
    },
    /// The right size, but other bytes.
    #[error("the content of {digest} has the digest {actual}")]
    Digest {
        /// The digest in the descriptor.
        digest: Digest,
        /// The digest of the received bytes.
        actual: Digest,
    },
}

impl Verifier {
    /// A verifier for the content of `descriptor`.
    pub fn new(descriptor: &Descriptor) -> Self {
        Self {
            hasher: Hasher::default(),
            digest: descriptor.digest,
            size: descriptor.size,
        }
    }

    /// Adds the next piece. Fails at the first byte too many.
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

    /// The number of bytes so far.
    pub fn received(&self) -> u64 {
        self.hasher.size()
    }

    /// The number of missing bytes.
    pub fn missing(&self) -> u64 {
        self.size - self.hasher.size()
    }

    /// Checks that the pieces so far are the whole content.
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

/// A reader that verifies the bytes that pass through it. It reports the end
/// only if size and digest match. Otherwise it fails with
/// [`io::ErrorKind::InvalidData`], which contains a [`VerifyError`].
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
        let piece = buffer.get(..read);
        let piece = piece.ok_or_else(|| io::Error::other("the reader returned too many bytes"))?;
        let verified = if piece.is_empty() {
            self.verifier.finish()
        } else {
            self.verifier.update(piece)
        };
        verified.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &[u8], promised: &Descriptor) -> Result<Vec<u8>, VerifyError> {
        let mut bytes = Vec::new();
        match VerifiedReader::new(content, promised).read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(*error.into_inner().unwrap().downcast().unwrap()),
        }
    }

    #[test]
    fn matching_content_passes() {
        assert_eq!(
            read(b"abc", &Descriptor::new("", b"abc")),
            Ok(b"abc".to_vec())
        );
        assert_eq!(read(b"", &Descriptor::new("", b"")), Ok(Vec::new()));
    }

    #[test]
    fn other_content_fails() {
        let promised = Descriptor::new("", b"abc");
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
    fn the_first_byte_too_many_fails() {
        let mut verifier = Verifier::new(&Descriptor::new("", b"abc"));
        verifier.update(b"abc").unwrap();
        assert!(verifier.update(b"d").is_err());
    }
}
