//! One credentials file.

use std::path::Path;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::config_files::{self, FileError, FileKind};
use crate::credentials::secret::{Credentials, Secret};

/// The largest credentials file, in bytes.
pub(super) const MAX_FILE: u64 = 1 << 20;
/// The names of Docker Hub.
const DOCKER_HUB: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];

/// Base64 with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The content of one file.
pub(super) struct AuthFile {
    pub(super) auths: Map<String, Value>,
    /// The credential helper of each registry.
    pub(super) helpers: Map<String, Value>,
    /// The credential helper of all other registries.
    pub(super) store: Option<String>,
}

/// Reads a file. It blocks. No error repeats its content.
pub(super) fn read(path: &Path) -> Result<AuthFile, FileError> {
    let bytes = config_files::read(FileKind::Credentials, path, MAX_FILE)?;
    let rejected = |problem: String| FileError::content(FileKind::Credentials, path, problem);
    // The parser's own message can repeat a value of the file.
    let document: Value = serde_json::from_slice(&bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        rejected(format!("invalid JSON at line {line}, column {column}"))
    })?;
    let Value::Object(mut document) = document else {
        return Err(rejected("it is no JSON object".into()));
    };
    let mut object = |name: &str| match document.remove(name) {
        Some(Value::Object(found)) => Ok(Some(found)),
        None | Some(Value::Null) => Ok(None),
        Some(_) => Err(rejected(format!("{name} is no JSON object"))),
    };
    let (auths, helpers) = (object("auths")?, object("credHelpers")?);
    let store = document.remove("credsStore");
    let store = store.as_ref().and_then(Value::as_str).map(str::to_owned);
    let auths = match auths {
        Some(auths) => auths,
        // Docker's first format (`.dockercfg`) has only the entries.
        None if helpers.is_none() && document.values().any(is_entry) => document,
        None => Map::new(),
    };
    Ok(AuthFile {
        auths,
        // Most files name no helper.
        helpers: helpers.unwrap_or_default(),
        store: store.filter(|store| !store.is_empty()),
    })
}

fn is_entry(value: &Value) -> bool {
    ["auth", "username", "identitytoken"]
        .iter()
        .any(|name| value.get(name).is_some_and(Value::is_string))
}

/// The length of the path that the key of an entry matches of
/// `registry/repository`; none if it does not match.
pub(super) fn match_length(key: &str, registry: &str, repository: &str) -> Option<usize> {
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

pub(super) fn is_hub(name: &str) -> bool {
    DOCKER_HUB.iter().any(|hub| name.eq_ignore_ascii_case(hub))
}

#[derive(Deserialize)]
pub(super) struct AuthEntry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

impl AuthEntry {
    /// The credentials of an entry: `Some(None)` if it is empty (a credential
    /// helper has them), `None` if it is invalid.
    #[expect(
        clippy::option_option,
        reason = "the only caller distinguishes empty and invalid entries"
    )]
    pub(super) fn into_credentials(self) -> Option<Option<Credentials>> {
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        if let Some(token) = filled(self.identitytoken) {
            return Some(Some(Credentials::IdentityToken(Secret::from(token))));
        }
        let (user, password) = match (filled(self.auth), filled(self.username)) {
            (Some(auth), _) => {
                let bytes = BASE64.decode(auth.trim()).ok()?;
                let pair = String::from_utf8(bytes).ok()?;
                let (user, password) = pair.split_once(':')?;
                (user.to_owned(), password.trim_end_matches('\0').to_owned())
            }
            // An empty password is valid.
            (None, Some(user)) => (user, self.password.unwrap_or_default()),
            (None, None) => return Some(None),
        };
        Some(Some(Credentials::Password {
            user,
            password: Secret::from(password),
        }))
    }
}
