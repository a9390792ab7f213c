//! The signatures that `almanac sign` makes, judged by almanac, skopeo and cosign.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use images::digest::Digest;
use serde_json::{Value, json};

use super::signing::{Signing, served};
use super::trial::{SKOPEO, Trial, skopeo_copies};
use crate::support::almanac::Almanac;
use crate::support::catalog::Catalog;
use crate::support::image::{Image, Index};
use crate::support::needs::skip_without;
use crate::support::program::Start;

/// A list of two images in a registry with the signatures that `almanac sign`
/// makes of all three.
fn signed_list(trial: &Trial, key: &[&str], folder: &Path) -> (String, Digest) {
    let other = Image::of_catalog(&Catalog::one("other"))
        .platform("linux", "arm64")
        .build();
    let index = Index::new().image(trial.image.clone()).image(other).build();
    trial.upstream.push("catalogs/list", "v1", &index);
    let name = format!("{}/catalogs/list", trial.upstream.host());
    let image = format!("{name}:v1");
    let output = folder.join("signatures");
    let output = output.to_str().unwrap();
    let finished = Start::new([
        "sign", &image, "--name", &name, "--tag", "v1", "--folder", output,
    ])
    .argument("--key")
    .argument(key[0]);
    let finished = key[1..]
        .iter()
        .fold(finished, |start, more| start.argument(*more))
        .run();
    assert!(finished.status.success(), "{finished:?}");
    assert_eq!(finished.stdout.matches(".sig\n").count(), 3, "{finished:?}");
    // As any tool copies a layout.
    let read = |digest: &str| {
        let path = Path::new(output)
            .join("blobs/sha256")
            .join(digest.trim_start_matches("sha256:"));
        fs::read(path).unwrap()
    };
    let layout = fs::read(Path::new(output).join("index.json")).unwrap();
    let layout: Value = serde_json::from_slice(&layout).unwrap();
    for entry in layout["manifests"].as_array().unwrap() {
        let manifest = read(entry["digest"].as_str().unwrap());
        let parsed: Value = serde_json::from_slice(&manifest).unwrap();
        let layers = parsed["layers"].as_array().unwrap().iter();
        for part in layers.chain([&parsed["config"]]) {
            trial
                .upstream
                .put_blob(read(part["digest"].as_str().unwrap()));
        }
        let tag = entry["annotations"]["org.opencontainers.image.ref.name"]
            .as_str()
            .unwrap();
        let kind = parsed["mediaType"].as_str().unwrap();
        trial
            .upstream
            .put_manifest("catalogs/list", tag, manifest, kind);
    }
    (image, index.digest())
}

#[test]
fn a_list_and_its_images_are_signed() {
    let signing = Signing::new();
    let trial = Trial::new();
    let key = signing.path("key.pem").display().to_string();
    let (image, list) = signed_list(&trial, &[&key], signing.folder.path());
    let name = image.trim_end_matches(":v1");
    let public = signing.path("cosign.pub").display().to_string();
    for image in [
        image.clone(),
        format!("{name}@{list}"),
        format!("{name}@{}", trial.digest()),
    ] {
        let finished = Start::new(["verify", &image, "--key", &public]).run();
        assert_eq!(finished.status.code(), Some(0), "{finished:?}");
        assert!(
            finished.stdout.contains("holds: a signature by"),
            "{finished:?}"
        );
    }
    // The same for programs.
    let sign = |format: &str| {
        let folder = signing.path(format).display().to_string();
        let finished = Start::new([
            "sign", &image, "--name", name, "--tag", "v1", "--folder", &folder, "--key", &key,
            "--output", format,
        ])
        .run();
        assert!(finished.status.success(), "{finished:?}");
        (folder, finished.stdout)
    };
    let (folder, document) = sign("json");
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["names"], json!([format!("{name}:v1")]));
    let public_key = fs::read_to_string(&public).unwrap();
    assert_eq!(document["publicKey"], public_key.replace('\r', ""));
    let signatures = document["signatures"].as_array().unwrap();
    assert_eq!(signatures.len(), 3, "{document}");
    for one in signatures {
        let digest = one["digest"].as_str().unwrap().replace(':', "-");
        assert_eq!(one["tag"], format!("{digest}.sig"));
        assert_eq!(one["reference"], format!("oci:{folder}:{digest}.sig"));
    }
    let (folder, names) = sign("name");
    assert!(
        names.starts_with(&format!("oci:{folder}:sha256-")),
        "{names}"
    );
    assert_eq!(names.lines().count(), 3, "{names}");
    let (folder, lines) = sign("jsonl");
    let line: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(
        line["reference"],
        format!("oci:{folder}:{}", line["tag"].as_str().unwrap())
    );
    // The folder is never overwritten.
    let output = signing.path("signatures").display().to_string();
    let finished = Start::new([
        "sign", &image, "--name", name, "--tag", "v1", "--folder", &output, "--key", &key,
    ])
    .run();
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains("is not empty"), "{finished:?}");
    // Another key.
    signing.new_key("other.pem");
    let finished = Start::new(["verify", &image, "--key", &public, "--output", "json"]).run();
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    let document: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(document["admitted"], false);
    let requirement = &document["requirements"][0];
    assert_eq!(requirement["outcome"], "fails");
    let reason = requirement["reason"].as_str().unwrap();
    assert!(reason.contains("not made with a key"), "{document}");
    let places = document["searched"].as_array().unwrap().iter();
    let mut places = places.map(|place| place["place"].as_str().unwrap());
    assert!(
        places.any(|place| place.rsplit('.').next() == Some("sig")),
        "{document}"
    );
}

#[test]
fn skopeo_accepts_what_almanac_signs() {
    if skip_without(SKOPEO) {
        return;
    }
    let signing = Signing::new();
    let folder = signing.folder.path();
    fs::create_dir(folder.join("registries.d")).unwrap();
    fs::write(
        folder.join("registries.d/default.yaml"),
        "default-docker:\n  use-sigstore-attachments: true\n",
    )
    .unwrap();
    // An image that is served.
    let mut almanac = Almanac::start(&signing.config("key.pem"));
    served(&mut almanac);
    let image = format!("{}/a:latest", almanac.program.address("http"));
    let copied = |policy: &Path, image: &str, name: &str| {
        skopeo_copies(policy, folder, image, &folder.join(name))
    };
    copied(&signing.policy(), &image, "served").unwrap();
    // A list and all its parts.
    let trial = Trial::new();
    let key = signing.path("key.pem").display().to_string();
    let (image, _) = signed_list(&trial, &[&key], folder);
    let policy = json!({"default": [{
        "type": "sigstoreSigned", "keyPath": signing.path("cosign.pub"),
    }]});
    fs::write(signing.path("exact.json"), policy.to_string()).unwrap();
    copied(&signing.path("exact.json"), &image, "list").unwrap();
    // And nothing else.
    signing.new_key("other.pem");
    assert!(copied(&signing.path("exact.json"), &image, "other").is_err());
}

#[test]
fn cosign_accepts_what_almanac_signs_with_a_key_of_cosign() {
    if skip_without("cosign") {
        return;
    }
    let signing = Signing::new();
    let folder = signing.folder.path();
    let cosign = |arguments: &[&str]| {
        let output = Command::new("cosign")
            .args(arguments)
            .current_dir(folder)
            .env("COSIGN_PASSWORD", "pass word")
            .env("HOME", folder)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or(error)
    };
    cosign(&["generate-key-pair"]).unwrap();
    fs::write(signing.path("password"), "pass word\n").unwrap();
    let trial = Trial::new();
    let (key, password) = (signing.path("cosign.key"), signing.path("password"));
    let key = [
        key.to_str().unwrap(),
        "--password-file",
        password.to_str().unwrap(),
    ];
    let (image, list) = signed_list(&trial, &key, folder);
    let name = image.trim_end_matches(":v1");
    let verify = |image: &str| {
        cosign(&[
            "verify",
            "--key=cosign.pub",
            "--insecure-ignore-tlog",
            "--allow-insecure-registry",
            image,
        ])
    };
    verify(&format!("{name}@{list}")).unwrap();
    verify(&format!("{name}@{}", trial.digest())).unwrap();
    verify(&image).unwrap();
    // The signed text is the same, but for the name.
    let output = Command::new("cosign")
        .args(["generate", "--allow-insecure-registry", &image])
        .env("HOME", folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let theirs = String::from_utf8(output.stdout).unwrap();
    let theirs = theirs
        .trim()
        .replacen(&format!("{name}\""), &format!("{image}\""), 1);
    assert!(
        has_blob(&signing.path("signatures"), theirs.as_bytes()),
        "{theirs}"
    );
    // A wrong password.
    fs::write(signing.path("password"), "word").unwrap();
    let finished = Start::new([
        "sign", &image, "--name", name, "--tag", "v1", "--folder", "x",
    ])
    .argument("--key")
    .argument(key[0])
    .argument("--password-file")
    .argument(key[2])
    .run();
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    assert!(
        finished.stderr.contains("the password is wrong"),
        "{finished:?}"
    );
}

/// Whether a layout has these bytes.
fn has_blob(layout: &Path, bytes: &[u8]) -> bool {
    layout
        .join("blobs/sha256")
        .join(Digest::of(bytes).hex())
        .is_file()
}
