//! Bundles of sigstore, version 0.3: the cases 41 to 45.

use std::fs;
use std::process::{Command, Stdio};
use std::slice;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use images::digest::Digest;
use serde_json::{Value, json};

use super::material::{Authorities, EMAIL, ISSUER, LEAF_UNTIL, LOGGED, Log};
use super::trial::Trial;
use crate::support::cosign::Signer;
use crate::support::needs::skip_without;

const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const STATEMENT: &str = "application/vnd.in-toto+json";
const REPOSITORY: &str = "catalogs/0";

fn statement(digest: &Digest) -> Value {
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"digest": {"sha256": digest.hex()}}],
        "predicateType": "https://sigstore.dev/cosign/sign/v1",
        "predicate": {},
    })
}

/// A bundle with a statement, by a key.
fn bundle(signer: &Signer, statement: &Value) -> Value {
    let payload = statement.to_string();
    let signed = format!(
        "DSSEv1 {} {STATEMENT} {} {payload}",
        STATEMENT.len(),
        payload.len()
    );
    let signature = BASE64_STANDARD.encode(signer.signature(signed.as_bytes()));
    json!({
        "mediaType": BUNDLE,
        "verificationMaterial": {"publicKey": {"hint": "aGludA=="}},
        "dsseEnvelope": {
            "payload": BASE64_STANDARD.encode(payload),
            "payloadType": STATEMENT,
            "signatures": [{"sig": signature}],
        },
    })
}

/// The entry of a log for a bundle, as the bundle has it.
fn log_entry(log: &Log, bundle: &Value, signer: &str, kind: &str, time: u64) -> Value {
    let envelope = &bundle["dsseEnvelope"];
    let signature = envelope["signatures"][0]["sig"].as_str().unwrap();
    let payload = BASE64_STANDARD
        .decode(envelope["payload"].as_str().unwrap())
        .unwrap();
    let hash = json!({"algorithm": "sha256", "value": Digest::of(&payload).hex()});
    let signer = BASE64_STANDARD.encode(signer);
    let (version, spec) = if kind == "dsse" {
        let signatures = json!([{"signature": signature, "verifier": signer}]);
        (
            "0.0.1",
            json!({"payloadHash": hash, "signatures": signatures}),
        )
    } else {
        let twice = BASE64_STANDARD.encode(signature);
        let signatures = json!([{"publicKey": signer, "sig": twice}]);
        let envelope = json!({"payloadType": STATEMENT, "signatures": signatures});
        (
            "0.0.2",
            json!({"content": {"envelope": envelope, "payloadHash": hash}}),
        )
    };
    let body = json!({"apiVersion": version, "kind": kind, "spec": spec}).to_string();
    let (promise, signed) = log.promise(&body, time);
    json!({
        "logIndex": signed["logIndex"].to_string(),
        "logId": {"keyId": BASE64_STANDARD.encode([0xc0, 0xff, 0xee])},
        "kindVersion": {"kind": kind, "version": version},
        "integratedTime": time.to_string(),
        "inclusionPromise": {"signedEntryTimestamp": promise},
        "canonicalizedBody": signed["body"],
    })
}

/// Puts a bundle among the referrers of the image: in the API, or under the
/// fallback tag of registries without one.
fn put(trial: &Trial, bundle: &Value, by_tag: bool) {
    put_in(trial, REPOSITORY, bundle, by_tag);
}

/// The same in a repository.
pub(super) fn put_in(trial: &Trial, repository: &str, bundle: &Value, by_tag: bool) {
    let (bundle, empty) = (bundle.to_string(), "{}".to_owned());
    let descriptor = |kind: &str, bytes: &str| {
        json!({
            "mediaType": kind,
            "digest": Digest::of(bytes.as_bytes()).to_string(),
            "size": bytes.len(),
        })
    };
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": BUNDLE,
        "config": descriptor(EMPTY, &empty),
        "layers": [descriptor(BUNDLE, &bundle)],
        "subject": {
            "mediaType": MANIFEST,
            "digest": trial.digest().to_string(),
            "size": 1,
        },
    })
    .to_string();
    trial.upstream.put_blob(bundle.into_bytes());
    trial.upstream.put_blob(empty.into_bytes());
    let mut entry = descriptor(MANIFEST, &manifest);
    let digest = entry["digest"].as_str().unwrap().to_owned();
    trial
        .upstream
        .put_manifest(repository, &digest, manifest, MANIFEST);
    if by_tag {
        // The media type of the configuration, as such registries list it.
        entry["artifactType"] = json!(EMPTY);
        let index = json!({"schemaVersion": 2, "manifests": [entry]}).to_string();
        let tag = format!("sha256-{}", trial.digest().hex());
        let kind = "application/vnd.oci.image.index.v1+json";
        trial.upstream.put_manifest(repository, &tag, index, kind);
    } else {
        entry["artifactType"] = json!(BUNDLE);
        trial
            .upstream
            .put_referrer(repository, &trial.digest(), entry);
    }
}

fn keyed(signer: &Signer, identity: &str) -> Value {
    json!({"type": "sigstoreSigned", "keyData": signer.key_data(),
        "signedIdentity": {"type": identity}})
}

/// The verdict on the image by tag, with a scope in which bundles need no name.
fn judged(trial: &Trial, requirement: &Value, bundle: &Value) -> Result<(), String> {
    let name = trial.repository(REPOSITORY);
    put(trial, bundle, false);
    trial.almanac(requirement, &format!("{name}:v1"), slice::from_ref(&name))
}

fn refused(trial: &Trial, requirement: &Value, bundle: &Value, problem: &str) {
    let error = judged(trial, requirement, bundle).unwrap_err();
    assert!(error.contains(problem), "{problem:?} is not in {error:?}");
}

#[test]
fn a_reason_tells_of_referrers_beyond_those_that_are_read() {
    let trial = Trial::new();
    let name = trial.repository(REPOSITORY);
    let (signer, stranger) = (Signer::new(), Signer::new());
    let requirement = keyed(&signer, "matchRepository");
    let judged = || {
        let image = format!("{name}:v1");
        trial.almanac(&requirement, &image, slice::from_ref(&name))
    };
    let beyond = "there are more than 20 referrers";
    for number in 1..=21 {
        // Each signature is another one.
        put(
            &trial,
            &bundle(&stranger, &statement(&trial.digest())),
            false,
        );
        if number >= 20 {
            let error = judged().unwrap_err();
            assert_eq!(error.contains(beyond), number > 20, "{error}");
        }
    }
}

#[test]
fn a_bundle_names_no_image_and_lets_none_in_by_itself() {
    for by_tag in [false, true] {
        let trial = Trial::new();
        let name = trial.repository(REPOSITORY);
        let signer = Signer::new();
        put(
            &trial,
            &bundle(&signer, &statement(&trial.digest())),
            by_tag,
        );
        let by_digest = format!("{name}@{}", trial.digest());
        let image = format!("{name}:v1");
        let requirement = keyed(&signer, "matchRepository");
        let error = trial.almanac(&requirement, &image, &[]).unwrap_err();
        assert!(
            error.contains("there is a bundle, and it names no image"),
            "{error}"
        );
        // A scope where the digest is enough.
        let (scope, other) = ([name.clone()], [format!("{name}x")]);
        trial.almanac(&requirement, &image, &scope).unwrap();
        trial
            .almanac(&requirement, &image, &[trial.upstream.host()])
            .unwrap();
        assert!(trial.almanac(&requirement, &image, &other).is_err());
        // A tag or a whole name is never claimed.
        let requirement = keyed(&signer, "matchRepoDigestOrExact");
        trial.almanac(&requirement, &by_digest, &scope).unwrap();
        let error = trial.almanac(&requirement, &image, &scope).unwrap_err();
        assert!(error.contains("asks for a tag or a name"), "{error}");
        let requirement = keyed(&signer, "matchExact");
        assert!(trial.almanac(&requirement, &by_digest, &scope).is_err());
    }
}

#[test]
fn a_bundle_with_a_name_is_held_against_the_identity() {
    let trial = Trial::new();
    let name = trial.repository(REPOSITORY);
    let signer = Signer::new();
    let requirement = keyed(&signer, "matchRepository");
    for (named, admitted) in [(name.as_str(), true), ("quay.io/other/image", false)] {
        let trial = Trial::new();
        let own = trial.repository(REPOSITORY);
        let named = if admitted { own.as_str() } else { named };
        let mut statement = statement(&trial.digest());
        statement["subject"][0]["name"] = json!(named);
        put(&trial, &bundle(&signer, &statement), false);
        let judged = trial.almanac(&requirement, &format!("{own}:v1"), slice::from_ref(&own));
        assert_eq!(judged.is_ok(), admitted, "{judged:?}");
        let judged = trial.almanac(&requirement, &format!("{own}:v1"), &[]);
        assert_eq!(judged.is_ok(), admitted, "{judged:?}");
    }
}

#[test]
fn a_bundle_signs_the_image_itself_and_nothing_else() {
    let signer = Signer::new();
    let requirement = keyed(&signer, "matchRepository");
    let trial = Trial::new();
    let good = statement(&trial.digest());
    let with = |change: &dyn Fn(&mut Value)| {
        let mut statement = good.clone();
        change(&mut statement);
        bundle(&signer, &statement)
    };
    let list = with(&|s| s["predicateType"] = json!("https://spdx.dev/Document"));
    refused(&Trial::new(), &requirement, &list, "not a signature but");
    let other = with(&|s| s["subject"] = statement(&Digest::of(b"other"))["subject"].clone());
    refused(&Trial::new(), &requirement, &other, "signs another digest");
    let mut twice = bundle(&signer, &good);
    let first = twice["dsseEnvelope"]["signatures"][0].clone();
    twice["dsseEnvelope"]["signatures"]
        .as_array_mut()
        .unwrap()
        .push(first);
    refused(&Trial::new(), &requirement, &twice, "exactly one signature");
    let stranger = bundle(&Signer::new(), &good);
    refused(
        &Trial::new(),
        &requirement,
        &stranger,
        "not made with a key",
    );
    let mut changed = bundle(&signer, &good);
    changed["dsseEnvelope"]["payloadType"] = json!("text/plain");
    refused(&Trial::new(), &requirement, &changed, "no signed statement");
    for version in ["0.2", "0.4"] {
        let mut other = bundle(&signer, &good);
        other["mediaType"] = json!(format!(
            "application/vnd.dev.sigstore.bundle+json;version={version}"
        ));
        refused(&Trial::new(), &requirement, &other, "of another version");
    }
    let mut certified = bundle(&signer, &good);
    certified["verificationMaterial"] = json!({"certificate": {"rawBytes": "AAAA"}});
    refused(
        &Trial::new(),
        &requirement,
        &certified,
        "the policy has a key",
    );
    refused(
        &Trial::new(),
        &requirement,
        &json!({}),
        "it is not a bundle",
    );
}

#[test]
fn a_bundle_needs_the_log_that_the_policy_requires() {
    let (signer, log) = (Signer::new(), Log::new());
    let mut requirement = keyed(&signer, "matchRepository");
    requirement["rekorPublicKeyData"] = json!(log.key_data());
    let digest = Trial::new().digest();
    let good = bundle(&signer, &statement(&digest));
    refused(&Trial::new(), &requirement, &good, "no log entry");
    let logged = |change: &dyn Fn(&mut Value)| {
        let key = signer.public_key();
        let mut entry = log_entry(&log, &good, &key, "dsse", LOGGED);
        change(&mut entry);
        let mut logged = good.clone();
        logged["verificationMaterial"]["tlogEntries"] = json!([entry]);
        logged
    };
    judged(&Trial::new(), &requirement, &logged(&|_| ())).unwrap();
    let intoto = |entry: &mut Value| {
        *entry = log_entry(&log, &good, &signer.public_key(), "intoto", LOGGED);
    };
    judged(&Trial::new(), &requirement, &logged(&intoto)).unwrap();
    let time = logged(&|entry| entry["integratedTime"] = json!((LOGGED + 1).to_string()));
    refused(
        &Trial::new(),
        &requirement,
        &time,
        "not by a log of the policy",
    );
    let second = logged(&|entry| drop(entry.as_object_mut().unwrap().remove("inclusionPromise")));
    refused(&Trial::new(), &requirement, &second, "Rekor version 2");
    let kind = logged(&|entry| entry["kindVersion"]["version"] = json!("0.0.2"));
    refused(
        &Trial::new(),
        &requirement,
        &kind,
        "another kind than stated",
    );
    let stranger = logged(&|entry| {
        *entry = log_entry(&log, &good, &Signer::new().public_key(), "dsse", LOGGED);
    });
    refused(&Trial::new(), &requirement, &stranger, "names another key");
    let entry = log_entry(&log, &good, &signer.public_key(), "dsse", LOGGED);
    let mut many = good.clone();
    many["verificationMaterial"]["tlogEntries"] = vec![entry; 33].into();
    refused(
        &Trial::new(),
        &requirement,
        &many,
        "more than 32 log entries",
    );
}

#[test]
fn a_bundle_of_an_identity_needs_a_certificate_that_was_valid_when_it_was_logged() {
    let authorities = Authorities::new();
    let log = Log::new();
    let trusted = authorities.chain();
    let requirement = json!({
        "type": "sigstoreSigned",
        "fulcio": {
            "caData": BASE64_STANDARD.encode(trusted),
            "oidcIssuer": ISSUER,
            "subjectEmail": EMAIL,
        },
        "rekorPublicKeyData": log.key_data(),
        "signedIdentity": {"type": "matchRepository"},
    });
    let (signer, certificate) = authorities.certify(|_| ());
    let der = pem_content(&certificate);
    let digest = Trial::new().digest();
    let mut good = bundle(&signer, &statement(&digest));
    good["verificationMaterial"] = json!({"certificate": {"rawBytes": der}});
    let logged = |time| {
        let mut logged = good.clone();
        let entry = log_entry(&log, &good, &certificate, "dsse", time);
        logged["verificationMaterial"]["tlogEntries"] = json!([entry]);
        logged
    };
    judged(&Trial::new(), &requirement, &logged(LOGGED)).unwrap();
    refused(
        &Trial::new(),
        &requirement,
        &logged(LEAF_UNTIL + 60),
        "was expired",
    );
    refused(&Trial::new(), &requirement, &good, "no log entry");
}

/// The base64 of a PEM.
fn pem_content(pem: &str) -> String {
    let lines = pem.lines().filter(|line| !line.starts_with('-'));
    lines.collect()
}

#[test]
fn a_bundle_of_cosign_lets_an_image_in_under_the_name_that_it_claims() {
    if skip_without("cosign") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cosign = |arguments: &[&str]| {
        let output = Command::new("cosign")
            .args(arguments)
            .current_dir(folder.path())
            .env("COSIGN_PASSWORD", "")
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let trial = Trial::new();
    let name = trial.repository(REPOSITORY);
    trial.image.for_each_manifest(|manifest| {
        fs::write(folder.path().join("catalog"), &manifest.bytes).unwrap();
    });
    fs::write(folder.path().join("predicate"), "{}").unwrap();
    cosign(&["generate-key-pair"]);
    cosign(&[
        "attest-blob",
        "--key=cosign.key",
        "--predicate=predicate",
        "--type=https://sigstore.dev/cosign/sign/v1",
        "--new-bundle-format",
        "--bundle=bundle",
        "--tlog-upload=false",
        "catalog",
    ]);
    let bundle = fs::read(folder.path().join("bundle")).unwrap();
    put(&trial, &serde_json::from_slice(&bundle).unwrap(), false);
    let requirement = |repository: &str| {
        json!({"type": "sigstoreSigned", "keyPath": folder.path().join("cosign.pub"),
            "signedIdentity": {"type": "exactRepository", "dockerRepository": repository}})
    };
    let image = format!("{name}:v1");
    // cosign claims the name of the file.
    trial.almanac(&requirement("catalog"), &image, &[]).unwrap();
    let error = trial.almanac(&requirement(&name), &image, slice::from_ref(&name));
    assert!(
        error
            .unwrap_err()
            .contains("it signs docker.io/library/catalog")
    );
}
