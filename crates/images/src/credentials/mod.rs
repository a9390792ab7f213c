//! Credentials, as Docker, podman and Kubernetes keep them in files.
//!
//! The files are read afresh whenever a registry asks for credentials, so a
//! rotated secret counts at once. Where a file names a credential helper
//! (`credHelpers`, `credsStore`), `helper` runs it.

mod helper;

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::HeaderValue;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::io::AsyncReadExt;

use crate::credentials::helper::Helpers;

/// The largest credentials file, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// The names under which Docker Hub is known.
const DOCKER_HUB: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];

/// What Docker Hub is called where helpers are asked.
const DOCKER_HUB_SERVER: &str = "https://index.docker.io/v1/";

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A text that must not be seen: `Debug` and `Display` print it masked.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Who to be at a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// A user and a password.
    Password {
        /// The user.
        user: String,
        /// The password.
        password: Secret,
    },
    /// A token that the token service exchanges for others (OAuth 2 refresh
    /// token).
    IdentityToken(Secret),
}

/// The credentials files of a client, in the order in which they are asked.
#[derive(Clone, Debug, Default)]
pub struct AuthFiles {
    /// Those that somebody named: each has to be there.
    named: Vec<PathBuf>,
    /// Those that may be there.
    usual: Vec<PathBuf>,
    helpers: Helpers,
}

/// What one file says.
#[derive(Default)]
struct Document {
    auths: Map<String, Value>,
    /// The helper of each registry.
    helpers: Map<String, Value>,
    /// The helper of all others.
    store: Option<String>,
}

/// Where the credentials for a repository may be, with the length of the key
/// that leads there.
enum Candidate<'a> {
    Helper(&'a Path, &'a str, &'a str),
    Entry(&'a Path, &'a str, &'a Value),
}

/// A credentials file that cannot be used. No variant carries content of the
/// file.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Missing, or not readable.
    #[error("credentials file {path} cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Larger than 1 MiB.
    #[error("credentials file {path} is larger than {MAX_FILE} bytes")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// Not JSON, or not of the shape of such a file.
    #[error("credentials file {path} is not valid: {problem}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        problem: String,
    },
}

impl Secret {
    /// The text itself, for the one who sends it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The value of an `Authorization` header with user and password.
pub(crate) fn basic(user: &str, password: &Secret) -> Option<HeaderValue> {
    let pair = BASE64.encode(format!("{user}:{}", password.expose()));
    header(&format!("Basic {pair}"))
}

/// The value of an `Authorization` header with a token.
pub(crate) fn bearer(token: &Secret) -> Option<HeaderValue> {
    header(&format!("Bearer {}", token.expose()))
}

fn header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    // Keeps it out of Debug output and of the header compression tables.
    value.set_sensitive(true);
    Some(value)
}

impl AuthFiles {
    /// Looks into `named`, in this order, then into those of `usual` that are
    /// there.
    pub fn new(named: Vec<PathBuf>, usual: Vec<PathBuf>) -> Self {
        Self {
            named,
            usual,
            helpers: Helpers::default(),
        }
    }

    /// The credentials for a repository: of all entries the one whose key
    /// (`host`, `host:port`, `host/path` ...) matches the longest part, the
    /// first file winning a tie, and a helper before what is written. Where
    /// there is none, the helper for all registries is asked. An entry that
    /// cannot be used is logged and passed over; a file that cannot be read is
    /// an error, since somebody counts on it.
    pub async fn find(
        &self,
        registry: &str,
        repository: &str,
    ) -> Result<Option<Credentials>, AuthError> {
        let mut documents = Vec::new();
        for path in &self.named {
            documents.push((path, read(path).await?));
        }
        for path in &self.usual {
            match read(path).await {
                Err(AuthError::Read { .. }) if !path.is_file() => {}
                document => documents.push((path, document?)),
            }
        }
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
        // Stable, so what came first stays first.
        candidates.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
        for (_, candidate) in candidates {
            let found = match candidate {
                Candidate::Entry(path, key, entry) => written(path, key, entry),
                Candidate::Helper(path, server, helper) => self.ask(path, helper, server).await,
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
                && let Some(found) = self.ask(path, helper, server).await
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn ask(&self, path: &Path, helper: &str, server: &str) -> Option<Credentials> {
        match self.helpers.get(helper, server).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(path = %path.display(), server, %error, "credential helper passed over");
                None
            }
        }
    }
}

/// The credentials of an entry, when there are some.
fn written(path: &Path, key: &str, entry: &Value) -> Option<Credentials> {
    let entry = Entry::deserialize(entry)
        .ok()
        .and_then(Entry::into_credentials);
    if entry.is_none() {
        tracing::warn!(path = %path.display(), key, "credentials entry is not valid, passed over");
    }
    entry.flatten()
}

async fn read(path: &Path) -> Result<Document, AuthError> {
    let read = |source| AuthError::Read {
        path: path.into(),
        source,
    };
    let file = tokio::fs::File::open(path).await.map_err(read)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .await
        .map_err(read)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(AuthError::TooLarge { path: path.into() });
    }
    let content = |problem: String| AuthError::Content {
        path: path.into(),
        problem,
    };
    // The parser's own message can repeat a value of the file.
    let document: Value = serde_json::from_slice(&bytes).map_err(|error| {
        content(format!(
            "no JSON at line {}, column {}",
            error.line(),
            error.column()
        ))
    })?;
    let Value::Object(mut document) = document else {
        return Err(content("it is no object".into()));
    };
    let mut object = |name: &str| match document.remove(name) {
        Some(Value::Object(found)) => Ok(Some(found)),
        None | Some(Value::Null) => Ok(None),
        Some(_) => Err(content(format!("{name} is no object"))),
    };
    let (auths, helpers) = (object("auths")?, object("credHelpers")?);
    let store = document.remove("credsStore");
    let store = store.as_ref().and_then(Value::as_str).map(str::to_owned);
    let auths = match auths {
        Some(auths) => auths,
        // Docker's first format (`.dockercfg`) is the entries alone.
        None if helpers.is_none() && document.values().any(is_entry) => document,
        None => Map::new(),
    };
    Ok(Document {
        auths,
        helpers: helpers.unwrap_or_default(),
        store: store.filter(|store| !store.is_empty()),
    })
}

fn is_entry(value: &Value) -> bool {
    ["auth", "username", "identitytoken"]
        .iter()
        .any(|name| value.get(name).is_some_and(Value::is_string))
}

/// How much of `registry/repository` the key of an entry matches, when it does.
fn match_length(key: &str, registry: &str, repository: &str) -> Option<usize> {
    let (key, had_scheme) = match key.split_once("://") {
        Some((_, rest)) => (rest, true),
        None => (key, false),
    };
    let (host, path) = key.split_once('/').unwrap_or((key, ""));
    let path = path.trim_end_matches('/');
    // Docker writes https://HOST/v1/ for the whole of HOST.
    let path = match path {
        "v1" | "v2" => "",
        _ if had_scheme => "",
        path => path,
    };
    let same_host = host.eq_ignore_ascii_case(registry) || (is_hub(host) && is_hub(registry));
    if !same_host {
        return None;
    }
    if path.is_empty() {
        return Some(0);
    }
    let rest = repository.strip_prefix(path)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(path.len())
}

fn is_hub(name: &str) -> bool {
    DOCKER_HUB.iter().any(|hub| name.eq_ignore_ascii_case(hub))
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    auth: Option<String>,
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    password: Option<String>,
    #[serde(default)]
    identitytoken: Option<String>,
}

impl Entry {
    /// The credentials of an entry; `Some(None)` when it is there and empty
    /// (a credential helper has them), `None` when it makes no sense.
    #[expect(
        clippy::option_option,
        reason = "the two are told apart by the only caller"
    )]
    fn into_credentials(self) -> Option<Option<Credentials>> {
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        if let Some(token) = filled(self.identitytoken) {
            return Some(Some(Credentials::IdentityToken(Secret(token))));
        }
        let (user, password) = match (filled(self.auth), filled(self.username)) {
            (Some(auth), _) => {
                let bytes = BASE64.decode(auth.trim()).ok()?;
                let pair = String::from_utf8(bytes).ok()?;
                let (user, password) = pair.split_once(':')?;
                (user.to_owned(), password.trim_end_matches('\0').to_owned())
            }
            (None, Some(user)) => (user, self.password.unwrap_or_default()),
            (None, None) => return Some(None),
        };
        Some(Some(Credentials::Password {
            user,
            password: Secret(password),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn file(content: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        file
    }

    async fn find(contents: &[&Value], image: &str) -> Option<String> {
        let files = contents
            .iter()
            .map(|content| file(&content.to_string()))
            .collect::<Vec<_>>();
        let paths = files.iter().map(|file| file.path().to_owned()).collect();
        let (registry, repository) = image.split_once('/').unwrap();
        let found = AuthFiles::new(paths, Vec::new())
            .find(registry, repository)
            .await
            .unwrap();
        found.map(|credentials| match credentials {
            Credentials::Password { user, password } => format!("{user}:{}", password.expose()),
            Credentials::IdentityToken(token) => token.expose().into(),
        })
    }

    #[tokio::test]
    async fn each_way_to_write_credentials_is_read() {
        let auths = json!({"auths": {
            "one.example": {"auth": BASE64.encode("me:pass:word")},
            "two.example": {"auth": BASE64.encode("me:word").trim_end_matches('=')},
            "three.example": {"username": "me", "password": "secret"},
            "four.example": {"auth": BASE64.encode("x:"), "identitytoken": "refresh"},
            "five.example": {},
        }, "credsStore": "desktop"});
        assert_eq!(
            find(&[&auths], "one.example/a").await.as_deref(),
            Some("me:pass:word")
        );
        assert_eq!(
            find(&[&auths], "two.example/a").await.as_deref(),
            Some("me:word")
        );
        assert_eq!(
            find(&[&auths], "three.example/a").await.as_deref(),
            Some("me:secret")
        );
        assert_eq!(
            find(&[&auths], "four.example/a").await.as_deref(),
            Some("refresh")
        );
        assert_eq!(find(&[&auths], "five.example/a").await, None);
        assert_eq!(find(&[&auths], "six.example/a").await, None);
        assert_eq!(
            find(&[&json!({"credsStore": "x"})], "one.example/a").await,
            None
        );
    }

    #[tokio::test]
    async fn the_longest_key_wins() {
        let entry = |user: &str| json!({"username": user, "password": "p"});
        let first = json!({"auths": {
            "https://quay.io/v1/": entry("host"),
            "quay.io/a": entry("short"),
            "quay.io/a/b": entry("long"),
            "quay.io:5000": entry("port"),
            "https://index.docker.io/v1/": entry("hub"),
        }});
        let second = json!({"auths": {"quay.io/a/b": entry("second"), "quay.io/c": entry("c")}});
        for (image, user) in [
            ("quay.io/a/b", "long"),
            ("quay.io/a/b/c", "long"),
            ("quay.io/a/bc", "short"),
            ("quay.io/ab", "host"),
            ("quay.io/c", "c"),
            ("quay.io:5000/a/b", "port"),
            ("docker.io/library/x", "hub"),
        ] {
            let found = find(&[&first, &second], image).await;
            assert_eq!(found, Some(format!("{user}:p")), "{image}");
        }
        assert_eq!(find(&[&first], "io/a").await, None);
    }

    #[tokio::test]
    async fn a_bad_entry_is_passed_over() {
        let auths = json!({"auths": {
            "quay.io/a": {"auth": "%%%"},
            "quay.io": {"username": "me", "password": "p"},
            "two.example": {"auth": 7},
            "three.example": {"auth": BASE64.encode("no colon")},
        }});
        assert_eq!(find(&[&auths], "quay.io/a").await.as_deref(), Some("me:p"));
        assert_eq!(find(&[&auths], "two.example/a").await, None);
        assert_eq!(find(&[&auths], "three.example/a").await, None);
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_used_is_named_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing.json");
        let error = AuthFiles::new(vec![missing], Vec::new())
            .find("quay.io", "a")
            .await
            .unwrap_err();
        assert!(error.to_string().contains("missing.json"), "{error}");
        for content in ["\"hunter2\"", "{\"auths\": \"hunter2\"}", "{hunter2", ""] {
            let file = file(content);
            let files = AuthFiles::new(vec![file.path().to_owned()], Vec::new());
            let error = files.find("quay.io", "a").await.unwrap_err();
            assert!(
                !format!("{error} {error:?}").contains("hunter2"),
                "{error:?}"
            );
        }
        let large = file(&" ".repeat(MAX_FILE as usize + 1));
        let error = AuthFiles::new(vec![large.path().to_owned()], Vec::new())
            .find("quay.io", "a")
            .await;
        assert!(matches!(error, Err(AuthError::TooLarge { .. })));
    }

    #[tokio::test]
    async fn files_that_may_be_missing_are_read_when_they_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth.json");
        let files = AuthFiles::new(Vec::new(), vec![path.clone()]);
        assert_eq!(files.find("quay.io", "a").await.unwrap(), None);
        // Without the key `auths` it is Docker's first format.
        std::fs::write(&path, r#"{"https://quay.io/":{"username":"me"}}"#).unwrap();
        assert!(files.find("quay.io", "a").await.unwrap().is_some());
        std::fs::write(&path, "{").unwrap();
        assert!(files.find("quay.io", "a").await.is_err());
    }

    #[tokio::test]
    async fn a_changed_file_counts_at_once() {
        let file = file(r#"{"auths":{"quay.io":{"username":"old"}}}"#);
        let files = AuthFiles::new(vec![file.path().to_owned()], Vec::new());
        let old = files.find("quay.io", "a").await.unwrap();
        std::fs::write(file.path(), r#"{"auths":{"quay.io":{"username":"new"}}}"#).unwrap();
        assert_ne!(files.find("quay.io", "a").await.unwrap(), old);
    }

    #[test]
    fn secrets_print_masked() {
        let credentials = Credentials::Password {
            user: "me".into(),
            password: Secret("hunter2".into()),
        };
        assert!(!format!("{credentials:?}").contains("hunter2"));
        let header = basic("me", &Secret("hunter2".into())).unwrap();
        assert!(!format!("{header:?}").contains("Basic"));
        assert!(bearer(&Secret("a\nb".into())).is_none());
    }
}
