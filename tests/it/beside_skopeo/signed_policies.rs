//! Random policies of simple signatures beside skopeo, for images with several
//! signatures.

use std::fs;
use std::path::Path;

use fastrand::Rng;
use images::digest::Digest;
use serde_json::{Value, json};

use super::conf_cases::one_of;
use super::random_policies::{Site, VENDOR};
use crate::support::gpg::Gpg;
use crate::support::needs::skip_without;

const SEEDS: u64 = 500;

/// A site whose images have signatures in a lookaside.
fn site(root: &Path) -> Site {
    let stores = format!(
        "default-docker: {{lookaside: 'file://{}/store'}}\n",
        root.display()
    );
    let mut site = Site::new(root, &stores, requirement);
    let gpg = Gpg::new();
    for name in ["one", "two"] {
        let key = gpg.key(name, &["ed25519", "sign", "never"]);
        fs::write(root.join(name), gpg.export(&[&key])).unwrap();
    }
    let host = site.upstream.host();
    let app = format!("{host}/team/app");
    let signed = |key: &str, digest: &Digest, name: &str| {
        let document = json!({
            "critical": {
                "type": "atomic container signature",
                "image": {"docker-manifest-digest": digest.to_string()},
                "identity": {"docker-reference": name},
            },
            "optional": {},
        });
        let user = format!("{key}@example.com");
        gpg.sign(&user, document.to_string().as_bytes(), &[])
    };
    for (repository, tag, signatures) in [
        (
            "team/app",
            "v1",
            vec![("one", format!("{app}:v1")), ("two", app.clone())],
        ),
        (
            "team/app",
            "v2",
            vec![
                ("one", format!("{VENDOR}:v2")),
                ("two", format!("{app}:v1")),
            ],
        ),
        (
            "team/more",
            "v1",
            vec![("two", format!("{host}/team/more:v2"))],
        ),
        ("other", "v1", vec![]),
    ] {
        let digest = site.push(repository, tag);
        let folder = root.join(format!("store/{repository}@sha256={}", digest.hex()));
        fs::create_dir_all(&folder).unwrap();
        for (number, (key, name)) in (1..).zip(&signatures) {
            let path = folder.join(format!("signature-{number}"));
            fs::write(path, signed(key, &digest, name)).unwrap();
        }
    }
    site
}

fn requirement(site: &Site, rng: &mut Rng) -> Value {
    let key = |rng: &mut Rng| site.path(one_of(rng, &["one", "two"]));
    let mut requirement = json!({"type": "signedBy", "keyType": "GPGKeys"});
    match rng.u8(..14) {
        0..=8 => requirement["keyPath"] = json!(key(rng)),
        9 => requirement["keyPath"] = json!(site.path("missing")),
        10 => requirement["keyData"] = json!("anVuaw=="),
        11 => requirement["keyPath"] = json!(site.path("registries.d/a.yaml")),
        12 => requirement["keyType"] = json!("X509Certificates"),
        _ => requirement["keyData"] = json!("%"),
    }
    if requirement["keyType"] == "X509Certificates" {
        requirement["keyPath"] = json!(key(rng));
    }
    if rng.u8(..4) > 0 {
        requirement["signedIdentity"] = site.identity(rng);
    }
    // Defects are rare, or nothing else would be seen.
    match rng.u8(..60) {
        0 => requirement["more"] = json!(1),
        1 => requirement["signedIdentity"] = Value::Null,
        2 => requirement["keyPath"] = Value::Null,
        3 => requirement["keyType"] = json!("gpgKeys"),
        4 => requirement["keyPath"] = json!(""),
        5 => requirement["signedIdentity"]["more"] = json!(1),
        _ => {}
    }
    requirement
}

#[test]
fn signed_images_are_admitted_as_skopeo_copies_them() {
    if skip_without("skopeo") || skip_without("gpg") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let admitted = site(&root).compare("skopeo", SEEDS);
    assert!((SEEDS / 10..SEEDS / 2).contains(&admitted), "{admitted}");
}
