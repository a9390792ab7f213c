//! Credentials, as Docker and podman keep them in `auth.json` files.
//!
//! The files are read afresh whenever a registry asks for credentials, so a
//! rotated secret counts at once. Credential helpers (programs that are run)
//! are not supported.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::HeaderValue;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::io::AsyncReadExt;

/// The largest credentials file, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// The names under which Docker Hub is known.
const DOCKER_HUB: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];

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
    paths: Vec<PathBuf>,
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
    /// Not JSON, or without `auths`.
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
    pub(super) fn expose(&self) -> &str {
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
pub(super) fn basic(user: &str, password: &Secret) -> Option<HeaderValue> {
    let pair = BASE64.encode(format!("{user}:{}", password.expose()));
    header(&format!("Basic {pair}"))
}

/// The value of an `Authorization` header with a token.
pub(super) fn bearer(token: &Secret) -> Option<HeaderValue> {
    header(&format!("Bearer {}", token.expose()))
}

fn header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    // Keeps it out of Debug output and of the header compression tables.
    value.set_sensitive(true);
    Some(value)
}

impl AuthFiles {
    /// Looks into `paths`, in this order.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths }
    }

    /// The credentials for a repository: of all entries the one whose key
    /// (`host`, `host:port`, `host/path` ...) matches the longest part, the
    /// first file winning a tie. An entry that cannot be read is logged and
    /// passed over; a file that cannot be read is an error, since somebody
    /// counts on it.
    pub async fn find(
        &self,
        registry: &str,
        repository: &str,
    ) -> Result<Option<Credentials>, AuthError> {
        let mut best: Option<(usize, Credentials)> = None;
        for path in &self.paths {
            let found = search(path, &read(path).await?, registry, repository);
            if let Some((length, credentials)) = found
                && best.as_ref().is_none_or(|(longest, _)| length > *longest)
            {
                best = Some((length, credentials));
            }
        }
        Ok(best.map(|(_, credentials)| credentials))
    }
}

async fn read(path: &Path) -> Result<Map<String, Value>, AuthError> {
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
    match document {
        Value::Object(mut document) => match document.remove("auths") {
            Some(Value::Object(auths)) => Ok(auths),
            // A file that only names a credential helper.
            None | Some(Value::Null) => Ok(Map::new()),
            Some(_) => Err(content("auths is no object".into())),
        },
        _ => Err(content("it is no object".into())),
    }
}

/// The best entry of one file, with the length of its key.
fn search(
    path: &Path,
    auths: &Map<String, Value>,
    registry: &str,
    repository: &str,
) -> Option<(usize, Credentials)> {
    let mut matching = auths
        .iter()
        .filter_map(|(key, entry)| Some((match_length(key, registry, repository)?, key, entry)))
        .collect::<Vec<_>>();
    matching.sort_by_key(|(length, ..)| std::cmp::Reverse(*length));
    matching.into_iter().find_map(|(length, key, entry)| {
        match Entry::deserialize(entry).ok().and_then(Entry::into_credentials) {
            Some(Some(credentials)) => Some((length, credentials)),
            Some(None) => None,
            None => {
                tracing::warn!(path = %path.display(), key, "credentials entry is not valid, passed over");
                None
            }
        }
    })
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
    let hub = |name: &str| DOCKER_HUB.iter().any(|hub| name.eq_ignore_ascii_case(hub));
    let same_host = host.eq_ignore_ascii_case(registry) || (hub(host) && hub(registry));
    if !same_host {
        return None;
    }
    if path.is_empty() {
        return Some(0);
    }
    let rest = repository.strip_prefix(path)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(path.len())
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
        let found = AuthFiles::new(paths)
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
        let error = AuthFiles::new(vec![missing])
            .find("quay.io", "a")
            .await
            .unwrap_err();
        assert!(error.to_string().contains("missing.json"), "{error}");
        for content in ["\"hunter2\"", "{\"auths\": \"hunter2\"}", "{hunter2", ""] {
            let file = file(content);
            let files = AuthFiles::new(vec![file.path().to_owned()]);
            let error = files.find("quay.io", "a").await.unwrap_err();
            assert!(
                !format!("{error} {error:?}").contains("hunter2"),
                "{error:?}"
            );
        }
        let large = file(&" ".repeat(MAX_FILE as usize + 1));
        let error = AuthFiles::new(vec![large.path().to_owned()])
            .find("quay.io", "a")
            .await;
        assert!(matches!(error, Err(AuthError::TooLarge { .. })));
    }

    #[tokio::test]
    async fn a_changed_file_counts_at_once() {
        let file = file(r#"{"auths":{"quay.io":{"username":"old"}}}"#);
        let files = AuthFiles::new(vec![file.path().to_owned()]);
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
