//! The places of simple signatures: folders, web servers, and the registry.

use std::fs;
use std::num::NonZeroU32;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use images::Settings;
use serde_json::{Value, json};

use super::web_server::{Answer, WebServer};
use super::{GOOD, Peer, REPOSITORY, Setup, judged};
use crate::support::cosign::Signer;
use crate::support::needs::skip_without;
use crate::support::registry::Access;
use crate::support::tls::Authority;

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
    let (setup, key) = Setup::with_key("ed25519");
    let stranger = setup.gpg.key("stranger", &["ed25519", "sign", "never"]);
    let (good, foreign) = (setup.signed(&key, &[]), setup.signed(&stranger, &[]));
    let both = [foreign.clone(), good.clone()];
    setup.judge_all("second", &both, GOOD, Peer::Same);
    // By digest any tag will do, but not none.
    let digest = setup.image.digest();
    let name = format!("{}/{REPOSITORY}", setup.upstream.host());
    let by_digest = format!("{name}@{digest}");
    judged(&setup.settings(), &by_digest).unwrap();
    let bare = setup.gpg.sign(&key, &setup.document(&name), &[]);
    setup.store(&[bare]);
    assert!(judged(&setup.settings(), &by_digest).is_err());
    // A gap ends the search.
    setup.store(&[foreign, Vec::new(), good]);
    setup.admitted().unwrap();
    let hex = digest.hex();
    let gap = format!("store/{REPOSITORY}@sha256={hex}/signature-2");
    fs::remove_file(setup.path(&gap)).unwrap();
    assert_eq!(setup.admitted().unwrap_err().reason(), "signature");
}

#[test]
fn only_404_ends_the_signatures_of_a_web_server() {
    if skip_without("gpg") {
        return;
    }
    let (setup, key) = Setup::with_key("ed25519");
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
        attempts: NonZeroU32::MIN,
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
        let server = WebServer::start(answer, None);
        setup.look_at(&format!("http://{}/signatures/", server.address));
        let judged = judged(&settings, &setup.tagged());
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

/// skopeo trusts the authorities of the registry's folder for its lookaside too.
#[test]
fn a_lookaside_over_tls_is_trusted_with_its_own_authorities_and_those_of_the_registry() {
    if skip_without("gpg") {
        return;
    }
    let (authority, other) = (Authority::new(), Authority::new());
    let tls = |authority: &Authority| authority.sign_for(&["127.0.0.1"]).server(None);
    let setup = Setup::with(Some(tls(&authority)));
    let key = setup.gpg.key("signer", &["ed25519", "sign", "never"]);
    setup.require(&[&key]);
    let good = setup.signed(&key, &[]);
    let registry = setup.upstream.host();
    let trust = |host: &str, authority: &Authority| {
        let folder = setup.path("certs.d").join(host);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("ca.crt"), authority.pem()).unwrap();
    };
    let bundle = setup.path("other.pem");
    fs::write(&bundle, other.pem()).unwrap();
    trust(&registry, &authority);
    for (name, of_server, in_folder, in_bundle, expected) in [
        ("of the registry", &authority, false, false, "admitted"),
        ("of the lookaside", &other, true, false, "admitted"),
        ("of all hosts", &other, false, true, "admitted"),
        ("of nobody", &other, false, false, "tls"),
    ] {
        let server = WebServer::start(Answer::First(good.clone()), Some(tls(of_server)));
        setup.look_at(&format!("https://{}/signatures", server.address));
        if in_folder {
            trust(&server.address.to_string(), of_server);
        }
        let settings = Settings {
            certificate_folders: vec![setup.path("certs.d")],
            ca_files: in_bundle.then(|| bundle.clone()).into_iter().collect(),
            attempts: NonZeroU32::MIN,
            ..setup.settings()
        };
        let verdict = judged(&settings, &setup.tagged());
        let verdict = verdict.map_or_else(|error| error.reason(), |_| "admitted");
        assert_eq!(verdict, expected, "{name}");
    }
}

#[test]
fn a_registry_may_store_signatures_itself() {
    if skip_without("gpg") {
        return;
    }
    let (setup, key) = Setup::with_key("ed25519");
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
