//! The contents of `policy.json`.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::policy::identity::SignedIdentity;
use crate::policy::subject::PolicySubject;

/// The longest scope that an error repeats, in characters.
const MAX_SHOWN: usize = 200;
/// The most keys of one requirement.
const MAX_KEYS: usize = 32;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Policy {
    default: Requirements,
    #[serde(default)]
    transports: UniqueKeys<UniqueKeys<Requirements>>,
}

#[derive(Deserialize)]
#[serde(try_from = "Vec<Requirement>")]
struct Requirements(Vec<Requirement>);

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum Requirement {
    InsecureAcceptAnything {},
    Reject {},
    SignedBy(#[expect(dead_code, reason = "only its fields are checked")] SignedBy),
    SignedBaseLayer(#[expect(dead_code, reason = "only its fields are checked")] SignedBaseLayer),
    SigstoreSigned(Box<SigstoreSigned>),
}

/// Parsed only to find unknown fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SignedBy {
    _key_type: Option<String>,
    _key_path: Option<String>,
    _key_paths: Option<Vec<String>>,
    _key_data: Option<String>,
    _signed_identity: Option<SignedIdentity>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SignedBaseLayer {
    _base_layer_identity: Option<SignedIdentity>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SigstoreSigned {
    pub(super) key_path: Option<PathBuf>,
    pub(super) key_paths: Option<Vec<PathBuf>>,
    pub(super) key_data: Option<String>,
    pub(super) key_datas: Option<Vec<String>>,
    pub(super) fulcio: Option<IgnoredAny>,
    pub(super) pki: Option<IgnoredAny>,
    rekor_public_key_path: Option<IgnoredAny>,
    rekor_public_key_paths: Option<IgnoredAny>,
    rekor_public_key_data: Option<IgnoredAny>,
    rekor_public_key_datas: Option<IgnoredAny>,
    #[serde(default)]
    pub(super) signed_identity: SignedIdentity,
}

impl Policy {
    /// The requirements for an image, from the longest matching scope, and the
    /// name of that scope.
    pub(super) fn of(mut self, image: &PolicySubject) -> (String, Vec<Requirement>) {
        if let Some(mut transport) = self.transports.0.remove(image.transport()) {
            for scope in image.scopes() {
                if let Some(Requirements(found)) = transport.0.remove(&scope) {
                    let scope = if scope.is_empty() {
                        image.kind().to_owned() + " by default"
                    } else {
                        scope
                    };
                    return (scope, found);
                }
            }
        }
        ("everything by default".to_owned(), self.default.0)
    }

    /// Checks the scopes of the known transports.
    pub(super) fn check_scopes(&self) -> Result<(), String> {
        for (transport, scopes) in &self.transports.0 {
            let good: fn(&str) -> bool = match transport.as_str() {
                "oci" | "oci-archive" | "dir" => is_canonical_path,
                "docker-archive" => |_| false,
                _ => continue,
            };
            for scope in scopes.0.keys().filter(|scope| !scope.is_empty()) {
                if !good(scope) {
                    let shown: String = scope.chars().take(MAX_SHOWN).collect();
                    return Err(format!(
                        "the transport {transport:?} has no scope {shown:?}: it takes {}",
                        match transport.as_str() {
                            "docker-archive" => "only the empty one",
                            _ =>
                                "absolute paths without \"//\", \".\" and \"..\" and without a slash at the end",
                        }
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Whether a path is absolute, and written in the shortest way.
fn is_canonical_path(text: &str) -> bool {
    let parts = text.strip_prefix('/');
    parts.is_some_and(|parts| {
        parts
            .split('/')
            .all(|part| !matches!(part, "" | "." | ".."))
    })
}

impl TryFrom<Vec<Requirement>> for Requirements {
    type Error = &'static str;

    fn try_from(requirements: Vec<Requirement>) -> Result<Self, Self::Error> {
        if requirements.is_empty() {
            return Err("a list of requirements is empty");
        }
        for requirement in &requirements {
            if let Requirement::SigstoreSigned(sigstore) = requirement {
                sigstore.check()?;
            }
        }
        Ok(Self(requirements))
    }
}

impl SigstoreSigned {
    fn check(&self) -> Result<(), &'static str> {
        let ways = [
            self.key_path.is_some(),
            self.key_paths.is_some(),
            self.key_data.is_some(),
            self.key_datas.is_some(),
            self.fulcio.is_some(),
            self.pki.is_some(),
        ];
        if ways.into_iter().filter(|there| *there).count() != 1 {
            return Err(
                "sigstoreSigned needs exactly one of keyPath, keyPaths, keyData, keyDatas, \
                 fulcio and pki",
            );
        }
        let many = self.key_paths.as_ref().map(Vec::len);
        match many.or(self.key_datas.as_ref().map(Vec::len)) {
            Some(0) => Err("sigstoreSigned has an empty list of keys"),
            Some(many) if many > MAX_KEYS => Err("sigstoreSigned has more than 32 keys"),
            _ => Ok(()),
        }
    }

    pub(super) fn has_rekor(&self) -> bool {
        self.rekor_public_key_path.is_some()
            || self.rekor_public_key_paths.is_some()
            || self.rekor_public_key_data.is_some()
            || self.rekor_public_key_datas.is_some()
    }
}

/// A JSON object without repeated keys.
struct UniqueKeys<T>(BTreeMap<String, T>);

impl<T> Default for UniqueKeys<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for UniqueKeys<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(UniqueKeysVisitor(PhantomData))
    }
}

struct UniqueKeysVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for UniqueKeysVisitor<T> {
    type Value = UniqueKeys<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UniqueKeys<T>, A::Error> {
        let mut all = BTreeMap::new();
        while let Some((key, value)) = map.next_entry::<String, T>()? {
            if all.contains_key(&key) {
                let shown: String = key.chars().take(100).collect();
                let problem = format!("the key {shown:?} is repeated");
                return Err(serde::de::Error::custom(problem));
            }
            all.insert(key, value);
        }
        Ok(UniqueKeys(all))
    }
}
