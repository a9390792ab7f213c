//! Finding the credentials for a repository.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::config_files::{FileError, FileKind};
use crate::credentials::auth_file::{AuthFile, entry_credentials, is_hub, match_key, read};
use crate::credentials::credential_helper::CredentialHelpers;
use crate::credentials::secret::Credentials;
use crate::mirrors::{MirrorFiles, Mirrors};

/// The name of Docker Hub in requests to credential helpers.
const DOCKER_HUB_SERVER: &str = "https://index.docker.io/v1/";

/// The name in `credential-helpers` that stands for the credentials files.
const AUTH_FILES: &str = "containers-auth.json";

/// The files with credentials, and the credential helpers.
#[derive(Clone)]
pub struct AuthFiles {
    /// Files from the settings. They must exist.
    named: Vec<PathBuf>,
    /// Usual files, which may be missing.
    usual: Vec<PathBuf>,
    /// The files with `credential-helpers`.
    mirrors: MirrorFiles,
    helpers: CredentialHelpers,
}

/// The content of the files.
struct Documents {
    /// In order of precedence.
    files: Vec<(PathBuf, AuthFile)>,
    /// The names in `credential-helpers`, and their file.
    helpers: Option<(PathBuf, Vec<String>)>,
}

/// A possible source of the credentials, with its file and key.
enum Candidate<'a> {
    Helper(&'a Path, &'a str, &'a str),
    Entry(&'a Path, &'a str, &'a Value),
}

impl AuthFiles {
    /// Reads `named` in order, then the existing ones of `usual`. The key
    /// `credential-helpers` of `registries.conf` is read from `mirrors`.
    pub fn new(named: Vec<PathBuf>, usual: Vec<PathBuf>, mirrors: MirrorFiles) -> Self {
        Self {
            named,
            usual,
            mirrors,
            helpers: CredentialHelpers::new(),
        }
    }

    /// Finds the credentials for a repository: in the credentials files, or in
    /// the order of `credential-helpers`. Unreadable files are errors.
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
        let Some((path, helpers)) = &documents.helpers else {
            return Ok(self.search(&documents.files, registry, repository).await);
        };
        for helper in helpers {
            let found = match helper.as_str() {
                AUTH_FILES => self.search(&documents.files, registry, repository).await,
                helper => self.ask_helper(path, helper, registry).await,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Searches the files. The entry with the longest matching key (`host`,
    /// `host:port`, `host/path` ...) applies; of equal keys, the first file.
    /// Without any match the helper for all registries is asked. Invalid entries
    /// are logged and ignored.
    async fn search(
        &self,
        files: &[(PathBuf, AuthFile)],
        registry: &str,
        repository: &str,
    ) -> Option<Credentials> {
        let mut candidates = Vec::new();
        for (number, (path, file)) in files.iter().enumerate() {
            let order = |key: &str| {
                let found = match_key(key, registry, repository)?;
                Some((Reverse(found.length), number, !found.is_exact))
            };
            for (key, helper) in &file.helpers {
                if let (Some(order), Some(helper)) = (order(key), helper.as_str()) {
                    candidates.push((order, Candidate::Helper(path, key, helper)));
                }
            }
            // The helper for a host takes the place of all entries.
            let entries = file.auths.iter();
            for (key, entry) in entries.filter(|_| !file.helpers.contains_key(registry)) {
                if let Some(order) = order(key) {
                    candidates.push((order, Candidate::Entry(path, key, entry)));
                }
            }
        }
        candidates.sort_by_key(|(order, _)| *order);
        for (_, candidate) in candidates {
            let found = match candidate {
                Candidate::Entry(path, key, entry) => {
                    let found = entry_credentials(entry);
                    if found.is_none() {
                        tracing::warn!(path = %path.display(), key, "the credentials entry is not valid and has no effect");
                    }
                    found.flatten()
                }
                Candidate::Helper(path, server, helper) => {
                    self.ask_helper(path, helper, server).await
                }
            };
            if found.is_some() {
                return found;
            }
        }
        let server = match registry {
            registry if is_hub(registry) => DOCKER_HUB_SERVER,
            registry => registry,
        };
        for (path, file) in files {
            if let Some(helper) = &file.store
                && let Some(found) = self.ask_helper(path, helper, server).await
            {
                return Some(found);
            }
        }
        None
    }

    fn read(self) -> Result<Documents, FileError> {
        let helpers = Mirrors::read(&self.mirrors)?.credential_helpers;
        // An empty list stands for the default.
        let helpers = helpers.filter(|(_, names)| !names.is_empty());
        let mut files = Vec::new();
        for path in self.named {
            files.push((path.clone(), read(&path)?));
        }
        for path in self.usual {
            match read(&path) {
                Err(_) if !path.is_file() => {}
                file => files.push((path, file?)),
            }
        }
        Ok(Documents { files, helpers })
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
