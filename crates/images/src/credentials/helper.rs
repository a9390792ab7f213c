//! Credential helpers: programs named `docker-credential-NAME` that keep
//! passwords elsewhere and are asked for them (Docker's protocol).
//!
//! A helper gets the address of the registry on standard input and answers
//! with JSON. It has bounded time and output, and what it says on standard
//! error is thrown away, as is what it says when it fails: either may hold a
//! secret.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::credentials::{Credentials, Secret};

/// How long a helper may take.
const LONGEST: Duration = Duration::from_secs(15);
/// How long an answer is used before the helper is asked again.
const KEPT: Duration = Duration::from_mins(1);
/// The most answers that are kept.
const MAX_KEPT: usize = 256;
/// The largest answer, in bytes.
const MAX_ANSWER: u64 = 64 << 10;
/// The longest name of a helper.
const MAX_NAME: usize = 100;
/// What a helper says when it has nothing for the registry.
const NOT_FOUND: &str = "credentials not found";
/// The user name that stands for an identity token.
const TOKEN_USER: &str = "<token>";

/// Asks helpers, and remembers for a moment what they said. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Helpers {
    kept: Arc<Mutex<HashMap<(String, String), Kept>>>,
}

#[derive(Clone)]
struct Kept {
    credentials: Option<Credentials>,
    until: Instant,
}

/// Why a helper gave no answer. No variant repeats what it said.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HelperError {
    /// A name that is none.
    #[error("the name {0:?} is not that of a credential helper")]
    Name(String),
    /// It cannot be run.
    #[error("docker-credential-{name} cannot be run: {source}")]
    Run {
        /// Its name.
        name: String,
        /// Why not.
        source: io::Error,
    },
    /// It did not end in time.
    #[error("docker-credential-{0} did not answer within {LONGEST:?}")]
    Timeout(String),
    /// It failed.
    #[error("docker-credential-{name} failed: {status}")]
    Failed {
        /// Its name.
        name: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// It said something else than credentials.
    #[error("docker-credential-{0} answered with something that is not understood")]
    Answer(String),
}

/// What a helper answers.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    #[serde(default)]
    username: String,
    secret: String,
}

impl Helpers {
    /// The credentials that the helper `name` has for `server`.
    pub(crate) async fn get(
        &self,
        name: &str,
        server: &str,
    ) -> Result<Option<Credentials>, HelperError> {
        let key = (name.to_owned(), server.to_owned());
        let known = self.lock().get(&key).cloned();
        if let Some(kept) = known.filter(|kept| kept.until > Instant::now()) {
            return Ok(kept.credentials);
        }
        let credentials = run(name, server, LONGEST).await?;
        let mut kept = self.lock();
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        let until = Instant::now() + KEPT;
        let answer = Kept {
            credentials: credentials.clone(),
            until,
        };
        kept.insert(key, answer);
        Ok(credentials)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Helpers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Helpers")
    }
}

async fn run(
    name: &str,
    server: &str,
    longest: Duration,
) -> Result<Option<Credentials>, HelperError> {
    // Part of a program's name, so no path may come of it.
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(good) {
        let shown = name.chars().take(MAX_NAME).collect();
        return Err(HelperError::Name(shown));
    }
    let program = format!("docker-credential-{name}");
    run_program(program.as_ref(), name, server, longest).await
}

async fn run_program(
    program: &OsStr,
    name: &str,
    server: &str,
    longest: Duration,
) -> Result<Option<Credentials>, HelperError> {
    let failed = |source| HelperError::Run {
        name: name.to_owned(),
        source,
    };
    let mut child = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        // So that all that it starts can be ended with it.
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let ended = timeout(longest, talk(&mut child, server)).await;
    let Ok(ended) = ended else {
        end(&mut child);
        return Err(HelperError::Timeout(name.to_owned()));
    };
    let Ok((status, output)) = ended else {
        end(&mut child);
        return Err(HelperError::Answer(name.to_owned()));
    };
    if !status.success() {
        let text = String::from_utf8_lossy(&output).to_lowercase();
        if text.contains(NOT_FOUND) {
            return Ok(None);
        }
        let name = name.to_owned();
        return Err(HelperError::Failed { name, status });
    }
    let answer: Answer =
        serde_json::from_slice(&output).map_err(|_| HelperError::Answer(name.to_owned()))?;
    Ok(match answer.username.as_str() {
        _ if answer.secret.is_empty() => None,
        TOKEN_USER => Some(Credentials::IdentityToken(Secret::from(answer.secret))),
        user => Some(Credentials::Password {
            user: user.to_owned(),
            password: Secret::from(answer.secret),
        }),
    })
}

/// Gives a helper its question and takes its answer.
async fn talk(child: &mut Child, server: &str) -> io::Result<(ExitStatus, Vec<u8>)> {
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("it has no pipes"));
    };
    // One that answers without having read the question is fine.
    let _ = input.write_all(server.as_bytes()).await;
    drop(input);
    let mut answer = Vec::new();
    output.take(MAX_ANSWER + 1).read_to_end(&mut answer).await?;
    if answer.len() as u64 > MAX_ANSWER {
        return Err(io::Error::other("it says too much"));
    }
    Ok((child.wait().await?, answer))
}

/// Ends a helper with all that it started. It is not waited for: the runtime
/// does that once it has ended.
fn end(child: &mut Child) {
    let group = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.start_kill();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_that_is_a_path_is_not_run() {
        for name in ["", "../sh", "a/b", "a b", "a;b", &"a".repeat(200)] {
            let error = run(name, "quay.io", LONGEST).await.unwrap_err();
            assert!(matches!(error, HelperError::Name(_)), "{name}");
        }
    }

    /// What a helper that is this shell script answers.
    async fn answer(script: &str) -> Result<Option<Credentials>, HelperError> {
        answer_within(script, LONGEST).await
    }

    /// The same with another time limit.
    async fn answer_within(
        script: &str,
        limit: Duration,
    ) -> Result<Option<Credentials>, HelperError> {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("helper");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        loop {
            let answer = run_program(path.as_os_str(), "test", "quay.io", limit).await;
            // Another test may have begun a program while this one was written.
            match answer {
                Err(HelperError::Run { source, .. })
                    if source.kind() == io::ErrorKind::ExecutableFileBusy => {}
                answer => return answer,
            }
        }
    }

    #[tokio::test]
    async fn a_helper_is_given_the_server_and_believed() {
        let script =
            r#"[ "$1" = get ] && printf '{"ServerURL":"x","Username":"%s","Secret":"p"}' "$(cat)""#;
        let credentials = answer(script).await.unwrap().unwrap();
        let Credentials::Password { user, password } = credentials else {
            panic!("a password was given");
        };
        assert_eq!((user.as_str(), password.expose()), ("quay.io", "p"));
        let script = r#"echo '{"Username":"<token>","Secret":"refresh"}'"#;
        let credentials = answer(script).await.unwrap().unwrap();
        assert_eq!(
            credentials,
            Credentials::IdentityToken(Secret::from("refresh".to_owned()))
        );
        let script = "echo credentials not found in native keychain; exit 1";
        assert_eq!(answer(script).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_helper_is_bounded_and_not_repeated() {
        let failed = |error: HelperError| {
            let text = format!("{error} {error:?}");
            assert!(!text.contains("hunter2"), "{text}");
            error
        };
        let error = failed(answer("echo hunter2; exit 3").await.unwrap_err());
        assert!(matches!(error, HelperError::Failed { .. }));
        let error = failed(answer("echo hunter2").await.unwrap_err());
        assert!(matches!(error, HelperError::Answer(_)));
        let error = failed(answer("yes hunter2").await.unwrap_err());
        assert!(matches!(error, HelperError::Answer(_)));
        let started = Instant::now();
        let hangs = answer_within("sleep 60 & sleep 60", Duration::from_secs(2));
        let error = failed(hangs.await.unwrap_err());
        assert!(matches!(error, HelperError::Timeout(_)));
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[tokio::test]
    async fn a_helper_that_is_not_there_is_named() {
        let error = run("no-such-helper", "quay.io", LONGEST).await.unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("docker-credential-no-such-helper")
        );
    }
}
