//! Bearer tokens. They are kept and compared as digests.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

use crate::serve::net::credential::{CredentialError, lines};

/// Digests of the tokens of a catalog.
#[derive(Default)]
pub struct Tokens(Vec<[u8; 32]>);

impl Tokens {
    /// Reads files with one token a line.
    pub(super) fn read(paths: &[PathBuf], contents: &[Vec<u8>]) -> Result<Self, CredentialError> {
        let lines = lines(paths, contents);
        let tokens = lines.map(|(path, number, line)| token(path, number, line));
        Ok(Self(tokens.collect::<Result<_, _>>()?))
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is one of the tokens, in constant time.
    pub(super) fn contain(&self, given: &[u8]) -> bool {
        let given: [u8; 32] = Sha256::digest(given).into();
        let mut found = Choice::from(0);
        for token in &self.0 {
            found |= token.ct_eq(&given);
        }
        found.into()
    }
}

/// The digest of a token (`b64token` of RFC 6750, section 2.1).
fn token(path: &Path, line: usize, token: &[u8]) -> Result<[u8; 32], CredentialError> {
    let good = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
    if token.iter().all(good) {
        return Ok(Sha256::digest(token).into());
    }
    Err(CredentialError::Line {
        path: path.to_owned(),
        line,
        wanted: "bearer token: letters, digits and -._~+/= are",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &str) -> Result<Tokens, String> {
        let paths = [PathBuf::from("tokens")];
        Tokens::read(&paths, &[content.into()]).map_err(|error| error.to_string())
    }

    #[test]
    fn only_a_whole_token_matches() {
        let tokens = read("# ours\n\nfirst-token\r\n  second.Token== \n").unwrap();
        for (given, wanted) in [
            ("first-token", true),
            ("second.Token==", true),
            ("first-toke", false),
            ("first-token2", false),
            ("", false),
            ("# ours", false),
        ] {
            assert_eq!(tokens.contain(given.as_bytes()), wanted, "{given}");
        }
        assert!(!read("").unwrap().contain(b""));
    }

    #[test]
    fn an_invalid_line_is_reported_by_number_without_its_text() {
        let error = read("good\nnot a s3cret\n").err().unwrap();
        assert!(error.starts_with("line 2 of tokens"), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
}
