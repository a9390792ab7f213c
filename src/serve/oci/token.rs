//! Tokens of the Docker token flow: the repositories that a client may pull for some
//! time, signed with a key of this process.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use serde::{Deserialize, Serialize};

/// How long a token is valid, in seconds.
pub(super) const LIFETIME: u64 = 300;
/// The longest token that is verified, in bytes.
const MAX_TOKEN: usize = 64 << 10;

/// The catalogs that may be pulled, by the name of the repository that was asked for.
pub(super) type Repositories = BTreeMap<String, BTreeSet<String>>;

/// The content of a token.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grant {
    repositories: Repositories,
    /// Whether it was given for valid credentials.
    pub(super) known: bool,
    /// Its expiry, in seconds since 1970.
    until: u64,
}

impl Grant {
    /// Whether a catalog may be pulled under this name of a repository.
    pub(super) fn allows(&self, repository: &str, catalog: &str) -> bool {
        let catalogs = self.repositories.get(repository);
        catalogs.is_some_and(|catalogs| catalogs.contains(catalog))
    }
}

/// Signs tokens.
pub(super) struct Signer(hmac::Key);

impl Signer {
    /// A signer with a new key; `None` if the system has no random numbers.
    pub(super) fn new() -> Option<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        key.ok().map(Self)
    }

    /// A token for these repositories; `known` says whether the client has valid
    /// credentials.
    ///
    /// # Errors
    /// Never in practice: names and a number always serialise.
    pub(super) fn sign(
        &self,
        repositories: Repositories,
        known: bool,
    ) -> Result<String, serde_json::Error> {
        let grant = Grant {
            repositories,
            known,
            until: now() + LIFETIME,
        };
        let payload = serde_json::to_vec(&grant)?;
        let payload = BASE64_URL_SAFE_NO_PAD.encode(payload);
        let signature = hmac::sign(&self.0, payload.as_bytes());
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
        hmac::verify(&self.0, payload.as_bytes(), &signature).ok()?;
        let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
        let grant: Grant = serde_json::from_slice(&payload).ok()?;
        (grant.until > now()).then_some(grant)
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
        let repositories = BTreeMap::from([("b/c".to_owned(), catalogs)]);
        let token = signer.sign(repositories, true).unwrap();
        let grant = signer.read(token.as_bytes()).unwrap();
        assert!(grant.known && grant.allows("b/c", "a"));
        // Another name of the catalog was not asked for.
        assert!(!grant.allows("a", "a") && !grant.allows("b/c", "b"));
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
            repositories: BTreeMap::new(),
            known: true,
            until: now(),
        };
        let payload = BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(&grant).unwrap());
        let signature = hmac::sign(&signer.0, payload.as_bytes());
        let token = format!("{payload}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature));
        assert!(signer.read(token.as_bytes()).is_none());
    }
}
