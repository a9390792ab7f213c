//! Images that are mirrored whole.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use images::digest::Digest;
use serde_json::{Value, json};

use super::{OCI_INDEX, OCI_MANIFEST, REPOSITORY, code, index, mirroring};
use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::Catalog;
use crate::support::image::{Blob, Built, Image};
use crate::support::program::PATIENCE;
use crate::support::upstream::Upstream;

#[test]
fn a_mirror_has_every_platform_and_signature_under_both_names() {
    let upstream = Upstream::start();
    let image = index();
    upstream.push(REPOSITORY, "v4.20", &image);
    // As cosign does it: by a tag, and by a subject that the fallback tag lists.
    let subject = image.digest();
    let signature = Image::new().edit_config(|config| config["signed"] = true.into());
    let signature = signature.build();
    let tag = format!("sha256-{}.sig", subject.hex());
    upstream.push(REPOSITORY, &tag, &signature);
    let config = upstream.put_blob("{}");
    let referrer = json!({
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "artifactType": "application/vnd.example.signature",
        "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": config, "size": 2},
        "layers": [],
        "subject": {"mediaType": OCI_INDEX, "digest": subject, "size": 1},
        "annotations": {"by": "test"},
    })
    .to_string();
    let digest = upstream.put_manifest(REPOSITORY, "unused", referrer.clone(), OCI_MANIFEST);
    let list = json!({
        "schemaVersion": 2,
        "mediaType": OCI_INDEX,
        "manifests": [{"mediaType": OCI_MANIFEST, "digest": digest, "size": referrer.len()}],
    });
    let fallback = format!("sha256-{}", subject.hex());
    upstream.put_manifest(REPOSITORY, &fallback, list.to_string(), OCI_INDEX);

    let mut almanac = mirroring(&upstream);
    almanac.until_pullable("a");
    for name in ["a", REPOSITORY] {
        let reply = almanac.http(&format!("/v2/{name}/manifests/v4.20"));
        assert_eq!(reply.body, image.top.bytes);
        assert_eq!(reply.header("content-type"), Some(OCI_INDEX));
        let mut parts = BTreeSet::new();
        image.for_each_manifest(|part| {
            parts.insert((part.digest, "manifests"));
        });
        image.for_each_blob(|part| {
            parts.insert((part.digest, "blobs"));
        });
        signature.for_each_blob(|part| {
            parts.insert((part.digest, "blobs"));
        });
        for (digest, kind) in parts {
            let reply = almanac.http(&format!("/v2/{name}/{kind}/{digest}"));
            assert_eq!(Digest::of(&reply.body), digest, "{kind}");
        }
        let reply = almanac.http(&format!("/v2/{name}/manifests/{tag}"));
        assert_eq!(reply.body, signature.top.bytes);

        let path = format!("/v2/{name}/referrers/{subject}");
        let list: Value = serde_json::from_slice(&almanac.http(&path).body).unwrap();
        let wanted = json!([{
            "mediaType": OCI_MANIFEST,
            "digest": digest,
            "size": referrer.len(),
            "artifactType": "application/vnd.example.signature",
            "annotations": {"by": "test"},
        }]);
        assert_eq!(list["manifests"], wanted);
        for (kind, count) in [("application/vnd.example.signature", 1), ("other", 0)] {
            let reply = almanac.http(&format!("{path}?artifactType={kind}"));
            assert_eq!(reply.header("oci-filters-applied"), Some("artifactType"));
            let list: Value = serde_json::from_slice(&reply.body).unwrap();
            assert_eq!(list["manifests"].as_array().unwrap().len(), count);
        }
    }
    // The tag that stands for the image here is not there in the source.
    assert_eq!(
        almanac
            .http(&format!("/v2/{REPOSITORY}/manifests/latest"))
            .status,
        404
    );

    // A client that means another registry names it.
    let (host, path) = (upstream.host(), format!("/v2/{REPOSITORY}/manifests/v4.20"));
    let reply = almanac.http(&format!("{path}?ns={host}"));
    assert_eq!(reply.body, image.top.bytes);
    assert_eq!(reply.header("oci-namespace"), Some(host.as_str()));
    assert_eq!(almanac.http(&format!("{path}?ns=quay.io")).status, 404);
    assert_eq!(
        almanac.http(&format!("/v2/a/tags/list?ns={host}")).status,
        404
    );

    // All of it is there without the registry.
    almanac.stop();
    drop(upstream);
    almanac.program.restart();
    almanac.program.wait_until_ready();
    assert_eq!(almanac.http(&path).body, image.top.bytes);
}

#[test]
fn a_signature_that_comes_later_is_found() {
    let upstream = Upstream::start();
    let image = Image::of_catalog(&Catalog::one("etcd")).build();
    upstream.push(REPOSITORY, "v4.20", &image);
    let mut almanac = mirroring(&upstream);
    almanac.until_pullable("a");
    let tag = format!("sha256-{}.sig", image.digest().hex());
    let path = format!("/v2/a/manifests/{tag}");
    assert_eq!(almanac.http(&path).status, 404);
    let signature = Image::new().build();
    upstream.push(REPOSITORY, &tag, &signature);
    let begin = Instant::now();
    while almanac.http(&path).body != signature.top.bytes {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// An image of which one platform is missing at first, and that.
fn half(upstream: &Upstream) -> (Built, Blob) {
    let image = index();
    image.for_each_blob(|blob| {
        upstream.put_blob(blob.bytes.clone());
    });
    let mut manifests = Vec::new();
    image.for_each_manifest(|manifest| manifests.push(manifest.clone()));
    put(upstream, &manifests[0]);
    upstream.put_manifest(REPOSITORY, "v4.20", image.top.bytes.clone(), OCI_INDEX);
    (image, manifests.swap_remove(1))
}

fn put(upstream: &Upstream, manifest: &Blob) {
    let (name, bytes) = (manifest.digest.to_string(), manifest.bytes.clone());
    upstream.put_manifest(REPOSITORY, &name, bytes, manifest.media_type);
}

#[test]
fn a_mirror_that_fails_is_tried_again_and_the_catalog_is_served() {
    let upstream = Upstream::start();
    let (image, missing) = half(&upstream);
    let mut almanac = mirroring(&upstream);
    almanac.until_at("a", &image.digest());
    assert_eq!(almanac.packages("a").unwrap(), ["etcd"]);
    let reply = almanac.http("/v2/a/manifests/latest");
    assert_eq!((reply.status, code(&reply).as_str()), (503, "UNAVAILABLE"));
    assert!(reply.header("retry-after").is_some());
    almanac
        .program
        .wait_for_log("a failure", |log| log.contains("cannot make the image"));
    almanac.until("a", "the reason", |status| {
        let error = status["image_error"].as_str();
        error.is_some_and(|error| error.contains(&missing.digest.to_string()))
    });
    let admin = almanac.program.address("admin").to_string();
    let told = crate::support::program::Start::new(["status", &format!("--admin={admin}")]).run();
    assert!(
        told.stderr
            .contains("catalog a: no image of the served revision yet"),
        "{told:?}"
    );
    put(&upstream, &missing);
    almanac.until_pullable("a");
    almanac.until("a", "the end", |status| status["image_error"].is_null());
}

#[test]
fn a_restart_serves_the_image_before_while_the_mirror_of_the_next_one_fails() {
    let upstream = Upstream::start();
    let before = Image::of_catalog(&Catalog::one("kafka")).build();
    upstream.push(REPOSITORY, "v4.20", &before);
    let mut almanac = mirroring(&upstream);
    let digest = |almanac: &mut Almanac| {
        let reply = almanac.http("/v2/a/manifests/latest");
        let digest = reply.header("docker-content-digest").map(str::to_owned);
        (reply.status, digest)
    };
    almanac.until_pullable("a");
    let shown = (200, Some(before.digest().to_string()));
    assert_eq!(digest(&mut almanac), shown);
    let (image, missing) = half(&upstream);
    almanac.until_at("a", &image.digest());
    for ends_by_itself in [true, false] {
        if ends_by_itself {
            almanac.stop();
        } else {
            almanac.program.kill9();
        }
        almanac.program.restart();
        assert_eq!(almanac.packages("a").unwrap(), ["etcd"]);
        assert_eq!(digest(&mut almanac), shown);
        let path = format!("/v2/a/manifests/{}", before.digest());
        assert_eq!(almanac.http(&path).body, before.top.bytes);
        before.for_each_blob(|blob| {
            let pulled = almanac.http(&format!("/v2/a/blobs/{}", blob.digest));
            assert_eq!(pulled.body, blob.bytes);
        });
    }
    // Nor does it go with a change of the tag.
    upstream.put_manifest(REPOSITORY, "v4.21", image.top.bytes.clone(), OCI_INDEX);
    let source = upstream.reference(REPOSITORY, "v4.21");
    almanac.stop();
    almanac.restart_with(&(following(&source) + "mirror = \"full\"\n"));
    almanac.until("a", "a revision of the tag", |status| {
        let source = status["revision"]["source"].as_str();
        source.is_some_and(|source| source.contains("v4.21"))
    });
    almanac.stop();
    almanac.program.restart();
    assert_eq!(digest(&mut almanac), shown);
    put(&upstream, &missing);
    let begin = Instant::now();
    let next = (200, Some(image.digest().to_string()));
    while digest(&mut almanac) != next {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
    // Nothing of the other stays.
    let kept = almanac.blobs();
    before.for_each_blob(|blob| {
        assert!(!kept.contains(&blob.digest.hex()), "{kept:?}");
    });
}

#[test]
fn a_hangup_has_a_mirror_that_failed_tried_again_at_once() {
    let upstream = Upstream::start();
    let (image, missing) = half(&upstream);
    let source = upstream.reference(REPOSITORY, "v4.20");
    let config = catalog("a", &source) + "poll = \"1h\"\nmirror = \"full\"\n";
    let mut almanac = Almanac::start(&config);
    almanac.until_at("a", &image.digest());
    // The third try would come after ten seconds.
    let failures = |log: &str| log.matches("cannot make the image").count();
    let program = &mut almanac.program;
    program.wait_for_log("two failures", |log| failures(log) == 2);
    put(&upstream, &missing);
    // A configuration that is taken wakes it anyway, one that is refused does
    // not. The catalog itself has not failed.
    almanac.reconfigure("nonsense");
    let again = |log: &str| log.contains("trying again: a retry was requested");
    almanac.program.wait_for_log("another try", again);
    almanac.until_pullable("a");
}

/// Neither is what somebody means who says neither registry.
#[test]
fn two_registries_with_one_path_are_told_apart() {
    let (one, other) = (Upstream::start(), Upstream::start());
    one.push(REPOSITORY, "v4.20", &index());
    let image = Image::of_catalog(&Catalog::one("kafka")).build();
    other.push(REPOSITORY, "v4.20", &image);
    other.misbehave(|behaviour| behaviour.status = Some(503));
    let source = |upstream: &Upstream| upstream.reference(REPOSITORY, "v4.20");
    let full = "mirror = \"full\"\n";
    let config = format!(
        "{}{full}{}{full}",
        following(&source(&one)),
        catalog("b", &source(&other))
    );
    let mut almanac = Almanac::start(&config);
    almanac.until_pullable("a");
    almanac.program.wait_for_log("a warning", |log| {
        log.contains("two mirrored registries have this path")
    });
    let path = format!("/v2/{REPOSITORY}/manifests/v4.20");
    // Nor before there is anything of one of them.
    let reply = almanac.http(&path);
    assert_eq!((reply.status, code(&reply).as_str()), (503, "UNAVAILABLE"));
    let reply = almanac.http(&format!("{path}?ns={}", one.host()));
    assert_eq!(reply.body, index().top.bytes);
    other.behave();
    almanac.until_pullable("b");
    let reply = almanac.http(&path);
    assert_eq!(
        (reply.status, code(&reply).as_str()),
        (404, "MANIFEST_UNKNOWN")
    );
    assert!(reply.text().contains("ns=REGISTRY"), "{}", reply.text());
    let tags = almanac.http(&format!("/v2/{REPOSITORY}/tags/list")).text();
    assert!(!tags.contains("v4.20"), "{tags}");
    for (upstream, image) in [(&one, &index()), (&other, &image)] {
        let reply = almanac.http(&format!("{path}?ns={}", upstream.host()));
        assert_eq!(reply.body, image.top.bytes);
        let by_digest = format!("/v2/{REPOSITORY}/manifests/{}", image.digest());
        assert_eq!(almanac.http(&by_digest).body, image.top.bytes);
    }
    // What both have is one.
    other.push(REPOSITORY, "v4.20", &index());
    almanac.until_at("b", &index().digest());
    let begin = Instant::now();
    while almanac.http(&path).status != 200 {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_folder_cannot_be_mirrored_whole() {
    let folder = tempfile::tempdir().unwrap();
    let config = following(&format!("file:{}", folder.path().display()));
    let path = folder.path().join("almanac.toml");
    fs::write(&path, config + "mirror = \"full\"\n").unwrap();
    let start = crate::support::program::Start::new(["serve", "--config", path.to_str().unwrap()]);
    let finished = start.run();
    assert_eq!(finished.status.code(), Some(2));
    assert!(
        finished.stderr.contains("mirror = \"slim\""),
        "{}",
        finished.stderr
    );
}
