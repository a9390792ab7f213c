//! What is stored: kept, removed, and served after a start.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{REPOSITORY, serving_first, text};
use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::image::{Built, CONFIGS_LABEL, Image, Layer, image_of};
use crate::support::upstream::Upstream;

#[test]
fn the_same_content_in_another_image_is_the_same_to_clients() {
    let (upstream, mut almanac) = serving_first();
    let before = almanac.all("a");
    let revision = almanac.status("a")["revision"].clone();
    // Dates are in whole seconds.
    sleep(Duration::from_millis(1100));

    let rebuilt = Image::of_catalog(&Catalog::one("first"))
        .annotation("example.com/build", "2")
        .build();
    upstream.push(REPOSITORY, "latest", &rebuilt);
    let status = almanac.until_at("a", &rebuilt.digest());
    let after = almanac.all("a");
    for header in ["last-modified", "etag"] {
        assert!(before.header(header).is_some());
        assert_eq!(after.header(header), before.header(header));
    }
    assert_eq!(status["revision"]["content"], revision["content"]);
    assert_eq!(status["revision"]["modified"], revision["modified"]);
    assert_ne!(status["revision"]["committed"], revision["committed"]);

    sleep(Duration::from_millis(1100));
    let changed = image_of("second");
    upstream.push(REPOSITORY, "latest", &changed);
    almanac.until_at("a", &changed.digest());
    for header in ["last-modified", "etag"] {
        assert_ne!(almanac.all("a").header(header), before.header(header));
    }
}

#[test]
fn what_is_stored_is_not_pulled_again_for_another_catalog() {
    let upstream = Upstream::start();
    let base = Layer::new().file("etc/release", "a base that many images have");
    let image = |package: &str| {
        let content = Layer::of_catalog(&Catalog::one(package), Format::JsonLines, "configs");
        let image = Image::new().label(CONFIGS_LABEL, "/configs");
        image.layer(base.clone()).layer(content).build()
    };
    let (one, other) = (image("one"), image("other"));
    let shared = Image::new().layer(base.clone()).build();
    let mut shared_layer = None;
    shared.for_each_blob(|blob| shared_layer = Some(blob.digest));
    let shared_layer = format!("/blobs/{}", shared_layer.unwrap());

    upstream.push("one", "latest", &one);
    let config = "poll = \"100ms\"\n".to_owned()
        + &catalog("one", &upstream.reference("one", "latest"))
        + &catalog("other", &upstream.reference("other", "latest"));
    let mut almanac = Almanac::start(&config);
    almanac.until_at("one", &one.digest());
    upstream.push("other", "latest", &other);
    almanac.until_at("other", &other.digest());
    assert_eq!(upstream.asked(&shared_layer), 1);

    // It is kept as long as one of them needs it.
    let last = image_of("last");
    upstream.push("one", "latest", &last);
    almanac.until_at("one", &last.digest());
    let layer = shared_layer.rsplit_once(':').unwrap().1.to_owned();
    let gone = blobs_of(&one)
        .into_iter()
        .find(|blob| *blob != layer)
        .unwrap();
    eventually("the old image to be removed", || {
        !almanac.blobs().contains(&gone)
    });
    assert!(almanac.blobs().contains(&layer));
    upstream.push("other", "latest", &last);
    almanac.until_at("other", &last.digest());
    eventually("the layer to be removed", || {
        !almanac.blobs().contains(&layer)
    });
}

#[test]
fn old_revisions_and_their_blobs_are_removed() {
    let (upstream, mut almanac) = serving_first();
    let mut made = almanac.until_pullable("a").body;
    for package in ["second", "third"] {
        let image = image_of(package);
        upstream.push(REPOSITORY, "latest", &image);
        almanac.until_at("a", &image.digest());
        // What is made of a revision that is replaced meanwhile stays for a while.
        eventually("the image of the revision", || {
            let latest = almanac.until_pullable("a").body;
            latest != std::mem::replace(&mut made, latest.clone())
        });
    }
    let id = almanac.status("a")["revision"]["id"].to_string();
    let expected = blobs_of(&image_of("third"));
    let begin = Instant::now();
    loop {
        let there = (almanac.revisions(), almanac.pulled_blobs("a"));
        if there == (vec![id.clone()], expected.clone()) {
            break;
        }
        let patience = Duration::from_secs(30);
        assert!(
            begin.elapsed() < patience,
            "{there:?} instead of {id} and {expected:?}"
        );
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_a_refused_image_brought_is_removed_as_well() {
    let upstream = Upstream::start();
    upstream.push(REPOSITORY, "latest", &image_of("first"));
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut almanac = Almanac::start(&(config + "[cache]\nmax_age = \"0s\"\n"));
    almanac.until_at("a", &image_of("first").digest());
    let bad = Image::new()
        .label(CONFIGS_LABEL, "/configs")
        .layer(Layer::new().file("configs/catalog.yaml", "no: schema"));
    upstream.push(REPOSITORY, "latest", &bad.build());
    almanac.until_failed("a");
    let good = image_of("good");
    upstream.push(REPOSITORY, "latest", &good);
    almanac.until_at("a", &good.digest());
    eventually("only the last to be there", || {
        almanac.pulled_blobs("a") == blobs_of(&good)
    });
}

#[test]
fn a_catalog_that_comes_back_into_the_settings_is_served_from_the_store() {
    let upstream = Upstream::start();
    let (one, other) = (image_of("one"), image_of("other"));
    upstream.push("one", "latest", &one);
    upstream.push("other", "latest", &other);
    let of_one = catalog("one", &upstream.reference("one", "latest"));
    let of_other = catalog("other", &upstream.reference("other", "latest"));
    let both = format!("{of_one}{of_other}");
    let mut almanac = Almanac::start(&both);
    almanac.until_at("one", &one.digest());
    almanac.until_at("other", &other.digest());
    almanac.stop();
    almanac.restart_with(&of_one);
    almanac.until_at("one", &one.digest());
    assert_eq!(almanac.all("other").status, 404);
    almanac.stop();
    drop(upstream);
    almanac.restart_with(&both);
    assert_eq!(almanac.all("other").status, 200);
}

#[test]
fn what_is_stored_is_served_for_another_tag_until_that_was_looked_at() {
    let (upstream, mut almanac) = serving_first();
    almanac.stop();
    let next = image_of("next");
    upstream.push(REPOSITORY, "next", &next);
    upstream.misbehave(|behaviour| behaviour.silent = true);
    almanac.restart_with(&following(&upstream.reference(REPOSITORY, "next")));
    almanac.program.wait_until_ready();
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);
    let source = almanac.status("a")["revision"]["source"].clone();
    assert!(source.as_str().unwrap().contains(":latest"), "{source}");

    almanac.stop();
    upstream.behave();
    almanac.program.restart();
    almanac.until_at("a", &next.digest());
    assert_eq!(almanac.packages("a").unwrap(), ["next"]);
}

#[test]
fn what_is_stored_is_not_served_for_another_repository() {
    let (upstream, mut almanac) = serving_first();
    almanac.stop();
    upstream.misbehave(|behaviour| behaviour.silent = true);
    almanac.restart_with(&following(&upstream.reference("catalogs/b", "latest")));
    assert_eq!(almanac.ready().status, 503);
    assert_eq!(almanac.status("a")["state"], "loading");
    assert_eq!(almanac.all("a").status, 503);
    let refusal = almanac.packages("a").unwrap_err();
    assert_eq!(refusal.code(), tonic::Code::Unavailable, "{refusal}");
    let log = almanac.program.log();
    assert!(log.contains("is of another source"), "{log}");
}

/// An almanac that serves `my catalogs/x` of a folder.
fn serving_a_folder(root: &Path) -> Almanac {
    let path = root.join("my catalogs/x");
    fs::create_dir_all(&path).unwrap();
    Catalog::one("first").write_to(&path, Format::JsonLines);
    let mut almanac = Almanac::start(&following(&format!("file:{}", path.display())));
    almanac.until("a", "the folder", |status| status["state"] == "serving");
    almanac.stop();
    almanac
}

#[test]
fn a_folder_with_a_space_in_its_name_is_served_from_the_store() {
    let root = tempfile::tempdir().unwrap();
    let mut almanac = serving_a_folder(root.path());
    fs::remove_dir_all(root.path().join("my catalogs")).unwrap();
    almanac.program.restart();
    almanac.program.wait_until_ready();
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);
}

#[test]
fn what_came_from_one_folder_is_not_served_for_another_whose_name_begins_the_same() {
    let root = tempfile::tempdir().unwrap();
    let mut almanac = serving_a_folder(root.path());
    let source = format!("file:{}", root.path().join("my").display());
    almanac.restart_with(&following(&source));
    almanac.until_failed("a");
    assert_eq!(almanac.all("a").status, 503);
    let log = almanac.program.log();
    assert!(log.contains("is of another source"), "{log}");
}

#[test]
fn a_start_with_the_registry_down_serves_what_is_stored() {
    let (upstream, mut almanac) = serving_first();
    let before = almanac.all("a");
    almanac.stop();
    let host = upstream.host();
    drop(upstream);

    let begin = Instant::now();
    almanac.program.restart();
    almanac.program.wait_until_ready();
    assert!(begin.elapsed() < Duration::from_secs(10));
    let after = almanac.all("a");
    assert_eq!(after.text(), text(&Catalog::one("first")));
    for header in ["last-modified", "etag"] {
        assert_eq!(after.header(header), before.header(header));
    }
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);

    let status = almanac.until_failed("a");
    assert_eq!(status["state"], "serving");
    assert_eq!(status["last_result"]["stage"], "resolve");
    assert_eq!(status["last_result"]["reason"], "unreachable");
    let error = status["last_error"].as_str().unwrap();
    assert!(error.contains(&host), "{error}");
    assert_eq!(almanac.ready().status, 200);
}

/// The names of an image's blobs in the store, sorted.
fn blobs_of(image: &Built) -> Vec<String> {
    let mut blobs = Vec::new();
    image.for_each_blob(|blob| blobs.push(blob.digest.hex()));
    image.for_each_manifest(|manifest| blobs.push(manifest.digest.hex()));
    blobs.sort();
    blobs
}

fn eventually(what: &str, mut good: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !good() {
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "waiting for {what}"
        );
        sleep(Duration::from_millis(10));
    }
}
