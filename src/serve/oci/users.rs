//! Users and passwords, as `htpasswd -B` writes them.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::Cache;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::serve::net::credential::{CredentialError, Followed, lines};
use crate::serve::oci::rejection::OciRejection;
use crate::serve::oci::turns::Turns;

/// The accepted costs of hashes: each step doubles the time.
const COSTS: RangeInclusive<u32> = 4..=15;
/// How many passwords are checked at once: each occupies a core for a while.
const CHECKS: usize = 2;
/// How long a check may wait for others.
const WAIT: Duration = Duration::from_secs(10);
/// How many valid passwords are cached, so that a pull of many blobs checks its
/// password once.
const CACHED: usize = 1024;
/// The longest password, in bytes. bcrypt ignores all after 72 bytes.
const MAX_PASSWORD: usize = 1024;
/// Salt and hash of no known password.
const NOBODY: &str = "abcdefghijklmnopqrstuu5p1mCFKYvXq9qbYcG2V8s4xkG5mJm7y";

/// The users in the files.
#[derive(Default)]
pub struct Users {
    passwords: BTreeMap<String, Password>,
    /// The highest cost of their hashes.
    highest: u32,
}

/// The password of a user.
struct Password {
    hash: String,
    cost: u32,
}

/// Checks passwords. Cheap to clone.
#[derive(Clone)]
pub(super) struct Checker {
    users: watch::Receiver<Arc<Users>>,
    turns: Turns,
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
            turns: Turns::new(CHECKS),
            valid: Arc::new(Cache::new(CACHED)),
        };
        Ok((checker, files))
    }

    /// Whether this is the password of the user, as a client at this address says.
    pub(super) async fn check(
        &self,
        user: &str,
        password: &[u8],
        peer: Option<IpAddr>,
    ) -> Result<bool, OciRejection> {
        if password.len() > MAX_PASSWORD {
            return Ok(false);
        }
        let users = Arc::clone(&self.users.borrow());
        let pair = users.passwords.get(user).map(|known| {
            // With the hash, so that a new password invalidates the entry.
            let mut digest = Sha256::new();
            for part in [known.hash.as_bytes(), user.as_bytes(), password] {
                digest.update((part.len() as u64).to_be_bytes());
                digest.update(part);
            }
            <[u8; 32]>::from(digest.finalize())
        });
        let is_valid = || pair.is_some_and(|pair| self.valid.get(&pair).is_some());
        if is_valid() {
            return Ok(true);
        }
        let turn = tokio::time::timeout(WAIT, self.turns.take(peer)).await;
        let turn = turn.map_err(|_| OciRejection::TooMany)?;
        // Another request of this client may have had its turn before.
        if is_valid() {
            return Ok(true);
        }
        let (user, password) = (user.to_owned(), password.to_vec());
        let checked = tokio::task::spawn_blocking(move || {
            // Kept here: the check continues if the client disconnects.
            let _turn = turn;
            users.check(&user, &password)
        });
        // A check that panics did not succeed.
        let valid = checked.await.unwrap_or(false);
        if let Some(pair) = pair.filter(|_| valid) {
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
        let passwords: BTreeMap<String, Password> = users.collect::<Result<_, _>>()?;
        let costs = passwords.values().map(|password| password.cost);
        Ok(Self {
            highest: costs.max().unwrap_or(*COSTS.start()),
            passwords,
        })
    }

    /// Whether this is the password of the user. A wrong answer takes the time of the
    /// highest cost, whether the user exists or not and whatever the cost of its hash is.
    fn check(&self, user: &str, password: &[u8]) -> bool {
        // The hash was parsed when it was read, so an error is a mismatch.
        self.check_by(user, |hash| {
            black_box(bcrypt::verify(password, hash).unwrap_or(false))
        })
    }

    /// The same with another way to compare the password with a hash.
    fn check_by(&self, user: &str, mut matches: impl FnMut(&str) -> bool) -> bool {
        let known = self.passwords.get(user);
        if known.is_some_and(|known| matches(&known.hash)) {
            return true;
        }
        for cost in self.padding(known) {
            matches(&of_nobody(cost));
        }
        false
    }

    /// The costs of hashes that are made after a wrong password. Each step of a cost doubles
    /// the time, so one hash of each cost from that of the user to the highest but one sums
    /// up to the highest together with that of the user.
    fn padding(&self, known: Option<&Password>) -> RangeInclusive<u32> {
        match known {
            Some(known) => known.cost..=self.highest - 1,
            None => self.highest..=self.highest,
        }
    }
}

/// A hash that no known password has.
fn of_nobody(cost: u32) -> String {
    format!("$2y${cost:02}${NOBODY}")
}

fn user(path: &Path, line: usize, text: &[u8]) -> Result<(String, Password), CredentialError> {
    let read = || {
        let (user, hash) = std::str::from_utf8(text).ok()?.split_once(':')?;
        let parts: bcrypt::HashParts = hash.parse().ok()?;
        let cost = parts.get_cost();
        let good = !user.is_empty() && COSTS.contains(&cost);
        let hash = hash.to_owned();
        good.then(|| (user.to_owned(), Password { hash, cost }))
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

    fn checker(users: &[(&str, u32)]) -> Checker {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        let lines = users.iter().map(|(user, cost)| {
            let hash = bcrypt::hash("s3cret", *cost).unwrap();
            format!("{user}:{hash}\n")
        });
        std::fs::write(&path, format!("# ours\n\n{}", lines.collect::<String>())).unwrap();
        Checker::open(vec![path]).unwrap().0
    }

    #[tokio::test]
    async fn only_the_right_password_is_valid() {
        let checker = checker(&[("ann", 4), ("eve", 5)]);
        for _ in 0..2 {
            for user in ["ann", "eve"] {
                assert!(checker.check(user, b"s3cret", None).await.unwrap());
            }
        }
        for (user, password) in [("ann", "s3cre"), ("bob", "s3cret"), ("", "")] {
            let good = checker.check(user, password.as_bytes(), None).await;
            assert!(!good.unwrap(), "{user}");
        }
    }

    #[test]
    fn a_wrong_password_costs_as_much_as_the_highest_hash() {
        let users = ["ann", "eve", "joe"].map(str::to_owned);
        let passwords = users.into_iter().zip([4, 10, 15]).map(|(user, cost)| {
            let hash = of_nobody(cost);
            (user, Password { hash, cost })
        });
        let users = Users {
            passwords: passwords.collect(),
            highest: 15,
        };
        for user in ["ann", "eve", "joe", "nobody"] {
            let mut work = 0;
            let good = users.check_by(user, |hash| {
                let parts: bcrypt::HashParts = hash.parse().unwrap();
                work += 1 << parts.get_cost();
                false
            });
            assert!(!good);
            assert_eq!(work, 1 << 15, "{user}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn many_wrong_logins_of_a_peer_delay_no_other_peer() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        const MANY: usize = 60;
        let checker = checker(&[("ann", 6)]);
        let peer = |last: u8| Some(IpAddr::from([192, 0, 2, last]));
        let done = Arc::new(AtomicUsize::new(0));
        let mut flood = tokio::task::JoinSet::new();
        for _ in 0..MANY {
            let (checker, done) = (checker.clone(), Arc::clone(&done));
            flood.spawn(async move {
                let answer = checker.check("ann", b"wrong", peer(1)).await;
                done.fetch_add(1, Ordering::SeqCst);
                answer.unwrap()
            });
        }
        // All of them wait before.
        while done.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        assert!(checker.check("ann", b"s3cret", peer(2)).await.unwrap());
        let done = done.load(Ordering::SeqCst);
        assert!(done < MANY / 2, "{done} of {MANY} wrong logins came first");
        assert!(flood.join_all().await.iter().all(|valid| !valid));
    }

    #[test]
    fn the_hashes_for_unknown_users_can_be_checked() {
        for cost in COSTS {
            let parts: bcrypt::HashParts = of_nobody(cost).parse().unwrap();
            assert_eq!(parts.get_cost(), cost);
        }
        assert!(!bcrypt::verify("", &of_nobody(4)).unwrap());
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
