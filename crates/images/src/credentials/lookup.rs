//! Finding the credentials for a repository.

use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use serde_json::Value;

use crate::config_files::{FileError, FileKind};
use crate::credentials::auth_file::{AuthEntry, AuthFile, is_hub, match_length, read};
use crate::credentials::credential_helper::CredentialHelpers;
use crate::credentials::secret::Credentials;

/// The name of Docker Hub in requests to credential helpers.
const DOCKER_HUB_SERVER: &str = "https://index.docker.io/v1/";

/// Credentials files in order of precedence.
#[derive(Clone)]
pub struct AuthFiles {
    /// Files from the settings. They must exist.
    named: Vec<PathBuf>,
    /// Usual files, which may be missing.
    usual: Vec<PathBuf>,
    helpers: CredentialHelpers,
}

/// A possible source of the credentials, with its file and key.
enum Candidate<'a> {
    Helper(&'a Path, &'a str, &'a str),
    Entry(&'a Path, &'a str, &'a Value),
}

impl AuthFiles {
    /// Reads `named` in order, then the existing ones of `usual`.
    pub fn new(named: Vec<PathBuf>, usual: Vec<PathBuf>) -> Self {
        Self {
            named,
            usual,
            helpers: CredentialHelpers::new(),
        }
    }

    /// Finds the credentials for a repository. The entry with the longest
    /// matching key (`host`, `host:port`, `host/path` ...) applies; of equal
    /// keys, the first file, and a helper before an entry. Without any match
    /// the helper for all registries is asked. Invalid entries are logged and
    /// ignored. Unreadable files are errors.
    pub async fn find(
        &self,
        registry: &str,
        repository: &str,
    ) -> Result<Option<Credentials>, FileError> {
        let files = self.clone();
        let reading = tokio::task::spawn_blocking(move || files.read()).await;
        let documents = reading.unwrap_or_else(|error| {
            let kind = FileKind::Credentials;
            Err(FileError::content(kind, Path::new(""), error))
        })?;
        let mut candidates = Vec::new();
        for (path, document) in &documents {
            let matching = |key: &str| match_length(key, registry, repository);
            for (key, helper) in &document.helpers {
                if let (Some(length), Some(helper)) = (matching(key), helper.as_str()) {
                    candidates.push((length, Candidate::Helper(path, key, helper)));
                }
            }
            for (key, entry) in &document.auths {
                if let Some(length) = matching(key) {
                    candidates.push((length, Candidate::Entry(path, key, entry)));
                }
            }
        }
        // A stable sort keeps the order of the files.
        candidates.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
        for (_, candidate) in candidates {
            let found = match candidate {
                Candidate::Entry(path, key, entry) => entry_credentials(path, key, entry),
                Candidate::Helper(path, server, helper) => {
                    self.ask_helper(path, helper, server).await
                }
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        let server = match registry {
            registry if is_hub(registry) => DOCKER_HUB_SERVER,
            registry => registry,
        };
        for (path, document) in &documents {
            if let Some(helper) = &document.store
                && let Some(found) = self.ask_helper(path, helper, server).await
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The content of all files, in order.
    fn read(self) -> Result<Vec<(PathBuf, AuthFile)>, FileError> {
        let mut documents = Vec::new();
        for path in self.named {
            documents.push((path.clone(), read(&path)?));
        }
        for path in self.usual {
            match read(&path) {
                Err(_) if !path.is_file() => {}
                document => documents.push((path, document?)),
            }
        }
        Ok(documents)
    }

    async fn ask_helper(&self, path: &Path, helper: &str, server: &str) -> Option<Credentials> {
        match self.helpers.get(helper, server).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(path = %path.display(), server, %error, "the credential helper failed; its registry is used without it");
                None
            }
        }
    }
}

/// The credentials of an entry, if it has any.
fn entry_credentials(path: &Path, key: &str, entry: &Value) -> Option<Credentials> {
    let entry = AuthEntry::deserialize(entry)
        .ok()
        .and_then(AuthEntry::into_credentials);
    if entry.is_none() {
        tracing::warn!(path = %path.display(), key, "the credentials entry is not valid and has no effect");
    }
    entry.flatten()
}
