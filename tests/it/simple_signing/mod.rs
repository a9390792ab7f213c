//! `signedBy`: OpenPGP signatures that `GnuPG` makes, in folders, on web servers
//! and in registries, judged by almanac and, where it is installed, by skopeo.

mod keys;
mod messages;
mod old_packets;
mod places;
mod podman;
mod rhel;
mod status;
mod web_server;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use images::{Error, PolicyFiles, Registries, Settings, SignatureStoreFiles};
use rustls::ServerConfig;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::catalog::Catalog;
use crate::support::gpg::Gpg;
use crate::support::image::{Built, Image};
use crate::support::needs::on_path;
use crate::support::runtime::block_on;
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "team/app";

/// A registry with an image, and a folder of signatures.
struct Setup {
    upstream: Upstream,
    image: Built,
    folder: TempDir,
    gpg: Gpg,
}

/// The verdict of skopeo on the same.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Peer {
    Same,
    /// One of the documented differences.
    Differs,
}

/// The verdict that lets an image in.
const GOOD: &str = "";

impl Setup {
    fn new() -> Self {
        Self::with(None)
    }

    /// A setup whose registry speaks TLS if it is told how.
    fn with(tls: Option<Arc<ServerConfig>>) -> Self {
        let setup = Self {
            upstream: Upstream::start_at("127.0.0.1:0", tls),
            image: Image::of_catalog(&Catalog::one("first")).build(),
            folder: tempfile::tempdir().unwrap(),
            gpg: Gpg::new(),
        };
        setup.upstream.push(REPOSITORY, "v1", &setup.image);
        fs::create_dir(setup.path("registries.d")).unwrap();
        setup.look_at(&format!("file://{}", setup.path("store").display()));
        setup
    }

    /// A setup, and a key that its policy requires.
    fn with_key(algorithm: &str) -> (Self, String) {
        let setup = Self::new();
        let key = setup.gpg.key("signer", &[algorithm, "sign", "never"]);
        setup.require(&[&key]);
        (setup, key)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn look_at(&self, base: &str) {
        let text = format!("default-docker:\n  lookaside: {base}\n");
        fs::write(self.path("registries.d/default.yaml"), text).unwrap();
    }

    fn tagged(&self) -> String {
        self.upstream.reference(REPOSITORY, "v1")
    }

    fn document(&self, name: &str) -> Vec<u8> {
        let document = json!({
            "critical": {
                "type": "atomic container signature",
                "image": {"docker-manifest-digest": self.image.digest().to_string()},
                "identity": {"docker-reference": name},
            },
            "optional": {"creator": "tests", "timestamp": 1_700_000_000},
        });
        document.to_string().into_bytes()
    }

    /// The usual document, signed.
    fn signed(&self, key: &str, more: &[&str]) -> Vec<u8> {
        self.gpg.sign(key, &self.document(&self.tagged()), more)
    }

    /// Requires a signature by these keys.
    fn require(&self, keys: &[&str]) {
        self.require_keyring(&self.gpg.export(keys));
    }

    /// Requires a signature by the keys of a file.
    fn require_keyring(&self, keyring: &[u8]) {
        let path = self.path("keys.gpg");
        fs::write(&path, keyring).unwrap();
        self.require_of(&json!({"keyPath": path}));
    }

    fn require_of(&self, keys: &Value) {
        let mut requirement = json!({"type": "signedBy", "keyType": "GPGKeys"});
        let members = keys.as_object().unwrap().clone();
        requirement.as_object_mut().unwrap().extend(members);
        let policy = json!({
            "default": [{"type": "reject"}],
            "transports": {"docker": {"": [requirement]}},
        });
        fs::write(self.path("policy.json"), policy.to_string()).unwrap();
    }

    /// Stores exactly these signatures.
    fn store(&self, signatures: &[Vec<u8>]) {
        let hex = self.image.digest().hex();
        let store = self.path("store");
        let _ = fs::remove_dir_all(&store);
        let folder = store.join(format!("{REPOSITORY}@sha256={hex}"));
        fs::create_dir_all(&folder).unwrap();
        for (number, signature) in (1..).zip(signatures) {
            fs::write(folder.join(format!("signature-{number}")), signature).unwrap();
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            policy: PolicyFiles {
                named: Some(self.path("policy.json")),
                stores: SignatureStoreFiles {
                    named: Some(self.path("registries.d")),
                    ..SignatureStoreFiles::default()
                },
                ..PolicyFiles::default()
            },
            ..Settings::default()
        }
    }

    fn admitted(&self) -> Result<String, Error> {
        judged(&self.settings(), &self.tagged())
    }

    /// Holds the verdict about one signature, by almanac and skopeo, against a
    /// part of the reason; [`GOOD`] has none.
    fn judge(&self, name: &str, signature: Vec<u8>, problem: &str) {
        self.judge_all(name, &[signature], problem, Peer::Same);
    }

    /// The same where the documentation says that skopeo differs.
    fn judge_alone(&self, name: &str, signature: Vec<u8>, problem: &str) {
        self.judge_all(name, &[signature], problem, Peer::Differs);
    }

    fn judge_all(&self, name: &str, signatures: &[Vec<u8>], problem: &str, peer: Peer) {
        self.store(signatures);
        match &self.admitted() {
            Ok(_) => assert_eq!(problem, GOOD, "{name} is let in"),
            Err(error) => {
                assert_eq!(error.reason(), "signature", "{name}: {error}");
                let text = error.to_string();
                let is_wanted = problem != GOOD && text.contains(problem);
                assert!(is_wanted, "{name}: {problem:?} in {text:?}");
            }
        }
        if on_path("skopeo") {
            let theirs = self.skopeo();
            let same = theirs.is_ok() == (problem == GOOD);
            assert_eq!(same, peer == Peer::Same, "{name}: skopeo: {theirs:?}");
        }
    }

    /// Whether skopeo copies the image.
    fn skopeo(&self) -> Result<(), String> {
        let flag = |name: &str, file: &str| format!("--{name}={}", self.path(file).display());
        let output = Command::new("skopeo")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.folder.path())
            .args([
                flag("policy", "policy.json"),
                flag("registries.d", "registries.d"),
            ])
            .args([
                "copy",
                "--quiet",
                "--src-tls-verify=false",
                "--remove-signatures",
            ])
            .arg(format!("docker://{}", self.tagged()))
            .arg(format!("dir:{}", self.path("copy").display()))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or(error)
    }
}

/// Judges an image. Returns what came of the requirements.
fn judged(settings: &Settings, source: &str) -> Result<String, Error> {
    block_on(async {
        let registries = Registries::new(settings)?;
        let route = registries.route(&source.parse().unwrap()).await?;
        let digest = route.resolve().await?.digest;
        let verdict = route.admit(&digest, None).await?;
        Ok(format!("{:?}", verdict.requirements))
    })
}
