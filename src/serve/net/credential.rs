//! Files with credentials: certificates, keys, tokens and users.
//!
//! They are read at the start and then polled by content, since tools that renew
//! them replace files, links or whole folders. An invalid file is reported, and
//! the last valid content stays in effect.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, counter};
use rustls::InconsistentKeys;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The polling interval.
const POLL: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 2000 });
/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// How often files are read until two readings agree. They differ while the files
/// are being replaced.
const READINGS: usize = 3;

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// It cannot be read.
    #[error("{} cannot be read: {problem}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        problem: io::Error,
    },
    /// It is not PEM, or has other content.
    #[error("{} holds no {wanted} in PEM{}", path.display(), because(problem.as_deref()))]
    Pem {
        /// The file.
        path: PathBuf,
        /// The expected content.
        wanted: &'static str,
        /// The error, if known.
        problem: Option<String>,
    },
    /// A certificate and a key that do not belong together or are invalid.
    #[error(
        "the certificate {} and the key {} cannot be used together: {}",
        certificate.display(), key.display(), mismatch(problem)
    )]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's.
        key: PathBuf,
        /// The reason.
        problem: rustls::Error,
    },
    /// Authorities that cannot verify clients.
    #[error("{} holds an authority that cannot be used: {problem}", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// The reason.
        problem: String,
    },
    /// A line with something else. Its text is not shown.
    #[error("line {line} of {} is no {wanted}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The expected content, and how to write it.
        wanted: &'static str,
    },
    /// The system provides no random numbers for a signing key.
    #[error("the system has no random numbers")]
    Random,
}

/// The reason why a certificate and a key cannot be used together.
fn mismatch(problem: &rustls::Error) -> String {
    match problem {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            "the key is that of another certificate".to_owned()
        }
        problem => problem.to_string(),
    }
}

fn because(problem: Option<&str>) -> String {
    problem.map_or_else(String::new, |problem| format!(": {problem}"))
}

/// Builds a value from the paths and the contents of the files.
type Build<T> = Box<dyn Fn(&[PathBuf], &[Vec<u8>]) -> Result<T, CredentialError> + Send + Sync>;

/// Files that are polled for changes.
pub struct Followed<T> {
    kind: &'static str,
    owner: String,
    files: Arc<Files<T>>,
    seen: Seen,
    current: watch::Sender<Arc<T>>,
}

struct Files<T> {
    paths: Vec<PathBuf>,
    build: Build<T>,
}

/// A digest of the contents.
type Seen = [u8; 32];

impl<T: Send + Sync + 'static> Followed<T> {
    /// Reads the files for the first time. `kind` and `owner` are for logs and
    /// metrics.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub(crate) fn open(
        kind: &'static str,
        owner: &str,
        paths: Vec<PathBuf>,
        build: Build<T>,
    ) -> Result<(Self, watch::Receiver<Arc<T>>), CredentialError> {
        let files = Files { paths, build };
        let (contents, seen) = files.read()?;
        let first = Arc::new((files.build)(&files.paths, &contents)?);
        let (current, receiver) = watch::channel(first);
        // A rule about growth misses the first event unless it was 0 before.
        for outcome in ["taken", "refused"] {
            reloads(kind, owner, outcome).increment(0);
        }
        let followed = Self {
            kind,
            owner: owner.to_owned(),
            files: Arc::new(files),
            seen,
            current,
        };
        Ok((followed, receiver))
    }

    /// Polls the files until `stop`.
    pub async fn follow(mut self, stop: CancellationToken) {
        let mut missing = false;
        loop {
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                () = stop.cancelled() => return,
            }
            let (files, seen) = (Arc::clone(&self.files), self.seen);
            let polled = tokio::task::spawn_blocking(move || files.poll(seen)).await;
            let Ok(polled) = polled else { continue };
            let result = match polled {
                Ok(None) => {
                    missing = false;
                    continue;
                }
                Ok(Some((seen, built))) => {
                    self.seen = seen;
                    missing = false;
                    built
                }
                // Reported once, and not at every poll.
                Err(_) if missing => continue,
                Err(error) => {
                    missing = true;
                    Err(error)
                }
            };
            self.take(result);
        }
    }

    fn take(&self, result: Result<T, CredentialError>) {
        let (kind, of) = (self.kind, self.owner.as_str());
        let outcome = match result {
            Ok(new) => {
                self.current.send_replace(Arc::new(new));
                tracing::info!(kind, of, "credentials reloaded");
                "taken"
            }
            Err(error) => {
                tracing::error!(kind, of, %error, "cannot reload credentials; the old ones stay in effect");
                "refused"
            }
        };
        reloads(kind, of, outcome).increment(1);
    }
}

/// Counts the changes of credentials.
fn reloads(kind: &'static str, of: &str, outcome: &'static str) -> Counter {
    counter!(
        "almanac_credential_reloads_total",
        "kind" => kind, "of" => of.to_owned(), "outcome" => outcome
    )
}

/// The value of changed contents, with their digest.
type Changed<T> = (Seen, Result<T, CredentialError>);

impl<T> Files<T> {
    /// The value of the files, if their content differs from `seen`.
    fn poll(&self, seen: Seen) -> Result<Option<Changed<T>>, CredentialError> {
        let (contents, now) = self.read()?;
        Ok((now != seen).then(|| (now, (self.build)(&self.paths, &contents))))
    }

    fn read(&self) -> Result<(Vec<Vec<u8>>, Seen), CredentialError> {
        let mut last = self.read_once()?;
        for _ in 1..READINGS {
            let again = self.read_once()?;
            if again.1 == last.1 {
                break;
            }
            last = again;
        }
        Ok(last)
    }

    fn read_once(&self) -> Result<(Vec<Vec<u8>>, Seen), CredentialError> {
        let mut digest = Sha256::new();
        let mut contents = Vec::with_capacity(self.paths.len());
        for path in &self.paths {
            let content = read(path)?;
            digest.update((content.len() as u64).to_be_bytes());
            digest.update(&content);
            contents.push(content);
        }
        Ok((contents, digest.finalize().into()))
    }
}

/// The lines of files, with their numbers from 1, without empty lines and those
/// that begin with `#`.
pub(crate) fn lines<'a>(
    paths: &'a [PathBuf],
    contents: &'a [Vec<u8>],
) -> impl Iterator<Item = (&'a Path, usize, &'a [u8])> {
    let files = paths.iter().zip(contents);
    let lines = files.flat_map(|(path, content)| {
        let lines = content.split(|&byte| byte == b'\n').enumerate();
        lines.map(move |(at, line)| (path.as_path(), at + 1, line.trim_ascii()))
    });
    lines.filter(|(_, _, line)| !line.is_empty() && !line.starts_with(b"#"))
}

fn read(path: &Path) -> Result<Vec<u8>, CredentialError> {
    let read = || {
        let mut content = Vec::new();
        let file = File::open(path)?;
        file.take(MAX_FILE + 1).read_to_end(&mut content)?;
        if content.len() as u64 > MAX_FILE {
            return Err(io::Error::other("it is larger than 1 MiB"));
        }
        Ok(content)
    };
    read().map_err(|problem| CredentialError::Read {
        path: path.to_owned(),
        problem,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn number(folder: &Path) -> (Followed<u32>, watch::Receiver<Arc<u32>>) {
        let path = folder.join("number");
        let build = |paths: &[PathBuf], contents: &[Vec<u8>]| {
            let text = String::from_utf8_lossy(&contents[0]).into_owned();
            text.parse().map_err(|_| CredentialError::Line {
                path: paths[0].clone(),
                line: 1,
                wanted: "number",
            })
        };
        Followed::open("test", "a", vec![path], Box::new(build)).unwrap()
    }

    #[tokio::test]
    async fn valid_changes_take_effect_and_invalid_ones_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let write = |text: &str| {
            fs::write(folder.path().join("next"), text).unwrap();
            fs::rename(folder.path().join("next"), folder.path().join("number")).unwrap();
        };
        write("1");
        let (followed, mut receiver) = number(folder.path());
        assert_eq!(**receiver.borrow_and_update(), 1);
        let stop = CancellationToken::new();
        let following = tokio::spawn(followed.follow(stop.clone()));
        write("two");
        tokio::time::sleep(POLL * 3).await;
        assert!(!receiver.has_changed().unwrap());
        write("3");
        receiver.changed().await.unwrap();
        assert_eq!(**receiver.borrow_and_update(), 3);
        fs::remove_file(folder.path().join("number")).unwrap();
        tokio::time::sleep(POLL * 3).await;
        assert!(!receiver.has_changed().unwrap());
        stop.cancel();
        following.await.unwrap();
    }
}
