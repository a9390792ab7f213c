//! One credentials file.

use std::path::Path;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::config_files::{self, FileError, FileKind};
use crate::credentials::secret::{Credentials, Secret};
use crate::folded_keys::Folded;

/// The largest credentials file, in bytes.
pub(super) const MAX_FILE: u64 = 1 << 20;
/// The names of Docker Hub.
const DOCKER_HUB: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];

/// Base64 with or without padding. Go's decoder ignores the unused bits, too.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
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
        return Err(rejected("it is not a JSON object".into()));
    };
    let mut take = |name: &str| {
        let key = document
            .keys()
            .find(|key| key.eq_ignore_ascii_case(name))
            .cloned();
        key.and_then(|key| document.remove(&key))
    };
    let store = take("credsStore");
    let mut object = |name: &str| match take(name) {
        Some(Value::Object(found)) => Ok(Some(found)),
        None | Some(Value::Null) => Ok(None),
        Some(_) => Err(rejected(format!("{name} is not a JSON object"))),
    };
    let (auths, helpers) = (object("auths")?, object("credHelpers")?);
    let store = store.as_ref().and_then(Value::as_str).map(str::to_owned);
    let auths = match auths {
        Some(auths) => auths,
        // Docker's first format (`.dockercfg`) has only the entries.
        None if helpers.is_none() && document.values().any(is_entry) => {
            let entries = document.into_iter();
            // Its keys are hosts and addresses.
            entries
                .map(|(key, entry)| {
                    let address = match key.split_once("://") {
                        Some(_) => key,
                        // A host alone comes before an address of it.
                        None => format!("://{key}"),
                    };
                    (address, entry)
                })
                .collect()
        }
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

/// How the key of an entry matches a repository.
pub(super) struct KeyMatch {
    /// The length of the matching path.
    pub(super) length: usize,
    /// Whether the host is written as the name of the registry, without a
    /// scheme.
    pub(super) is_exact: bool,
}

/// Matches the key of an entry with `registry/repository`.
pub(super) fn match_key(key: &str, registry: &str, repository: &str) -> Option<KeyMatch> {
    let (scheme, key) = match key.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, key),
    };
    let (host, path) = key.split_once('/').unwrap_or((key, ""));
    // Docker writes https://HOST/v1/ for the whole of HOST.
    let path = if scheme.is_some() {
        ""
    } else {
        path.trim_end_matches('/')
    };
    let same_host = host.eq_ignore_ascii_case(registry);
    let rest = repository.strip_prefix(path)?;
    let matches = (same_host || is_hub(host) && is_hub(registry))
        && (path.is_empty() || rest.is_empty() || rest.starts_with('/'));
    matches.then_some(KeyMatch {
        length: path.len(),
        is_exact: host == registry && scheme.is_none_or(str::is_empty),
    })
}

pub(super) fn is_hub(name: &str) -> bool {
    DOCKER_HUB.iter().any(|hub| name.eq_ignore_ascii_case(hub))
}

/// An entry. Its keys are read in any case.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AuthEntry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

/// The credentials of an entry: `Some(None)` if it is empty (a credential helper
/// has them), `None` if it is invalid.
#[expect(
    clippy::option_option,
    reason = "the only caller distinguishes empty and invalid entries"
)]
pub(super) fn entry_credentials(entry: &Value) -> Option<Option<Credentials>> {
    let Folded(entry): Folded<AuthEntry> = Folded::deserialize(entry).ok()?;
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
    let identity_token = filled(entry.identitytoken).map(Secret::from);
    let basic = match (filled(entry.auth), filled(entry.username)) {
        (Some(auth), _) => match password_of(&auth) {
            None if identity_token.is_none() => return None,
            basic => basic,
        },
        // An empty password is valid.
        (None, Some(user)) => {
            let password = entry.password.unwrap_or_default();
            Credentials::password(user.as_bytes(), password.as_bytes()).basic
        }
        (None, None) if identity_token.is_none() => return Some(None),
        (None, None) => None,
    };
    Some(Some(Credentials {
        basic,
        identity_token,
    }))
}

/// The user and password of `auth`, which is base64 with or without line breaks
/// and padding.
fn password_of(auth: &str) -> Option<Secret> {
    let digits: Vec<u8> = auth
        .trim()
        .bytes()
        .filter(|byte| !b"\r\n".contains(byte))
        .collect();
    let bytes = BASE64.decode(digits).ok()?;
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    let (user, mut password) = (&bytes[..colon], &bytes[colon + 1..]);
    while let [0, rest @ ..] | [rest @ .., 0] = password {
        password = rest;
    }
    Credentials::password(user, password).basic
}
