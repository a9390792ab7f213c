//! Users and passwords, as `htpasswd -B` writes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::Cache;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, watch};

use crate::serve::net::credential::{CredentialError, Followed, lines};
use crate::serve::oci::rejection::OciRejection;

/// The accepted costs of hashes: each step doubles the time.
const COSTS: std::ops::RangeInclusive<u32> = 4..=15;
/// How many passwords are checked at once: each occupies a core for a while.
const CHECKS: usize = 2;
/// How long a check may wait for others.
const WAIT: Duration = Duration::from_secs(10);
/// How many valid passwords are cached, so that a pull of many blobs checks its
/// password once.
const CACHED: usize = 1024;
/// The longest password, in bytes. bcrypt ignores all after 72 bytes.
const MAX_PASSWORD: usize = 1024;
/// A hash that no known password has. It is checked for unknown users, so that they
/// take as long as others.
const NOBODY: &str = "$2y$10$abcdefghijklmnopqrstuu5p1mCFKYvXq9qbYcG2V8s4xkG5mJm7y";

/// The users in the files, each with the hash of the password.
#[derive(Default)]
pub struct Users(BTreeMap<String, String>);

/// Checks passwords. Cheap to clone.
#[derive(Clone)]
pub(super) struct Checker {
    users: watch::Receiver<Arc<Users>>,
    checks: Arc<Semaphore>,
    /// Digests of valid users and passwords.
    valid: Arc<Cache<[u8; 32], ()>>,
}

impl Checker {
    /// Reads the files. The returned [`Followed`] has to run for changed files to
    /// take effect.
    pub(super) fn open(paths: Vec<PathBuf>) -> Result<(Self, Followed<Users>), CredentialError> {
        let build = Box::new(Users::read);
        let (files, users) = Followed::open("users", "distribution", paths, build)?;
        let checker = Self {
            users,
            checks: Arc::new(Semaphore::new(CHECKS)),
            valid: Arc::new(Cache::new(CACHED)),
        };
        Ok((checker, files))
    }

    /// Whether this is the password of the user.
    pub(super) async fn check(&self, user: &str, password: &[u8]) -> Result<bool, OciRejection> {
        if password.len() > MAX_PASSWORD {
            return Ok(false);
        }
        let known = self.users.borrow().0.get(user).cloned();
        let exists = known.is_some();
        let hash = known.unwrap_or_else(|| NOBODY.to_owned());
        let pair: [u8; 32] = {
            // With the hash, so that a new password invalidates the entry.
            let mut digest = Sha256::new();
            for part in [hash.as_bytes(), user.as_bytes(), password] {
                digest.update((part.len() as u64).to_be_bytes());
                digest.update(part);
            }
            digest.finalize().into()
        };
        if exists && self.valid.get(&pair).is_some() {
            return Ok(true);
        }
        let permit = Arc::clone(&self.checks).acquire_owned();
        let permit = tokio::time::timeout(WAIT, permit).await;
        let permit = permit.map_err(|_| OciRejection::TooMany)?;
        let password = password.to_vec();
        let checked = tokio::task::spawn_blocking(move || {
            // Kept here: the check continues if the client disconnects.
            let _permit = permit;
            // The hash was parsed when it was read, so an error is a mismatch.
            bcrypt::verify(password, &hash).unwrap_or(false)
        });
        // A check that panics did not succeed.
        let valid = exists && checked.await.unwrap_or(false);
        if valid {
            self.valid.insert(pair, ());
        }
        Ok(valid)
    }
}

impl Users {
    /// Reads `USER:HASH`, one a line.
    fn read(paths: &[PathBuf], contents: &[Vec<u8>]) -> Result<Self, CredentialError> {
        let lines = lines(paths, contents);
        let users = lines.map(|(path, number, line)| user(path, number, line));
        Ok(Self(users.collect::<Result<_, _>>()?))
    }
}

fn user(path: &Path, line: usize, text: &[u8]) -> Result<(String, String), CredentialError> {
    let read = || {
        let (user, hash) = std::str::from_utf8(text).ok()?.split_once(':')?;
        let parts: bcrypt::HashParts = hash.parse().ok()?;
        let good = !user.is_empty() && COSTS.contains(&parts.get_cost());
        good.then(|| (user.to_owned(), hash.to_owned()))
    };
    read().ok_or_else(|| CredentialError::Line {
        path: path.to_owned(),
        line,
        wanted: "user with a bcrypt hash; `htpasswd -B` writes such",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_right_password_is_valid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        let hash = bcrypt::hash("s3cret", 4).unwrap();
        std::fs::write(&path, format!("# ours\n\nann:{hash}\n")).unwrap();
        let (checker, _files) = Checker::open(vec![path]).unwrap();
        for _ in 0..2 {
            assert!(checker.check("ann", b"s3cret").await.unwrap());
        }
        for (user, password) in [("ann", "s3cre"), ("bob", "s3cret"), ("", "")] {
            let good = checker.check(user, password.as_bytes()).await.unwrap();
            assert!(!good, "{user}");
        }
    }

    #[test]
    fn the_hash_for_unknown_users_can_be_checked() {
        assert!(!bcrypt::verify("", NOBODY).unwrap());
    }

    #[test]
    fn an_invalid_line_is_reported_by_number_without_its_text() {
        for line in [
            "ann",
            "ann:{SHA}s3cret",
            ":$2y$10$abcdefghijklmnopqrstuu5p1mCFKYvXq9qbYcG2V8s4xkG5mJm7y",
            "ann:$apr1$s3cret",
            "ann:$2y$31$abcdefghijklmnopqrstuu5p1mCFKYvXq9qbYcG2V8s4xkG5mJm7y",
        ] {
            let users = Users::read(&["users".into()], &[line.into()]);
            let error = users.err().unwrap().to_string();
            assert!(error.starts_with("line 1 of users"), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
