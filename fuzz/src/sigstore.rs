//! Signatures of sigstore: payloads, log entries, certificates, bundles.
//!
//! The first byte chooses what the others are. What has to be signed before it
//! is read is signed here, with the keys of the policy.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::memory::{assert_in_proportion, most_memory};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use images::policy::{FetchedSignature, Outcome, PolicySubject};
use images::signing::SigningKey;
use images::{Admission, Digest, PolicyFiles, Reference};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use serde_json::json;

/// An authority for code, made once with openssl. Nobody has its key.
const AUTHORITY: &str = include_str!("sigstore.pem");
const PREFIX: &str = "dev.sigstore.cosign/";

struct Setup {
    signer: EcdsaKeyPair,
    random: SystemRandom,
    admission: Admission,
    image: Reference,
    digest: Digest,
}

static SETUP: LazyLock<Setup> = LazyLock::new(|| {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
    let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let signer = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap();
    let pem = format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        BASE64_STANDARD.encode(key.as_ref())
    );
    let public = SigningKey::parse(pem.as_bytes(), b"")
        .unwrap()
        .public_key_pem();
    let (key, authority) = (
        BASE64_STANDARD.encode(public),
        BASE64_STANDARD.encode(AUTHORITY),
    );
    let email = "a@example.com";
    let identity = json!({"type": "matchRepository"});
    let policy = json!({"default": [
        {"type": "sigstoreSigned", "keyData": key, "signedIdentity": identity},
        {"type": "sigstoreSigned", "keyData": key, "rekorPublicKeyData": key},
        {"type": "sigstoreSigned", "rekorPublicKeyData": key, "fulcio": {
            "caData": authority, "oidcIssuer": "https://example.com", "subjectEmail": email,
        }},
        {"type": "sigstoreSigned", "pki": {
            "caRootsData": authority, "subjectEmail": email, "subjectHostname": "a.example",
        }},
    ]});
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), policy.to_string()).unwrap();
    let files = PolicyFiles {
        named: Some(file.path().to_owned()),
        ..PolicyFiles::default()
    };
    let image: Reference = "registry.example/team/app:v1".parse().unwrap();
    let subject = PolicySubject::Registry(image.clone());
    Setup {
        signer,
        random,
        admission: Admission::read(&files, &subject).unwrap(),
        image,
        digest: Digest::of(b"image"),
    }
});

impl Setup {
    fn sign(&self, message: &[u8]) -> String {
        let signature = self.signer.sign(&self.random, message).unwrap();
        BASE64_STANDARD.encode(signature)
    }
}

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let Some((kind, content)) = bytes.split_first() else {
        return;
    };
    let setup = &*SETUP;
    let encoded = BASE64_STANDARD.encode(content);
    let text = String::from_utf8_lossy(content).into_owned();
    let certificate =
        format!("-----BEGIN CERTIFICATE-----\n{encoded}\n-----END CERTIFICATE-----\n");
    let with = |annotations: &[(&str, String)]| FetchedSignature::Cosign {
        payload: content.to_vec(),
        annotations: [(
            "dev.cosignproject.cosign/signature".to_owned(),
            setup.sign(content),
        )]
        .into_iter()
        .chain(
            annotations
                .iter()
                .map(|(name, value)| (format!("{PREFIX}{name}"), value.clone())),
        )
        .collect::<BTreeMap<_, _>>(),
    };
    let bundle = |bytes: Vec<u8>| FetchedSignature::Bundle {
        bytes,
        digest_suffices: true,
    };
    let signature = match kind % 7 {
        0 => with(&[]),
        1 => with(&[("bundle", text)]),
        2 => {
            let signed = format!(
                r#"{{"body":"{encoded}","integratedTime":1717203600,"logID":"a","logIndex":1}}"#
            );
            let payload: serde_json::Value = serde_json::from_str(&signed).unwrap();
            let entry = json!({
                "SignedEntryTimestamp": setup.sign(signed.as_bytes()),
                "Payload": payload,
            });
            with(&[("bundle", entry.to_string())])
        }
        3 => with(&[("certificate", certificate)]),
        4 => {
            let chain = format!("{certificate}{AUTHORITY}");
            with(&[("certificate", AUTHORITY.to_owned()), ("chain", chain)])
        }
        5 => bundle(content.to_vec()),
        _ => {
            let kind = "application/vnd.in-toto+json";
            let head = format!("DSSEv1 {} {kind} {} ", kind.len(), content.len());
            let signature = setup.sign(&[head.as_bytes(), content].concat());
            let bundled = json!({
                "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
                "verificationMaterial": {"publicKey": {}},
                "dsseEnvelope": {
                    "payload": encoded, "payloadType": kind, "signatures": [{"sig": signature}],
                },
            });
            bundle(bundled.to_string().into_bytes())
        }
    };
    let judge = || {
        let signatures = [signature.clone()];
        setup
            .admission
            .judge(&setup.image, &setup.digest, signatures)
    };
    let (verdict, most) = most_memory(judge);
    assert_in_proportion(bytes.len(), most, 64, 1 << 17);
    assert!(!verdict.admits(), "{verdict:?}");
    for one in verdict.requirements {
        let (Outcome::Holds(text) | Outcome::Fails(text) | Outcome::Unknown(text)) = one.outcome;
        assert!(text.len() < 1 << 12, "{text}");
    }
}
