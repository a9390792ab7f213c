//! Users and passwords, as `htpasswd -B` writes them.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, watch};

use crate::serve::net::credential::{CredentialError, Followed};
use crate::serve::oci::refusal::Refusal;

/// The costs of hashes that are taken: each step doubles the time.
const COSTS: std::ops::RangeInclusive<u32> = 4..=15;
/// How many passwords are checked at once: that takes a core for a while.
const CHECKS: usize = 2;
/// How long a client may wait for its turn.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many good pairs are remembered, so that a pull of many blobs is not a
/// check of many passwords.
const REMEMBERED: usize = 1024;
/// The longest password; what is behind 72 bytes never counted for bcrypt.
const MAX_PASSWORD: usize = 1024;
/// A hash of something that nobody knows: checked for users that are not there,
/// so that they take as long as others.
const NOBODY: &str = "$2y$10$abcdefghijklmnopqrstuu5p1mCFKYvXq9qbYcG2V8s4xkG5mJm7y";

/// What is in the files: users, each with a hash.
#[derive(Default)]
pub struct Users(BTreeMap<String, String>);

/// Checks passwords. Cheap to clone.
#[derive(Clone)]
pub(super) struct Checker {
    users: watch::Receiver<Arc<Users>>,
    turns: Arc<Semaphore>,
    remembered: Arc<Mutex<HashSet<[u8; 32]>>>,
}

impl Checker {
    /// Reads the files. What is returned beside has to be followed for new
    /// ones to count.
    pub(super) fn open(paths: Vec<PathBuf>) -> Result<(Self, Followed<Users>), CredentialError> {
        let build = {
            let paths = paths.clone();
            move |contents: &[Vec<u8>]| Users::read(&paths, contents)
        };
        let (files, users) = Followed::open("users", "distribution", paths, Box::new(build))?;
        let checker = Self {
            users,
            turns: Arc::new(Semaphore::new(CHECKS)),
            remembered: Arc::default(),
        };
        Ok((checker, files))
    }

    /// Whether this is the password of the user.
    pub(super) async fn check(&self, user: &str, password: &[u8]) -> Result<bool, Refusal> {
        if password.len() > MAX_PASSWORD {
            return Ok(false);
        }
        let known = self.users.borrow().0.get(user).cloned();
        let there = known.is_some();
        let hash = known.unwrap_or_else(|| NOBODY.to_owned());
        let pair: [u8; 32] = {
            // The hash is part of it: with another password it is another pair.
            let mut digest = Sha256::new();
            for part in [hash.as_bytes(), user.as_bytes(), password] {
                digest.update((part.len() as u64).to_be_bytes());
                digest.update(part);
            }
            digest.finalize().into()
        };
        if there && self.remembered().contains(&pair) {
            return Ok(true);
        }
        let turn = Arc::clone(&self.turns).acquire_owned();
        let turn = tokio::time::timeout(PATIENCE, turn).await;
        let turn = turn.map_err(|_| Refusal::TooMany)?;
        let password = password.to_vec();
        let checked = tokio::task::spawn_blocking(move || {
            // Kept here: the check goes on when the client goes away.
            let _turn = turn;
            bcrypt::verify(password, &hash).unwrap_or(false)
        });
        let good = there && checked.await.unwrap_or(false);
        if good {
            let mut remembered = self.remembered();
            if remembered.len() >= REMEMBERED {
                remembered.clear();
            }
            remembered.insert(pair);
        }
        Ok(good)
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, HashSet<[u8; 32]>> {
        self.remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Users {
    /// `USER:HASH`, one a line; lines that are empty or begin with `#` do not
    /// count.
    fn read(paths: &[PathBuf], contents: &[Vec<u8>]) -> Result<Self, CredentialError> {
        let mut users = BTreeMap::new();
        for (path, content) in paths.iter().zip(contents) {
            for (at, line) in content.split(|&byte| byte == b'\n').enumerate() {
                let line = line.trim_ascii();
                if line.is_empty() || line.starts_with(b"#") {
                    continue;
                }
                let (user, hash) = user(path, at + 1, line)?;
                users.insert(user, hash);
            }
        }
        Ok(Self(users))
    }
}

fn user(path: &Path, line: usize, text: &[u8]) -> Result<(String, String), CredentialError> {
    let read = || {
        let (user, hash) = std::str::from_utf8(text).ok()?.split_once(':')?;
        let parts: bcrypt::HashParts = hash.parse().ok()?;
        let good = !user.is_empty() && COSTS.contains(&parts.get_cost());
        good.then(|| (user.to_owned(), hash.to_owned()))
    };
    read().ok_or_else(|| CredentialError::User {
        path: path.to_owned(),
        line,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_user_is_known_by_the_password() {
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
    fn nobody_is_a_hash_that_can_be_checked() {
        assert!(!bcrypt::verify("", NOBODY).unwrap());
    }

    #[test]
    fn a_line_that_is_no_user_is_named_and_not_shown() {
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
