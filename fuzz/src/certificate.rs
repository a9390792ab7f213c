//! Certificates: of signers, of authorities between, and of authorities of a policy.
//!
//! The first byte chooses what the others are: a whole certificate, the part of one that
//! is signed, or extensions. Signatures are made here, so that what follows the path of
//! certificates is reached: issuers, names and hosts. The keys are those of fixed seeds,
//! so that seed files can name them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::memory::{assert_in_proportion, most_memory};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use images::policy::{FetchedSignature, Outcome, PolicySubject, Verdict};
use images::signing::SigningKey;
use images::{Admission, Digest, PolicyFiles, Reference};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::json;
use tempfile::NamedTempFile;

const IMAGE: &str = "registry.example/team/app:v1";
const EMAIL: &str = "a@example.com";
const HOST: &str = "a.example";
const ISSUER: &str = "https://example.com";

/// Ed25519, as an algorithm (RFC 8410).
const ALGORITHM: &[u8] = &[0x30, 5, 6, 3, 0x2b, 0x65, 0x70];
/// Version 3, and the serial number 1.
const VERSION_AND_SERIAL: &[u8] = &[0xa0, 3, 2, 1, 2, 2, 1, 1];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const CODE_SIGNING: &[u8] = &[6, 8, 0x2b, 6, 1, 5, 5, 7, 3, 3];
const FULCIO_ISSUER: &[u8] = &[0x2b, 6, 1, 4, 1, 0x83, 0xbf, 0x30, 1, 8];

/// Material that is made once.
struct Setup {
    authority: Ed25519KeyPair,
    leaf: Ed25519KeyPair,
    between: Ed25519KeyPair,
    log: EcdsaKeyPair,
    log_data: String,
    random: SystemRandom,
    /// The policy with the usual authority.
    admission: Admission,
    image: Reference,
    digest: Digest,
    payload: Vec<u8>,
}

static SETUP: LazyLock<Setup> = LazyLock::new(|| {
    let key = |seed: u8| Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
    let log = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let log_data = BASE64_STANDARD.encode(
        SigningKey::parse(pem("PRIVATE KEY", log.as_ref()).as_bytes(), b"")
            .unwrap()
            .public_key_pem(),
    );
    let authority = key(1);
    let root = root(&authority);
    let digest = Digest::of(b"image");
    let payload = json!({
        "critical": {
            "identity": {"docker-reference": IMAGE},
            "image": {"docker-manifest-digest": digest.to_string()},
            "type": "cosign container image signature",
        },
        "optional": null,
    });
    let setup = Setup {
        leaf: key(2),
        between: key(3),
        log: EcdsaKeyPair::from_pkcs8(algorithm, log.as_ref(), &random).unwrap(),
        admission: admission(&pem("CERTIFICATE", &root), &log_data).unwrap(),
        log_data,
        authority,
        random,
        image: IMAGE.parse().unwrap(),
        digest,
        payload: payload.to_string().into_bytes(),
    };
    // Otherwise the target would find nothing.
    let good = setup.judge(&setup.admission, &setup.good(), &[]);
    assert!(good.admits(), "{good:?}");
    setup
});

/// A value of DER.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len().to_be_bytes();
    let length = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let mut out = vec![tag];
    if content.len() < 0x80 {
        out.push(content.len() as u8);
    } else {
        out.push(0x80 | length.len() as u8);
        out.extend_from_slice(length);
    }
    out.extend_from_slice(&content);
    out
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

fn extension(kind: &[u8], value: &[u8]) -> Vec<u8> {
    der(0x30, &[&der(6, &[kind]), &der(4, &[value])])
}

/// The part of a certificate that is signed.
fn signed_part(issuer: &str, subject: &str, key: &Ed25519KeyPair, extensions: &[u8]) -> Vec<u8> {
    let name = |text: &str| {
        let kind = der(6, &[&[0x55, 4, 3]]);
        let pair = der(0x30, &[&kind, &der(0x0c, &[text.as_bytes()])]);
        der(0x30, &[&der(0x31, &[&pair])])
    };
    let time = |text: &str| der(0x17, &[text.as_bytes()]);
    let validity = der(0x30, &[&time("240101000000Z"), &time("440101000000Z")]);
    let public = der(
        0x30,
        &[ALGORITHM, &der(3, &[&[0], key.public_key().as_ref()])],
    );
    let extensions = der(0xa3, &[&der(0x30, &[extensions])]);
    der(
        0x30,
        &[
            VERSION_AND_SERIAL,
            ALGORITHM,
            &name(issuer),
            &validity,
            &name(subject),
            &public,
            &extensions,
        ],
    )
}

fn certificate(part: &[u8], key: &Ed25519KeyPair) -> Vec<u8> {
    let signature = key.sign(part);
    der(
        0x30,
        &[part, ALGORITHM, &der(3, &[&[0], signature.as_ref()])],
    )
}

fn extensions_of_authority() -> Vec<u8> {
    [
        extension(BASIC_CONSTRAINTS, &[0x30, 3, 1, 1, 0xff]),
        extension(KEY_USAGE, &[3, 2, 2, 4]),
    ]
    .concat()
}

fn root(key: &Ed25519KeyPair) -> Vec<u8> {
    let part = signed_part("root", "root", key, &extensions_of_authority());
    certificate(&part, key)
}

fn extensions_of_leaf() -> Vec<u8> {
    let names = [
        der(0x81, &[EMAIL.as_bytes()]),
        der(0x82, &[HOST.as_bytes()]),
    ]
    .concat();
    [
        extension(EXTENDED_KEY_USAGE, &der(0x30, &[CODE_SIGNING])),
        extension(SUBJECT_ALT_NAME, &der(0x30, &[&names])),
        extension(FULCIO_ISSUER, &der(0x0c, &[ISSUER.as_bytes()])),
    ]
    .concat()
}

/// A policy with both requirements that ask for certificates, for these authorities.
fn policy(authorities: &str, log: &str) -> String {
    let authorities = BASE64_STANDARD.encode(authorities);
    let policy = json!({"default": [
        {"type": "sigstoreSigned", "rekorPublicKeyData": log, "fulcio": {
            "caData": authorities, "oidcIssuer": ISSUER, "subjectEmail": EMAIL,
        }},
        {"type": "sigstoreSigned", "pki": {
            "caRootsData": authorities, "subjectEmail": EMAIL, "subjectHostname": HOST,
        }},
    ]});
    policy.to_string()
}

fn admission(authorities: &str, log: &str) -> Result<Admission, String> {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), policy(authorities, log)).unwrap();
    let files = PolicyFiles {
        named: Some(file.path().to_owned()),
        ..PolicyFiles::default()
    };
    let subject = PolicySubject::Registry(IMAGE.parse().unwrap());
    Admission::read(&files, &subject).map_err(|error| error.to_string())
}

impl Setup {
    /// The certificate that is let in.
    fn good(&self) -> Vec<u8> {
        let part = signed_part("root", "leaf", &self.leaf, &extensions_of_leaf());
        certificate(&part, &self.authority)
    }

    /// Judges a signature by the holder of a certificate, with an entry of the log.
    fn judge(&self, admission: &Admission, leaf: &[u8], between: &[&[u8]]) -> Verdict {
        let leaf = pem("CERTIFICATE", leaf);
        let mut chain: String = between.iter().map(|der| pem("CERTIFICATE", der)).collect();
        chain.push_str(&pem("CERTIFICATE", b"the last one does not count"));
        let signature = BASE64_STANDARD.encode(self.leaf.sign(&self.payload));
        let body = json!({
            "apiVersion": "0.0.1",
            "kind": "hashedrekord",
            "spec": {
                "data": {"hash": {
                    "algorithm": "sha256", "value": Digest::of(&self.payload).hex(),
                }},
                "signature": {
                    "content": signature,
                    "publicKey": {"content": BASE64_STANDARD.encode(&leaf)},
                },
            },
        });
        let body = BASE64_STANDARD.encode(body.to_string());
        let entry =
            format!(r#"{{"body":"{body}","integratedTime":1717203600,"logID":"a","logIndex":1}}"#);
        let promise = self.log.sign(&self.random, entry.as_bytes()).unwrap();
        let promise = BASE64_STANDARD.encode(promise);
        let bundle = format!(r#"{{"SignedEntryTimestamp":"{promise}","Payload":{entry}}}"#);
        let annotations: BTreeMap<String, String> = [
            ("dev.cosignproject.cosign/signature", signature),
            ("dev.sigstore.cosign/certificate", leaf),
            ("dev.sigstore.cosign/chain", chain),
            ("dev.sigstore.cosign/bundle", bundle),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let signature = FetchedSignature::Cosign {
            payload: self.payload.clone(),
            annotations,
        };
        admission.judge(&self.image, &self.digest, [signature])
    }
}

/// Whether bytes contain a text.
fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part.eq_ignore_ascii_case(text.as_bytes()))
}

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let Some((kind, content)) = bytes.split_first() else {
        return;
    };
    let setup = &*SETUP;
    let (leaf, between) = match kind % 5 {
        0 => (content.to_vec(), None),
        1 => (certificate(content, &setup.authority), None),
        2 => {
            let part = signed_part("root", "leaf", &setup.leaf, content);
            (certificate(&part, &setup.authority), None)
        }
        3 => {
            let part = signed_part("between", "leaf", &setup.leaf, &extensions_of_leaf());
            let leaf = certificate(&part, &setup.between);
            (leaf, Some(certificate(content, &setup.authority)))
        }
        _ => (setup.good(), None),
    };
    let (verdict, most) = most_memory(|| {
        if kind % 5 == 4 {
            let admission = admission(&pem("CERTIFICATE", content), &setup.log_data)?;
            Ok(setup.judge(&admission, &leaf, &[]))
        } else {
            let between: Vec<&[u8]> = between.as_deref().into_iter().collect();
            Ok(setup.judge(&setup.admission, &leaf, &between))
        }
    });
    assert_in_proportion(bytes.len(), most, 64, 1 << 17);
    let verdict = match verdict {
        Ok(verdict) => verdict,
        // Authorities that cannot be used.
        Err::<_, String>(problem) => return assert!(problem.len() < 1 << 12, "{problem}"),
    };
    for (number, one) in verdict.requirements.into_iter().enumerate() {
        if let Outcome::Holds(_) = one.outcome {
            let named = contains(&leaf, EMAIL);
            let rest = match number {
                0 => contains(&leaf, ISSUER),
                _ => contains(&leaf, HOST) || contains(&leaf, "*.example"),
            };
            assert!(named && rest, "requirement {number} holds");
        }
        let (Outcome::Holds(text) | Outcome::Fails(text) | Outcome::Unknown(text)) = one.outcome;
        assert!(text.len() < 1 << 12, "{text}");
    }
}
