//! Tokens of the Docker token flow: the repositories that a client may pull for some
//! time, signed with a key of this process, or with one that several replicas share.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::serve::net::credential::{CredentialError, Followed};

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

/// The shortest key in a file, in bytes: as many as the signature has.
const MIN_KEY: usize = 32;

/// The keys of tokens: the first one signs, all verify.
pub struct TokenKeys(Vec<hmac::Key>);

impl TokenKeys {
    /// One key a file. Blanks around it do not count.
    fn read(paths: &[PathBuf], contents: &[Vec<u8>]) -> Result<Self, CredentialError> {
        let keys = paths.iter().zip(contents).map(|(path, content)| {
            let key = content.trim_ascii();
            if key.len() >= MIN_KEY {
                return Ok(hmac::Key::new(hmac::HMAC_SHA256, key));
            }
            Err(CredentialError::Line {
                path: path.clone(),
                line: 1,
                wanted: "key of at least 32 bytes, such as the output of `openssl rand -hex 32`",
            })
        });
        Ok(Self(keys.collect::<Result<_, _>>()?))
    }
}

/// Signs tokens.
pub(super) struct Signer(watch::Receiver<Arc<TokenKeys>>);

impl Signer {
    /// A signer with a new key; `None` if the system has no random numbers.
    pub(super) fn new() -> Option<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        // The key stays the same, so the sender is dropped.
        let (_, keys) = watch::channel(Arc::new(TokenKeys(vec![key.ok()?])));
        Some(Self(keys))
    }

    /// A signer with the keys of files. The returned [`Followed`] has to run for changed
    /// files to take effect.
    pub(super) fn of_files(
        paths: Vec<PathBuf>,
    ) -> Result<(Self, Followed<TokenKeys>), CredentialError> {
        let build = Box::new(TokenKeys::read);
        let (files, keys) = Followed::open("token_keys", "distribution", paths, build)?;
        Ok((Self(keys), files))
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
        let keys = Arc::clone(&self.0.borrow());
        // There is always one: a list of no files makes a key of its own.
        let signature = keys
            .0
            .first()
            .map(|key| hmac::sign(key, payload.as_bytes()));
        let signature = signature.map_or(String::new(), |tag| BASE64_URL_SAFE_NO_PAD.encode(tag));
        Ok(format!("{payload}.{signature}"))
    }

    /// The content of a token that was signed with one of the keys and that is valid.
    pub(super) fn read(&self, token: &[u8]) -> Option<Grant> {
        if token.len() > MAX_TOKEN {
            return None;
        }
        let (payload, signature) = std::str::from_utf8(token).ok()?.split_once('.')?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        // In constant time.
        let keys = Arc::clone(&self.0.borrow());
        let verified = |key| hmac::verify(key, payload.as_bytes(), &signature).is_ok();
        keys.0.iter().any(verified).then_some(())?;
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
    fn replicas_with_the_same_keys_take_the_tokens_of_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, key: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, key).unwrap();
            path
        };
        let (old, new) = (file("old", &"o".repeat(32)), file("new", &"n".repeat(32)));
        let signer = |paths: &[&PathBuf]| {
            let paths = paths.iter().copied().cloned().collect();
            Signer::of_files(paths).unwrap().0
        };
        let sign = |signer: &Signer| signer.sign(BTreeMap::new(), true).unwrap();
        let (first, second) = (signer(&[&old]), signer(&[&old, &new]));
        // While a key is replaced, both are known before the new one signs.
        let third = signer(&[&new, &old]);
        for (from, to, valid) in [
            (&first, &second, true),
            (&second, &first, true),
            (&third, &second, true),
            (&third, &first, false),
        ] {
            let token = sign(from);
            assert_eq!(to.read(token.as_bytes()).is_some(), valid);
        }
        // The line end of a file is no part of its key.
        let ended = file("ended", &format!("{}\n", "o".repeat(32)));
        assert!(signer(&[&ended]).read(sign(&first).as_bytes()).is_some());
        let short = file("short", &"s".repeat(31));
        let refused = Signer::of_files(vec![short]).err().unwrap().to_string();
        assert!(
            refused.contains("32 bytes") && !refused.contains("sss"),
            "{refused}"
        );
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
        let signature = hmac::sign(&signer.0.borrow().0[0], payload.as_bytes());
        let token = format!("{payload}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature));
        assert!(signer.read(token.as_bytes()).is_none());
    }
}
