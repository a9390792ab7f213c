//! Random policies of sigstore signatures beside the skopeo of the next Debian: keys,
//! logs and identities, for images with several signatures.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fastrand::Rng;
use images::digest::Digest;
use serde_json::{Value, json};

use super::conf_cases::one_of;
use super::random_policies::{Site, VENDOR};
use crate::sigstore::material::{Authorities, EMAIL, ISSUER, LOGGED, Log, email, entry};
use crate::sigstore::trial::SKOPEO;
use crate::support::cosign::{Signed, Signer};
use crate::support::needs::skip_without;

const SEEDS: u64 = 300;
/// An identity that no policy trusts unless by chance.
const OTHER: &str = "other@example.com";

/// Who signs.
struct Hands {
    keys: [Signer; 2],
    logs: [Log; 2],
    authorities: Authorities,
}

impl Hands {
    /// Makes all keys, and writes their public parts.
    fn new(root: &Path) -> Self {
        let hands = Self {
            keys: [Signer::new(), Signer::new()],
            logs: [Log::new(), Log::new()],
            authorities: Authorities::new(),
        };
        let write = |name: &str, text: &str| fs::write(root.join(name), text).unwrap();
        let pem = |log: &Log| {
            let pem = BASE64_STANDARD.decode(log.key_data()).unwrap();
            String::from_utf8(pem).unwrap()
        };
        for (name, key) in ["one", "two"].iter().zip(&hands.keys) {
            write(name, &key.public_key());
        }
        for (name, log) in ["log-one", "log-two"].iter().zip(&hands.logs) {
            write(name, &pem(log));
        }
        write("root", &hands.authorities.root.pem());
        write("stranger", &Authorities::new().root.pem());
        write("junk", "junk");
        hands
    }

    /// A signature by a key, with an entry of a log if one is named.
    fn by_key(&self, key: usize, log: Option<usize>, image: &Digest, name: &str) -> Signed {
        let mut signed = self.keys[key].sign(image, name);
        if let Some(log) = log {
            let entry = entry(&signed, &self.keys[key].public_key());
            signed.annotate("bundle", &self.logs[log].annotation(&entry, LOGGED));
        }
        signed
    }

    /// A signature by an identity, with an entry of a log.
    fn by_identity(&self, address: &str, log: usize, image: &Digest, name: &str) -> Signed {
        let (signer, certificate) = self
            .authorities
            .certify(|leaf| leaf.subject_alt_names = vec![email(address)]);
        let mut attached = signer.sign(image, name);
        let entry = entry(&attached, &certificate);
        attached.annotate("bundle", &self.logs[log].annotation(&entry, LOGGED));
        attached.annotate("certificate", &certificate);
        attached.annotate("chain", &self.authorities.chain());
        attached
    }
}

/// A site whose images have attachments of cosign.
fn site(root: &Path) -> Site {
    let stores = "default-docker: {use-sigstore-attachments: true}\n";
    let mut site = Site::new(root, stores, requirement);
    let hands = Hands::new(root);
    let host = site.upstream.host();
    let app = format!("{host}/team/app");
    let attach = |site: &Site, repository: &str, image: &Digest, signed: Signed| {
        signed.put_tag(&site.upstream, repository, image);
    };
    let first = site.push("team/app", "v1");
    let signed = hands
        .by_key(0, None, &first, &format!("{app}:v1"))
        .and(hands.by_key(1, Some(0), &first, &app))
        .and(hands.by_identity(EMAIL, 0, &first, &format!("{app}:v1")));
    attach(&site, "team/app", &first, signed);
    let second = site.push("team/app", "v2");
    let signed = hands
        .by_key(0, Some(0), &second, &format!("{VENDOR}:v2"))
        .and(hands.by_key(1, Some(1), &second, &format!("{app}:v1")))
        .and(hands.by_identity(OTHER, 0, &second, &format!("{app}:v2")));
    attach(&site, "team/app", &second, signed);
    let more = site.push("team/more", "v1");
    let signed = hands
        .by_key(1, None, &more, &format!("{host}/team/more:v2"))
        .and(hands.by_identity(EMAIL, 1, &more, &format!("{host}/team/more:v1")));
    attach(&site, "team/more", &more, signed);
    // A signature that was copied from another image.
    let copied = site.push("team/copied", "v1");
    let signed = hands.by_key(0, Some(0), &first, &format!("{host}/team/copied:v1"));
    attach(&site, "team/copied", &copied, signed);
    site.push("other", "v1");
    site
}

fn requirement(site: &Site, rng: &mut Rng) -> Value {
    let mut requirement = json!({"type": "sigstoreSigned"});
    let keys = |rng: &mut Rng| match rng.u8(..24) {
        0 => "missing",
        1 => "junk",
        2 => "root",
        number if number % 2 == 0 => "one",
        _ => "two",
    };
    let is_identity = rng.u8(..3) == 0;
    if is_identity {
        requirement["fulcio"] = identity(site, rng);
    } else {
        put(site, rng, &mut requirement, ["keyPath", "keyData"], keys);
    }
    // An identity needs a log.
    if rng.u8(..20) > if is_identity { 0 } else { 13 } {
        let logs = |rng: &mut Rng| match rng.u8(..16) {
            0 => "missing",
            1 => "junk",
            2..=4 => "log-two",
            _ => "log-one",
        };
        let members = ["rekorPublicKeyPath", "rekorPublicKeyData"];
        put(site, rng, &mut requirement, members, logs);
    }
    match rng.u8(..4) {
        0 => {}
        1 => requirement["signedIdentity"] = json!({"type": "matchRepository"}),
        _ => requirement["signedIdentity"] = site.identity(rng),
    }
    // Defects are rare, or nothing else would be seen.
    match rng.u8(..160) {
        0 => requirement["more"] = json!(1),
        1 => requirement["signedIdentity"] = Value::Null,
        2 => requirement["keyPath"] = Value::Null,
        3 => requirement["fulcio"] = Value::Null,
        4 => requirement["keyPaths"] = json!([]),
        5 => requirement["keyData"] = json!("%"),
        6 => requirement["rekorPublicKeyDatas"] = json!([]),
        7 => requirement["fulcio"]["more"] = json!(1),
        8 => requirement["keyPath"] = json!(1),
        _ => {}
    }
    requirement
}

/// Adds a key, as a path or as data, alone or in a list.
fn put(
    site: &Site,
    rng: &mut Rng,
    requirement: &mut Value,
    [path, data]: [&str; 2],
    name: impl Fn(&mut Rng) -> &'static str,
) {
    let is_path = rng.bool();
    let mut one = || {
        let name = name(rng);
        if is_path {
            return site.path(name);
        }
        let text = fs::read(site.root.join(name)).unwrap_or_else(|_| b"missing".to_vec());
        BASE64_STANDARD.encode(text)
    };
    let single = one();
    let more = one();
    let member = if is_path { path } else { data };
    match rng.u8(..4) {
        0 => requirement[format!("{member}s")] = json!([single, more]),
        1 => requirement[format!("{member}s")] = json!([single]),
        _ => requirement[member] = json!(single),
    }
}

fn identity(site: &Site, rng: &mut Rng) -> Value {
    let authority = match rng.u8(..12) {
        0 => "stranger",
        1 => "junk",
        2 => "missing",
        _ => "root",
    };
    let mut fulcio = json!({
        "oidcIssuer": one_of(rng, &[ISSUER, ISSUER, ISSUER, "https://b.example"]),
        "subjectEmail": one_of(rng, &[EMAIL, EMAIL, EMAIL, OTHER, "Builder@example.com"]),
    });
    if rng.bool() {
        fulcio["caPath"] = json!(site.path(authority));
    } else {
        let text = fs::read(site.root.join(authority)).unwrap_or_default();
        fulcio["caData"] = json!(BASE64_STANDARD.encode(text));
    }
    match rng.u8(..40) {
        0 => fulcio["subjectEmail"] = json!(""),
        1 => fulcio["oidcIssuer"] = Value::Null,
        2 => fulcio["caPath"] = json!(1),
        _ => {}
    }
    fulcio
}

#[test]
fn attachments_are_admitted_as_skopeo_copies_them() {
    if skip_without(SKOPEO) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let admitted = site(&root).compare(SKOPEO, SEEDS);
    assert!((SEEDS / 10..SEEDS / 2).contains(&admitted), "{admitted}");
}
