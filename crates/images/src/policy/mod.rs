//! Which images are let in: `policy.json`, as containers-policy.json(5)
//! describes it, for images of registries.
//!
//! A file that is there and cannot be read, or holds anything that is not
//! known, lets nothing in. Requirements that are known and not supported
//! (GPG signatures, Fulcio, Rekor) refuse the images that they are about, by
//! name. Fetching signatures is left to `signatures`.

mod identity;
mod key;
mod payload;
pub(crate) mod signatures;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::digest::Digest;
use crate::files;
use crate::files::{FileError, FileKind};
use crate::reference::Reference;

use identity::SignedIdentity;
use key::PublicKey;
use payload::Payload;

/// The largest policy, in bytes.
const MAX_POLICY: u64 = 4 << 20;
/// The largest public key, in bytes.
const MAX_KEY: u64 = 64 << 10;
/// The most keys of one requirement.
const MAX_KEYS: usize = 32;

/// Where the policy is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyFiles {
    /// The file that somebody named; it has to be there.
    pub named: Option<PathBuf>,
    /// Where it usually is: the first there is counts. With none of them,
    /// every image is let in.
    pub usual: Vec<PathBuf>,
}

/// Why an image is not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The policy rejects it, signed or not.
    #[error("the policy {} rejects {scope}", policy.display())]
    Rejected {
        /// The file.
        policy: PathBuf,
        /// The scope that holds for the image.
        scope: String,
    },
    /// The policy asks for something that is not supported.
    #[error("the policy {} asks for {what} for {scope}, which is not supported", policy.display())]
    Unsupported {
        /// The file.
        policy: PathBuf,
        /// The scope that holds for the image.
        scope: String,
        /// What it asks for.
        what: String,
    },
    /// No signature is one that the policy asks for.
    #[error("the policy {} asks for a signature of {scope}: {problem}", policy.display())]
    Unsigned {
        /// The file.
        policy: PathBuf,
        /// The scope that holds for the image.
        scope: String,
        /// What was found instead.
        problem: String,
    },
}

/// What one image has to be, to be let in.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    policy: PathBuf,
    scope: String,
    /// Each of them needs a signature of its own.
    signed: Vec<Signed>,
}

/// A signature that an image needs.
#[derive(Debug)]
pub(crate) struct Signed {
    keys: Vec<PublicKey>,
    identity: SignedIdentity,
}

/// A signature as it lies in a registry: the signed bytes, and what was made
/// of them with a key.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    pub(crate) payload: Vec<u8>,
    pub(crate) signature: Vec<u8>,
}

impl Admission {
    /// Reads the policy as it is now, and what it asks of an image. It blocks.
    pub(crate) fn read(
        files: &PolicyFiles,
        reference: &Reference,
    ) -> Result<Result<Self, Refusal>, FileError> {
        let found = match &files.named {
            Some(path) => Some((
                path.as_path(),
                files::read(FileKind::Policy, path, MAX_POLICY)?,
            )),
            None => files::first(FileKind::Policy, &files.usual, MAX_POLICY)?,
        };
        let Some((path, bytes)) = found else {
            return Ok(Ok(Self::default()));
        };
        let policy: Policy = serde_json::from_slice(&bytes)
            .map_err(|error| FileError::content(FileKind::Policy, path, error))?;
        let (scope, requirements) = policy.of(reference);
        admission(path, scope, requirements)
    }

    /// The signatures that are asked for; none when any image will do.
    pub(crate) fn signed(&self) -> &[Signed] {
        &self.signed
    }

    /// The refusal of an image whose signatures will not do.
    pub(crate) fn unsigned(&self, problem: String) -> Refusal {
        Refusal::Unsigned {
            policy: self.policy.clone(),
            scope: self.scope.clone(),
            problem,
        }
    }
}

impl Signed {
    /// Whether a signature is the one that is asked for: made with one of the
    /// keys, over this digest, under a name that fits the image.
    pub(crate) fn check(
        &self,
        signature: &Signature,
        image: &Reference,
        digest: &Digest,
    ) -> Result<(), String> {
        let Signature { payload, signature } = signature;
        if !self.keys.iter().any(|key| key.verifies(payload, signature)) {
            return Err("it was not made with a key of the policy".into());
        }
        // What was signed is not looked at before that is known.
        let payload = Payload::parse(payload)?;
        if payload.digest != *digest {
            return Err(format!("it is one of {}", payload.digest));
        }
        self.identity.check(image, &payload.name)
    }
}

fn admission(
    path: &Path,
    scope: String,
    requirements: Vec<Requirement>,
) -> Result<Result<Admission, Refusal>, FileError> {
    let mut signed = Vec::new();
    for requirement in requirements {
        let unsupported = |what: &str| {
            Ok(Err(Refusal::Unsupported {
                policy: path.to_owned(),
                scope: scope.clone(),
                what: what.to_owned(),
            }))
        };
        let sigstore = match requirement {
            Requirement::InsecureAcceptAnything {} => continue,
            Requirement::Reject {} => {
                let policy = path.to_owned();
                return Ok(Err(Refusal::Rejected { policy, scope }));
            }
            Requirement::SignedBy(_) => return unsupported("signedBy (GPG signatures)"),
            Requirement::SignedBaseLayer(_) => return unsupported("signedBaseLayer"),
            Requirement::SigstoreSigned(sigstore) => sigstore,
        };
        if sigstore.fulcio.is_some() {
            return unsupported("sigstoreSigned with fulcio");
        }
        if sigstore.pki.is_some() {
            return unsupported("sigstoreSigned with pki");
        }
        if sigstore.has_rekor() {
            return unsupported("sigstoreSigned with a key of Rekor");
        }
        signed.push(sigstore.into_signed(path)?);
    }
    Ok(Ok(Admission {
        policy: path.to_owned(),
        scope,
        signed,
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Policy {
    default: Requirements,
    #[serde(default)]
    transports: Unique<Unique<Requirements>>,
}

#[derive(Deserialize)]
#[serde(try_from = "Vec<Requirement>")]
struct Requirements(Vec<Requirement>);

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
enum Requirement {
    InsecureAcceptAnything {},
    Reject {},
    SignedBy(#[expect(dead_code, reason = "only its shape is looked at")] SignedBy),
    SignedBaseLayer(#[expect(dead_code, reason = "only its shape is looked at")] SignedBaseLayer),
    SigstoreSigned(Box<SigstoreSigned>),
}

/// Only looked at to tell what is known from what is not.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SignedBy {
    #[serde(default, rename = "keyType")]
    _key_type: Option<String>,
    #[serde(default, rename = "keyPath")]
    _key_path: Option<String>,
    #[serde(default, rename = "keyPaths")]
    _key_paths: Option<Vec<String>>,
    #[serde(default, rename = "keyData")]
    _key_data: Option<String>,
    #[serde(default, rename = "signedIdentity")]
    _signed_identity: Option<SignedIdentity>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SignedBaseLayer {
    #[serde(default, rename = "baseLayerIdentity")]
    _base_layer_identity: Option<SignedIdentity>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SigstoreSigned {
    key_path: Option<PathBuf>,
    key_paths: Option<Vec<PathBuf>>,
    key_data: Option<String>,
    key_datas: Option<Vec<String>>,
    fulcio: Option<IgnoredAny>,
    pki: Option<IgnoredAny>,
    rekor_public_key_path: Option<IgnoredAny>,
    rekor_public_key_paths: Option<IgnoredAny>,
    rekor_public_key_data: Option<IgnoredAny>,
    rekor_public_key_datas: Option<IgnoredAny>,
    #[serde(default)]
    signed_identity: SignedIdentity,
}

impl Policy {
    /// What is asked of an image: that of the longest scope that holds for it,
    /// which is named.
    fn of(mut self, reference: &Reference) -> (String, Vec<Requirement>) {
        if let Some(mut docker) = self.transports.0.remove("docker") {
            for scope in scopes(reference) {
                if let Some(Requirements(found)) = docker.0.remove(&scope) {
                    let scope = if scope.is_empty() {
                        "registries by default".to_owned()
                    } else {
                        scope
                    };
                    return (scope, found);
                }
            }
        }
        ("everything by default".to_owned(), self.default.0)
    }
}

/// The scopes that hold for an image, the longest first: itself, its
/// repository, all above that, its host, the domains of that, any.
fn scopes(reference: &Reference) -> Vec<String> {
    let host = reference.registry();
    let name = format!("{host}/{}", reference.repository());
    let mut scopes = vec![reference.to_string()];
    let mut rest = name.as_str();
    loop {
        scopes.push(rest.to_owned());
        match rest.rsplit_once('/') {
            Some((above, _)) => rest = above,
            None => break,
        }
    }
    let mut domain = host;
    while let Some((_, above)) = domain.split_once('.') {
        scopes.push(format!("*.{above}"));
        domain = above;
    }
    scopes.push(String::new());
    scopes
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

    fn has_rekor(&self) -> bool {
        self.rekor_public_key_path.is_some()
            || self.rekor_public_key_paths.is_some()
            || self.rekor_public_key_data.is_some()
            || self.rekor_public_key_datas.is_some()
    }

    fn into_signed(self, policy: &Path) -> Result<Signed, FileError> {
        let mut keys = Vec::new();
        for path in self
            .key_path
            .into_iter()
            .chain(self.key_paths.into_iter().flatten())
        {
            let pem = files::read(FileKind::Key, &path, MAX_KEY)?;
            let key = PublicKey::parse(&pem);
            keys.push(key.map_err(|problem| FileError::content(FileKind::Key, &path, problem))?);
        }
        for data in self
            .key_data
            .into_iter()
            .chain(self.key_datas.into_iter().flatten())
        {
            let pem = BASE64_STANDARD.decode(data.trim());
            let key = pem
                .map_err(|_| "it is no base64")
                .and_then(|pem| PublicKey::parse(&pem));
            keys.push(key.map_err(|problem| {
                FileError::content(FileKind::Policy, policy, format!("keyData: {problem}"))
            })?);
        }
        Ok(Signed {
            keys,
            identity: self.signed_identity,
        })
    }
}

/// A JSON object in which no key stands twice.
struct Unique<T>(BTreeMap<String, T>);

impl<T> Default for Unique<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Unique<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(UniqueVisitor(PhantomData))
    }
}

struct UniqueVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for UniqueVisitor<T> {
    type Value = Unique<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique<T>, A::Error> {
        let mut all = BTreeMap::new();
        while let Some((key, value)) = map.next_entry::<String, T>()? {
            if all.contains_key(&key) {
                let shown: String = key.chars().take(100).collect();
                let problem = format!("the key {shown:?} stands twice");
                return Err(serde::de::Error::custom(problem));
            }
            all.insert(key, value);
        }
        Ok(Unique(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(text: &str, image: &str) -> Result<Result<Admission, Refusal>, FileError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.json");
        std::fs::write(&path, text).unwrap();
        let files = PolicyFiles {
            named: Some(path),
            usual: Vec::new(),
        };
        Admission::read(&files, &image.parse().unwrap())
    }

    #[test]
    fn the_longest_scope_counts() {
        let accept = json!([{"type": "insecureAcceptAnything"}]);
        let reject = json!([{"type": "reject"}]);
        let policy = |default: &serde_json::Value| {
            json!({"default": default, "transports": {
                "docker-daemon": {"": accept},
                "docker": {
                    "quay.io": accept,
                    "quay.io/a": reject,
                    "quay.io/a/b": accept,
                    "quay.io/a/b:bad": reject,
                    "*.example.com": accept,
                    "x.example.com": reject,
                },
            }})
            .to_string()
        };
        for (image, scope) in [
            ("quay.io/c:v1", None),
            ("quay.io/a/c:v1", Some("quay.io/a")),
            ("quay.io/ab:v1", None),
            ("quay.io/a/b:v1", None),
            ("quay.io/a/b:bad", Some("quay.io/a/b:bad")),
            ("y.x.example.com/a:v1", None),
            ("x.example.com/a:v1", Some("x.example.com")),
            ("example.com/a:v1", Some("everything by default")),
        ] {
            let admission = read(&policy(&reject), image).unwrap();
            let refused = admission.err().map(|refusal| match refusal {
                Refusal::Rejected { scope, .. } => scope,
                other => panic!("{other}"),
            });
            assert_eq!(refused.as_deref(), scope, "{image}");
        }
        assert!(read(&policy(&accept), "example.com/a").unwrap().is_ok());
    }

    #[test]
    fn what_is_not_known_lets_nothing_in() {
        let accept = r#"[{"type":"insecureAcceptAnything"}]"#;
        for text in [
            String::new(),
            "[]".into(),
            "{}".into(),
            r#"{"default":[]}"#.into(),
            r#"{"default":[{"type":"acceptEverything"}]}"#.into(),
            r#"{"default":[{}]}"#.into(),
            r#"{"default":[{"type":"reject","more":1}]}"#.into(),
            format!(r#"{{"default":{accept},"default":{accept}}}"#),
            format!(r#"{{"default":{accept},"extra":1}}"#),
            format!(r#"{{"default":{accept},"transports":{{"docker":{{"a":{accept},"a":{accept}}}}}}}"#),
            // Not even where it is about something else.
            format!(r#"{{"default":{accept},"transports":{{"docker":{{"a.b":[{{"type":"new"}}]}}}}}}"#),
            r#"{"default":[{"type":"sigstoreSigned"}]}"#.into(),
            r#"{"default":[{"type":"sigstoreSigned","keyPath":"a","keyData":"b"}]}"#.into(),
            r#"{"default":[{"type":"sigstoreSigned","keyPaths":[]}]}"#.into(),
            r#"{"default":[{"type":"sigstoreSigned","keyData":"%"}]}"#.into(),
            r#"{"default":[{"type":"sigstoreSigned","keyPath":"missing"}]}"#.into(),
            r#"{"default":[{"type":"sigstoreSigned","keyPath":"a","signedIdentity":{"type":"x"}}]}"#
                .into(),
        ] {
            let error = read(&text, "quay.io/a").unwrap_err();
            assert_eq!(error.reason(), "policy", "{text}");
        }
    }

    #[test]
    fn what_is_not_supported_is_refused_by_its_name() {
        for (requirement, what) in [
            (
                json!({"type": "signedBy", "keyType": "GPGKeys", "keyPath": "x"}),
                "signedBy",
            ),
            (
                json!({"type": "sigstoreSigned", "fulcio": {"caPath": "x"}}),
                "fulcio",
            ),
            (json!({"type": "sigstoreSigned", "pki": {}}), "pki"),
            (
                json!({"type": "sigstoreSigned", "keyPath": "x", "rekorPublicKeyPath": "y"}),
                "Rekor",
            ),
        ] {
            let policy = json!({
                "default": [{"type": "insecureAcceptAnything"}],
                "transports": {"docker": {"quay.io/a": [requirement]}},
            });
            let refusal = read(&policy.to_string(), "quay.io/a").unwrap().unwrap_err();
            let text = refusal.to_string();
            assert!(text.contains(what) && text.contains("quay.io/a"), "{text}");
            assert!(read(&policy.to_string(), "quay.io/b").unwrap().is_ok());
        }
    }

    #[test]
    fn without_a_policy_everything_is_let_in_unless_one_was_named() {
        let missing = PathBuf::from("does/not/exist.json");
        let reference = "quay.io/a".parse().unwrap();
        let usual = PolicyFiles {
            named: None,
            usual: vec![missing.clone()],
        };
        let admission = Admission::read(&usual, &reference).unwrap().unwrap();
        assert!(admission.signed().is_empty());
        let named = PolicyFiles {
            named: Some(missing),
            usual: Vec::new(),
        };
        assert!(Admission::read(&named, &reference).is_err());
        // Nor does a key that is missing make a policy that is.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.json");
        let requirement = json!({"type": "sigstoreSigned", "keyPath": "/missing.pub"});
        std::fs::write(&path, json!({"default": [requirement]}).to_string()).unwrap();
        let usual = PolicyFiles {
            named: None,
            usual: vec![path],
        };
        assert!(Admission::read(&usual, &reference).is_err());
        // A folder in its place is there, and is no policy.
        let folder = tempfile::tempdir().unwrap();
        let odd = PolicyFiles {
            named: None,
            usual: vec![folder.path().to_owned()],
        };
        assert!(Admission::read(&odd, &reference).is_err());
    }
}
