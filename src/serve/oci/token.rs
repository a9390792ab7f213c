//! Tokens of the Docker token flow: the catalogs that a client may pull for some
//! time, signed with a key of this process.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// How long a token is valid, in seconds.
pub(super) const LIFETIME: u64 = 300;
/// The longest token that is verified, in bytes.
const MAX_TOKEN: usize = 64 << 10;

/// The content of a token.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grant {
    /// The catalogs that may be pulled, by name.
    pub(super) catalogs: BTreeSet<String>,
    /// Its expiry, in seconds since 1970.
    until: u64,
}

/// Signs tokens.
pub(super) struct Signer([u8; 64]);

impl Signer {
    /// A signer with a new key; `None` if the system has no random numbers.
    pub(super) fn new() -> Option<Self> {
        let mut key = [0; 64];
        let provider = rustls::crypto::ring::default_provider();
        provider.secure_random.fill(&mut key).ok()?;
        Some(Self(key))
    }

    /// A token for these catalogs.
    ///
    /// # Errors
    /// Never in practice: names and a number always serialise.
    pub(super) fn sign(&self, catalogs: BTreeSet<String>) -> Result<String, serde_json::Error> {
        let until = now() + LIFETIME;
        let grant = Grant { catalogs, until };
        let payload = serde_json::to_vec(&grant)?;
        let payload = BASE64_URL_SAFE_NO_PAD.encode(payload);
        let signature = self.mac(&payload).finalize().into_bytes();
        let signature = BASE64_URL_SAFE_NO_PAD.encode(signature);
        Ok(format!("{payload}.{signature}"))
    }

    /// The content of a token that this process signed and that is valid.
    pub(super) fn read(&self, token: &[u8]) -> Option<Grant> {
        if token.len() > MAX_TOKEN {
            return None;
        }
        let (payload, signature) = std::str::from_utf8(token).ok()?.split_once('.')?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        // In constant time.
        self.mac(payload).verify_slice(&signature).ok()?;
        let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
        let grant: Grant = serde_json::from_slice(&payload).ok()?;
        (grant.until > now()).then_some(grant)
    }

    fn mac(&self, payload: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new(&self.0.into());
        mac.update(payload.as_bytes());
        mac
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unchanged_tokens_of_the_same_signer_are_valid() {
        let signer = Signer::new().unwrap();
        let catalogs = BTreeSet::from(["a".to_owned()]);
        let token = signer.sign(catalogs.clone()).unwrap();
        assert_eq!(signer.read(token.as_bytes()).unwrap().catalogs, catalogs);
        assert!(Signer::new().unwrap().read(token.as_bytes()).is_none());
        for (at, _) in token.char_indices() {
            let mut other = token.clone().into_bytes();
            other[at] ^= 1;
            assert!(signer.read(&other).is_none(), "{at}");
        }
        assert!(signer.read(b"").is_none());
        assert!(signer.read(b".").is_none());
    }

    #[test]
    fn a_token_expires() {
        let signer = Signer::new().unwrap();
        let grant = Grant {
            catalogs: BTreeSet::new(),
            until: now(),
        };
        let payload = BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(&grant).unwrap());
        let signature = signer.mac(&payload).finalize().into_bytes();
        let token = format!("{payload}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature));
        assert!(signer.read(token.as_bytes()).is_none());
    }
}
