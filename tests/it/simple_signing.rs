//! `signedBy`: OpenPGP signatures that `GnuPG` makes, in folders, on web servers
//! and in registries, judged by almanac and, where it is installed, by skopeo.
//!
//! | case | test |
//! |---|---|
//! | 10 | `a_payload_of_the_other_kind_is_refused` |
//! | 34 | `signatures_of_each_usual_key_are_accepted`, `a_signature_of_version_3_is_accepted` |
//! | 35 | `a_signature_or_key_that_ended_is_refused` |
//! | 36 | `other_messages_than_signed_ones_are_refused` |
//! | 37 | `a_message_with_anything_behind_it_is_refused` |
//! | 38 | `weak_hashes_and_keys_are_refused` |
//! | 39 | `one_good_signature_among_others_is_enough` |
//! | 40 | `only_404_ends_the_signatures_of_a_web_server` |

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use images::digest::Digest;
use images::{Error, PolicyFiles, Registries, Settings, SignatureStoreFiles};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::almanac::{Almanac, following};
use crate::support::catalog::Catalog;
use crate::support::cosign::Signer;
use crate::support::gpg::Gpg;
use crate::support::http;
use crate::support::image::{Built, Image};
use crate::support::needs::{on_path, skip_without};
use crate::support::registry::Access;
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "team/app";

/// A registry with an image, and a folder of signatures.
struct Setup {
    upstream: Upstream,
    image: Built,
    folder: TempDir,
    gpg: Gpg,
}

/// What skopeo says to the same.
#[derive(Clone, Copy)]
enum Peer {
    Same,
    /// One of the documented differences.
    Differs,
}

impl Setup {
    fn new() -> Self {
        let setup = Self {
            upstream: Upstream::start(),
            image: Image::of_catalog(&Catalog::one("first")).build(),
            folder: tempfile::tempdir().unwrap(),
            gpg: Gpg::new(),
        };
        setup.upstream.push(REPOSITORY, "v1", &setup.image);
        fs::create_dir(setup.path("registries.d")).unwrap();
        setup.look_at(&format!("file://{}", setup.path("store").display()));
        setup
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
        let path = self.path("keys.gpg");
        fs::write(&path, self.gpg.export(keys)).unwrap();
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

    #[expect(clippy::unused_self, reason = "judgements are those of a setup")]
    fn judged(&self, settings: &Settings, source: &str) -> Result<String, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let registries = Registries::new(settings)?;
            let route = registries.route(&source.parse().unwrap()).await?;
            let digest = route.resolve().await?.digest;
            let verdict = route.admit(&digest, None).await?;
            Ok(format!("{:?}", verdict.requirements))
        })
    }

    fn admitted(&self) -> Result<String, Error> {
        self.judged(&self.settings(), &self.tagged())
    }

    /// Holds the verdict about some signatures against what is wanted, and that
    /// of skopeo.
    fn judge(&self, name: &str, signatures: &[Vec<u8>], wanted: Result<(), &str>, peer: Peer) {
        self.store(signatures);
        let ours = self.admitted();
        match (&ours, wanted) {
            (Ok(_), Ok(())) => {}
            (Err(error), Err(problem)) => {
                assert_eq!(error.reason(), "signature", "{name}: {error}");
                let text = error.to_string();
                assert!(text.contains(problem), "{name}: {problem:?} in {text:?}");
            }
            _ => panic!("{name}: {ours:?}"),
        }
        if !on_path("skopeo") {
            return;
        }
        let output = Command::new("skopeo")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.folder.path())
            .arg(format!("--policy={}", self.path("policy.json").display()))
            .arg(format!(
                "--registries.d={}",
                self.path("registries.d").display()
            ))
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
        let same = output.status.success() == wanted.is_ok();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(same, matches!(peer, Peer::Same), "{name}: skopeo: {error}");
    }
}

const YES: Result<(), &str> = Ok(());

#[test]
fn signatures_of_each_usual_key_are_accepted() {
    if skip_without("gpg") {
        return;
    }
    let setup = Setup::new();
    for (name, algorithm) in [
        ("edwards", "ed25519"),
        ("rsa", "rsa2048"),
        ("p256", "nistp256"),
        ("p384", "nistp384"),
    ] {
        let key = setup.gpg.key(name, &[algorithm, "sign", "never"]);
        setup.require(&[&key]);
        let signature = setup.signed(&key, &[]);
        setup.judge(name, &[signature], YES, Peer::Same);
    }
    let key = setup.gpg.fingerprints("rsa@example.com")[0].clone();
    setup.require(&[&key]);
    for (name, more) in [
        ("uncompressed", &["-z", "0"][..]),
        ("zlib", &["--compress-algo", "zlib"]),
        ("SHA-512", &["--digest-algo", "SHA512"]),
        ("text", &["--textmode"]),
    ] {
        let signature = setup.signed(&key, more);
        setup.judge(name, &[signature], YES, Peer::Same);
    }
    // The verdict names the key.
    assert!(setup.admitted().unwrap().contains(&key));
    // Armoured keys, in several blocks with anything between them.
    let armoured = |name: &str| {
        let text = setup.gpg.run(&["--armor", "--export", name], b"");
        String::from_utf8(text).unwrap()
    };
    let keys = format!(
        "Keys:\n{}\nand\n{}\n",
        armoured("edwards@example.com"),
        armoured("rsa@example.com")
    );
    setup.require_of(&json!({"keyData": BASE64_STANDARD.encode(keys)}));
    setup.store(&[setup.signed(&key, &[])]);
    setup.admitted().unwrap();
    // Of several files one may hold no key.
    let (junk, keys) = (setup.path("junk.gpg"), setup.path("keys.gpg"));
    fs::write(&junk, "nothing").unwrap();
    setup.require_of(&json!({"keyPaths": [junk, keys]}));
    setup.admitted().unwrap();
    setup.require_of(&json!({"keyPaths": [junk]}));
    let error = setup.admitted().unwrap_err();
    assert!(error.to_string().contains("no OpenPGP key"), "{error}");
    setup.require_of(&json!({"keyPaths": [keys, setup.path("missing")]}));
    assert_eq!(setup.admitted().unwrap_err().reason(), "policy");
}

#[test]
fn a_subkey_signs_if_its_primary_key_says_so() {
    if skip_without("gpg") {
        return;
    }
    let setup = Setup::new();
    let key = setup.gpg.key("sub", &["rsa2048", "cert", "never"]);
    let more = ["--quick-add-key", &key, "ed25519", "sign", "never"];
    setup.gpg.run(&more, b"");
    let subkey = setup.gpg.fingerprints(&key)[1].clone();
    setup.require(&[&key]);
    let signature = setup.signed(&format!("{subkey}!"), &[]);
    // skopeo 1.9 knows primary keys only.
    setup.judge(
        "subkey",
        std::slice::from_ref(&signature),
        YES,
        Peer::Differs,
    );
    // 0 is the reason, and an empty line ends its text.
    let commands = b"key 1\nrevkey\ny\n0\n\ny\nsave\n";
    let edit = ["--command-fd", "0", "--no-batch", "--edit-key", &key];
    setup.gpg.run(&edit, commands);
    setup.require(&[&key]);
    setup.judge("revoked", &[signature], Err("is revoked"), Peer::Same);
}

#[test]
fn a_signature_or_key_that_ended_is_refused() {
    if skip_without("gpg") {
        return;
    }
    let setup = Setup::new();
    let long_ago = ["--faked-system-time", "20240101T000000!"];
    let key = setup.gpg.key(
        "old",
        &[&["rsa2048", "sign", "never"], &long_ago[..]].concat(),
    );
    setup.require(&[&key]);
    let expiring = [&["--default-sig-expire", "10d"], &long_ago[..]].concat();
    let expired = setup.signed(&key, &expiring);
    let problem = "its signature has expired";
    setup.judge("signature", &[expired], Err(problem), Peer::Same);
    let good = setup.signed(&key, &long_ago);
    setup.judge("long ago", std::slice::from_ref(&good), YES, Peer::Same);
    let future = ["--faked-system-time", "20990101T000000!"];
    let future = setup.signed(&key, &future);
    let problem = "made in the future";
    setup.judge("future", &[future], Err(problem), Peer::Differs);
    let stranger = setup.gpg.key("stranger", &["ed25519", "sign", "never"]);
    let foreign = setup.signed(&stranger, &[]);
    let problem = "not made with a key of the policy";
    setup.judge("foreign", &[foreign], Err(problem), Peer::Same);
    setup.judge("nothing", &[], Err("there is none"), Peer::Same);
    setup.gpg.revoke(&key);
    setup.require(&[&key]);
    setup.judge("revoked", &[good], Err("it is revoked"), Peer::Same);

    let short = [&["rsa2048", "sign", "30d"], &long_ago[..]].concat();
    let key = setup.gpg.key("short", &short);
    setup.require(&[&key]);
    let signature = setup.signed(&key, &long_ago);
    setup.judge(
        "expired key",
        &[signature],
        Err("it has expired"),
        Peer::Same,
    );
}

#[test]
fn other_messages_than_signed_ones_are_refused() {
    if skip_without("gpg") {
        return;
    }
    let setup = Setup::new();
    let key = setup.gpg.key("signer", &["rsa2048", "sign", "never"]);
    setup.require(&[&key]);
    let document = setup.document(&setup.tagged());
    let run = |more: &[&str]| setup.gpg.run(&[&["-u", &key], more].concat(), &document);
    for (name, message, problem) in [
        ("clear-signed", run(&["--clear-sign"]), "neither a binary"),
        ("armoured", run(&["--armor", "--sign"]), "neither a binary"),
        ("detached", run(&["--detach-sign"]), "without its message"),
        ("unsigned", run(&["--store"]), "without a signature"),
        ("bare", document.clone(), "neither a binary"),
        ("empty", Vec::new(), "neither a binary"),
        ("no packet", vec![0xA3, 0x01, 0xFF], "no signed message"),
    ] {
        // The literal packet of an uncompressed one begins like nothing else.
        let problem = if message.first() == Some(&0xCB) {
            "neither a binary"
        } else {
            problem
        };
        let problem = match name {
            "no packet" => "damaged",
            _ => problem,
        };
        setup.judge(name, &[message], Err(problem), Peer::Same);
    }
    let other = setup.gpg.key("other", &["rsa2048", "sign", "never"]);
    setup.require(&[&key, &other]);
    let both = setup.signed(&key, &["-u", &other]);
    setup.judge("two signatures", &[both], Err("more than"), Peer::Same);
    // A bomb: 16 MiB of zeros.
    let zeros = vec![0; 16 << 20];
    let bomb = setup.gpg.sign(&key, &zeros, &["--compress-level", "9"]);
    setup.judge("bomb", &[bomb], Err("more than 1 MiB"), Peer::Same);
}

#[test]
fn a_message_with_anything_behind_it_is_refused() {
    if skip_without("gpg") {
        return;
    }
    let setup = Setup::new();
    let key = setup.gpg.key("signer", &["rsa2048", "sign", "never"]);
    setup.require(&[&key]);
    let good = setup.signed(&key, &[]);
    let twice = [good.clone(), good.clone()].concat();
    let junk = [&good[..], b"junk"].concat();
    let problem = "something behind";
    setup.judge("twice", &[twice], Err(problem), Peer::Differs);
    setup.judge("junk", &[junk], Err(problem), Peer::Differs);
    setup.judge("good", &[good], YES, Peer::Same);
}

#[test]
fn weak_hashes_and_keys_are_refused() {
    if skip_without("gpg") {
        return;
    }
    let setup = Setup::new();
    let key = setup.gpg.key("signer", &["rsa2048", "sign", "never"]);
    setup.require(&[&key]);
    let weak = setup.signed(&key, &["--digest-algo", "SHA1"]);
    setup.judge("SHA-1", &[weak], Err("accepted are SHA-256"), Peer::Differs);
    for (algorithm, problem) in [
        ("rsa1024", "RSA with 1024 bits"),
        ("nistp521", "not supported"),
        ("secp256k1", "not supported"),
    ] {
        let key = setup.gpg.key(algorithm, &[algorithm, "sign", "never"]);
        setup.require(&[&key]);
        let signature = setup.signed(&key, &[]);
        setup.judge(algorithm, &[signature], Err(problem), Peer::Differs);
    }
}

#[test]
fn a_payload_of_the_other_kind_is_refused() {
    if skip_without("gpg") {
        return;
    }
    let setup = Setup::new();
    let key = setup.gpg.key("signer", &["ed25519", "sign", "never"]);
    setup.require(&[&key]);
    let document = String::from_utf8(setup.document(&setup.tagged())).unwrap();
    let kind = "atomic container signature";
    let other = Digest::of(b"other").to_string();
    let digest = setup.image.digest().to_string();
    for (name, document, problem) in [
        (
            "cosign's",
            document.replace(kind, "cosign container image signature"),
            "is no \"atomic",
        ),
        (
            "another digest",
            document.replace(&digest, &other),
            "it signs sha256:",
        ),
        ("another tag", document.replace(":v1", ":v2"), "it signs"),
        (
            "one more member",
            document.replace("\"type\":", "\"more\":1,\"type\":"),
            "no simple signing document",
        ),
        ("no document", "{}".into(), "no simple signing document"),
    ] {
        let message = setup.gpg.sign(&key, document.as_bytes(), &[]);
        setup.judge(name, &[message], Err(problem), Peer::Same);
    }
    // Of cosign's kind nothing counts.
    let signer = Signer::new();
    let made = signer.sign(&setup.image.digest(), &setup.tagged());
    made.put_tag(&setup.upstream, REPOSITORY, &setup.image.digest());
    setup.judge("cosign", &[], Err("there is none"), Peer::Same);
}

#[test]
fn a_lookaside_may_hold_signatures_of_sigstore() {
    let setup = Setup::new();
    let signer = Signer::new();
    let made = signer.sign(&setup.image.digest(), &setup.tagged());
    let layer = &made.manifest["layers"][0];
    let json = json!({
        "mimeType": layer["mediaType"],
        "payload": BASE64_STANDARD.encode(&made.blobs[1]),
        "annotations": layer["annotations"],
    });
    let blob = format!("\0sigstore-json\n{json}").into_bytes();
    let policy = json!({"default": [
        {"type": "sigstoreSigned", "keyData": signer.key_data()}]});
    fs::write(setup.path("policy.json"), policy.to_string()).unwrap();
    setup.store(&[b"\0other\n".to_vec()]);
    assert_eq!(setup.admitted().unwrap_err().reason(), "signature");
    setup.store(&[blob]);
    setup.admitted().unwrap();
}

#[test]
fn one_good_signature_among_others_is_enough() {
    if skip_without("gpg") {
        return;
    }
    let setup = Setup::new();
    let key = setup.gpg.key("signer", &["ed25519", "sign", "never"]);
    let stranger = setup.gpg.key("stranger", &["ed25519", "sign", "never"]);
    setup.require(&[&key]);
    let (good, foreign) = (setup.signed(&key, &[]), setup.signed(&stranger, &[]));
    let both = [foreign.clone(), good.clone()];
    setup.judge("second", &both, YES, Peer::Same);
    // By digest any tag will do, but not none.
    let digest = setup.image.digest();
    let name = format!("{}/{REPOSITORY}", setup.upstream.host());
    let by_digest = format!("{name}@{digest}");
    setup.judged(&setup.settings(), &by_digest).unwrap();
    let bare = setup.gpg.sign(&key, &setup.document(&name), &[]);
    setup.store(&[bare]);
    assert!(setup.judged(&setup.settings(), &by_digest).is_err());
    // A gap ends the search.
    setup.store(&[foreign, Vec::new(), good]);
    setup.admitted().unwrap();
    let hex = digest.hex();
    let gap = format!("store/{REPOSITORY}@sha256={hex}/signature-2");
    fs::remove_file(setup.path(&gap)).unwrap();
    assert_eq!(setup.admitted().unwrap_err().reason(), "signature");
}

#[test]
fn a_signature_of_version_3_is_accepted() {
    if skip_without("gpg") {
        return;
    }
    let setup = Setup::new();
    let key = setup.gpg.key("signer", &["rsa2048", "sign", "never"]);
    setup.require(&[&key]);
    let secret = setup.gpg.run(&["--export-secret-keys", &key], b"");
    let message = old::message(&secret, &setup.document(&setup.tagged()));
    let good = std::slice::from_ref(&message);
    setup.judge("version 3", good, YES, Peer::Same);
    let mut damaged = message;
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let problem = "was not made with the key";
    setup.judge("damaged", &[damaged], Err(problem), Peer::Same);
}

/// Signatures of version 3, which `GnuPG` makes no more.
mod old {
    use images::digest::Digest;
    use pgp::composed::{Deserializable as _, SignedSecretKey};
    use pgp::crypto::hash::HashAlgorithm;
    use pgp::packet::{PacketHeader, Signature, SignatureType};
    use pgp::types::{KeyDetails as _, Password, SigningKey as _, Tag, Timestamp};

    pub(super) fn message(secret: &[u8], content: &[u8]) -> Vec<u8> {
        let key = SignedSecretKey::from_bytes(secret).unwrap().primary_key;
        let created = key.created_at().as_secs() + 1;
        let hashed = [content, &[0], &created.to_be_bytes()].concat();
        let hash = Digest::of(&hashed).hex();
        let hash: Vec<u8> = (0..32)
            .map(|at| u8::from_str_radix(&hash[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        let signature = key
            .sign(&Password::empty(), HashAlgorithm::Sha256, &hash)
            .unwrap();
        let issuer = key.legacy_key_id();
        let mut packet = Vec::new();
        Signature::v3(
            PacketHeader::new_fixed(Tag::Signature, 0),
            SignatureType::Binary,
            key.algorithm(),
            HashAlgorithm::Sha256,
            Timestamp::from_secs(created),
            issuer,
            [hash[0], hash[1]],
            signature,
        )
        .to_writer(&mut packet)
        .unwrap();
        let framed = |tag: u8, body: &[u8]| {
            let length = u32::try_from(body.len()).unwrap();
            [&[0xC0 | tag, 0xFF], &length.to_be_bytes()[..], body].concat()
        };
        let one_pass = [&[3, 0, 8, u8::from(key.algorithm())], issuer.as_ref(), &[1]].concat();
        let literal = [b"b\0\0\0\0\0", content].concat();
        [
            framed(4, &one_pass),
            framed(11, &literal),
            framed(2, &packet),
        ]
        .concat()
    }

    use pgp::ser::Serialize as _;
}

#[test]
fn only_404_ends_the_signatures_of_a_web_server() {
    if skip_without("gpg") {
        return;
    }
    let setup = Setup::new();
    let key = setup.gpg.key("signer", &["ed25519", "sign", "never"]);
    setup.require(&[&key]);
    let good = setup.signed(&key, &[]);
    let secret = ("me", "secret");
    setup.upstream.misbehave(|behaviour| {
        behaviour.access = Access::Basic(secret.0, secret.1);
    });
    let auth = BASE64_STANDARD.encode(format!("{}:{}", secret.0, secret.1));
    let auth = json!({"auths": {(setup.upstream.host()): {"auth": auth}}});
    fs::write(setup.path("auth.json"), auth.to_string()).unwrap();
    let settings = Settings {
        auth_files: vec![setup.path("auth.json")],
        attempts: std::num::NonZeroU32::MIN,
        ..setup.settings()
    };
    let mut found = Vec::new();
    for answer in [
        Answer::First(good.clone()),
        Answer::Status(404),
        Answer::Status(403),
        Answer::Status(500),
        Answer::Endless,
        Answer::Always(b"\0other\n".to_vec()),
        Answer::Cut,
    ] {
        let server = WebServer::start(answer);
        setup.look_at(&format!("http://{}/signatures/", server.address));
        let judged = setup.judged(&settings, &setup.tagged());
        found.push(judged.map_or_else(|error| error.reason(), |_| "admitted"));
        let requests = server.requests();
        assert!((1..=129).contains(&requests.len()), "{}", requests.len());
        let hex = setup.image.digest().hex();
        let first = format!("GET /signatures/{REPOSITORY}@sha256={hex}/signature-1 ");
        assert!(requests[0].starts_with(&first), "{}", requests[0]);
        // The registry's credentials are not for others.
        for request in requests {
            let request = request.to_ascii_lowercase();
            assert!(!request.contains("authorization"), "{request}");
        }
    }
    let expected = [
        "admitted",
        "signature",
        "forbidden",
        "server_error",
        "too_large",
        "signature_store",
        "interrupted",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_registry_may_store_signatures_itself() {
    if skip_without("gpg") {
        return;
    }
    let setup = Setup::new();
    let key = setup.gpg.key("signer", &["ed25519", "sign", "never"]);
    setup.require(&[&key]);
    let good = setup.signed(&key, &[]);
    let one = |version: u32, kind: &str| {
        json!({"schemaVersion": version, "type": kind, "name": "x",
            "content": BASE64_STANDARD.encode(&good)})
    };
    let with = |signatures: Value| {
        setup.upstream.misbehave(|behaviour| {
            behaviour.stored_signatures = Some(json!({"signatures": signatures}).to_string());
        });
        setup.admitted().map_err(|error| error.reason())
    };
    // It replaces the lookaside.
    setup.store(std::slice::from_ref(&good));
    assert_eq!(with(json!([])), Err("signature"));
    assert_eq!(
        with(json!([one(1, "atomic"), one(2, "new")])),
        Err("signature")
    );
    assert!(with(json!([one(1, "atomic"), one(2, "atomic")])).is_ok());
    let bad = json!({"schemaVersion": 2, "type": "atomic", "content": "JUNK"});
    let many: Vec<Value> = std::iter::repeat_n(bad, 10_000).collect();
    assert_eq!(with(many.into()), Err("signature_store"));
    setup
        .upstream
        .misbehave(|behaviour| behaviour.stored_signatures = Some("{}".into()));
    assert_eq!(setup.admitted().unwrap_err().reason(), "signature_store");
}

#[test]
fn the_status_tells_by_which_requirement_an_image_came_in_or_stayed_out() {
    if skip_without("gpg") {
        return;
    }
    let setup = Setup::new();
    let key = setup.gpg.key("signer", &["ed25519", "sign", "never"]);
    setup.require(&[&key]);
    setup.store(&[]);
    let config = following(&setup.tagged())
        + &format!(
            "[registries]\npolicy_file = {:?}\nregistries_d = {:?}\n",
            setup.path("policy.json"),
            setup.path("registries.d")
        );
    let mut almanac = Almanac::start(&config);
    let status = almanac.until_failed("a");
    let error = status["last_error"].as_str().unwrap();
    assert!(error.contains("signedBy with /"), "{error}");
    assert!(error.contains("there is none"), "{error}");
    setup.store(&[setup.signed(&key, &[])]);
    let status = almanac.until_at("a", &setup.image.digest());
    let admitted = status["admitted_by"].as_str().unwrap();
    assert!(admitted.contains("signedBy with /"), "{admitted}");
    assert!(admitted.contains(&key), "{admitted}");
    let admin = almanac.program.address("admin");
    let metrics = http::get(admin, "/metrics").unwrap().text();
    for outcome in ["admitted", "refused"] {
        let line = format!("outcome=\"{outcome}\"");
        let mut lines = metrics.lines();
        let found = lines.any(|text| {
            text.starts_with("almanac_admissions_total{")
                && text.contains("requirement=\"signedBy\"")
                && text.contains(&line)
        });
        assert!(found, "{outcome}: {metrics}");
    }
}

/// What a web server answers.
enum Answer {
    /// The first signature, and no other.
    First(Vec<u8>),
    Status(u16),
    /// A body without an end.
    Endless,
    /// The same for all.
    Always(Vec<u8>),
    /// Half of a body.
    Cut,
}

/// A web server that answers one connection after the other.
struct WebServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl WebServer {
    fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, ended) = (Arc::clone(&requests), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                // A client that goes away is none of the server's business.
                let _ = serve(stream.unwrap(), &answer, &seen);
            }
        });
        Self {
            address,
            requests,
            stop,
            thread: Some(thread),
        }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().unwrap().join();
    }
}

fn serve(mut stream: TcpStream, answer: &Answer, seen: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        request.extend_from_slice(&buffer[..read]);
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let is_first = request.contains("/signature-1 ");
    seen.lock().unwrap().push(request);
    let mut reply = |status: u16, length: Option<usize>, body: &[u8]| {
        let length = length.map_or_else(String::new, |length| {
            format!("Content-Length: {length}\r\n")
        });
        let head = format!("HTTP/1.1 {status} X\r\n{length}Connection: close\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)
    };
    match answer {
        Answer::First(body) if is_first => reply(200, Some(body.len()), body),
        Answer::First(_) => reply(404, Some(0), b""),
        Answer::Status(status) => reply(*status, Some(0), b""),
        Answer::Always(body) => reply(200, Some(body.len()), body),
        Answer::Cut => reply(200, Some(100), b"half"),
        Answer::Endless => {
            reply(200, None, b"")?;
            // Until the client has enough.
            loop {
                stream.write_all(&buffer)?;
            }
        }
    }
}
