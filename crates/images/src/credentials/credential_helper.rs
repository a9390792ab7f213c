//! Credential helpers: programs named `docker-credential-NAME` that keep
//! passwords (Docker's protocol).
//!
//! A helper reads the address of the registry from standard input and writes
//! JSON. Its time and output are bounded. Its standard error is discarded, and
//! so is its output when it fails: both can contain a secret.

use std::ffi::OsStr;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quick_cache::sync::Cache;
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::credentials::secret::{Credentials, Secret};
use crate::display::clip;

/// The time limit of a helper.
const LONGEST: Duration = Duration::from_secs(15);
/// How long credentials are kept before the helper runs again.
const KEPT: Duration = Duration::from_mins(1);
/// The most credentials that are kept. Further ones replace those used least.
const MAX_KEPT: usize = 256;
/// The largest output, in bytes.
const MAX_ANSWER: u64 = 64 << 10;
/// The longest name of a helper, in bytes.
const MAX_NAME: usize = 100;
/// The output of a helper without credentials for the registry.
const NOT_FOUND: &str = "credentials not found";
/// The user name that stands for an identity token.
const TOKEN_USER: &str = "<token>";

/// Runs helpers and keeps their credentials for a while. Cheap to clone.
#[derive(Clone)]
pub(super) struct CredentialHelpers(Arc<Cache<(String, String), Kept>>);

#[derive(Clone)]
struct Kept {
    credentials: Option<Credentials>,
    until: Instant,
}

/// Why a helper failed. No variant repeats its output.
#[derive(Debug, thiserror::Error)]
pub(super) enum HelperError {
    /// An invalid name.
    #[error("{0:?} is not a valid name of a credential helper")]
    Name(String),
    /// It cannot be run.
    #[error("docker-credential-{name} cannot be run: {source}")]
    Run {
        /// Its name.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// It exceeded the time limit.
    #[error("docker-credential-{0} did not end within {LONGEST:?}")]
    Timeout(String),
    /// It failed.
    #[error("docker-credential-{name} failed: {status}")]
    Failed {
        /// Its name.
        name: String,
        /// Its exit status.
        status: ExitStatus,
    },
    /// Its output is no credentials document.
    #[error("the output of docker-credential-{0} is not a credentials document")]
    Output(String),
}

/// The output of a helper.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperAnswer {
    #[serde(default)]
    username: String,
    secret: String,
}

impl CredentialHelpers {
    pub(super) fn new() -> Self {
        Self(Arc::new(Cache::new(MAX_KEPT)))
    }

    /// The credentials of the helper `name` for `server`.
    pub(super) async fn get(
        &self,
        name: &str,
        server: &str,
    ) -> Result<Option<Credentials>, HelperError> {
        let key = (name.to_owned(), server.to_owned());
        let known = self.0.get(&key);
        if let Some(kept) = known.filter(|kept| kept.until > Instant::now()) {
            return Ok(kept.credentials);
        }
        let kept = Kept {
            credentials: run(name, server, LONGEST).await?,
            until: Instant::now() + KEPT,
        };
        self.0.insert(key, kept.clone());
        Ok(kept.credentials)
    }
}

async fn run(
    name: &str,
    server: &str,
    longest: Duration,
) -> Result<Option<Credentials>, HelperError> {
    // It is a part of a program's name, and must not become a path.
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(good) {
        return Err(HelperError::Name(clip(name, MAX_NAME)));
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
        // To end it together with the programs that it starts.
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
        return Err(HelperError::Output(name.to_owned()));
    };
    if !status.success() {
        let text = String::from_utf8_lossy(&output).to_lowercase();
        if text.contains(NOT_FOUND) {
            return Ok(None);
        }
        let name = name.to_owned();
        return Err(HelperError::Failed { name, status });
    }
    let answer: HelperAnswer =
        serde_json::from_slice(&output).map_err(|_| HelperError::Output(name.to_owned()))?;
    Ok(match answer.username.as_str() {
        _ if answer.secret.is_empty() => None,
        TOKEN_USER => Some(Credentials {
            basic: None,
            identity_token: Some(Secret::from(answer.secret)),
        }),
        user => Some(Credentials::password(
            user.as_bytes(),
            answer.secret.as_bytes(),
        )),
    })
}

/// Writes the address to a helper and reads its output.
async fn talk(child: &mut Child, server: &str) -> io::Result<(ExitStatus, Vec<u8>)> {
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("it has no pipes"));
    };
    // A helper need not read its input.
    let _ = input.write_all(server.as_bytes()).await;
    drop(input);
    let mut answer = Vec::new();
    output.take(MAX_ANSWER + 1).read_to_end(&mut answer).await?;
    if answer.len() as u64 > MAX_ANSWER {
        return Err(io::Error::other("its output is too large"));
    }
    Ok((child.wait().await?, answer))
}

/// Ends a helper with the programs that it started. The runtime reaps it.
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

    /// Runs a shell script as a helper.
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
            // Another test may have forked while the script was open.
            match answer {
                Err(HelperError::Run { source, .. })
                    if source.kind() == io::ErrorKind::ExecutableFileBusy => {}
                answer => return answer,
            }
        }
    }

    #[tokio::test]
    async fn the_credentials_of_a_helper_are_used() {
        let script =
            r#"[ "$1" = get ] && printf '{"ServerURL":"x","Username":"%s","Secret":"p"}' "$(cat)""#;
        let credentials = answer(script).await.unwrap().unwrap();
        assert_eq!(credentials, Credentials::password(b"quay.io", b"p"));
        let script = r#"echo '{"Username":"<token>","Secret":"refresh"}'"#;
        let credentials = answer(script).await.unwrap().unwrap();
        let token = Some(Secret::from("refresh".to_owned()));
        assert_eq!(
            (credentials.basic, credentials.identity_token),
            (None, token)
        );
        let script = "echo credentials not found in native keychain; exit 1";
        assert_eq!(answer(script).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_helper_is_bounded_and_its_output_is_not_repeated() {
        let failed = |error: HelperError| {
            let text = format!("{error} {error:?}");
            assert!(!text.contains("hunter2"), "{text}");
            error
        };
        let error = failed(answer("echo hunter2; exit 3").await.unwrap_err());
        assert!(matches!(error, HelperError::Failed { .. }));
        let error = failed(answer("echo hunter2").await.unwrap_err());
        assert!(matches!(error, HelperError::Output(_)));
        let error = failed(answer("yes hunter2").await.unwrap_err());
        assert!(matches!(error, HelperError::Output(_)));
        let started = Instant::now();
        let hangs = answer_within("sleep 60 & sleep 60", Duration::from_secs(2));
        let error = failed(hangs.await.unwrap_err());
        assert!(matches!(error, HelperError::Timeout(_)));
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[tokio::test]
    async fn a_missing_helper_is_named() {
        let error = run("no-such-helper", "quay.io", LONGEST).await.unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("docker-credential-no-such-helper")
        );
    }
}
