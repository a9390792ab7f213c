//! Images that are made of a catalog.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use images::digest::Digest;
use serde_json::Value;

use super::{REPOSITORY, Slim};
use crate::support::almanac::{Almanac, following};
use crate::support::catalog::Catalog;
use crate::support::image::Image;
use crate::support::program::PATIENCE;
use crate::support::upstream::Upstream;

#[test]
fn a_slim_image_has_the_catalog_byte_for_byte() {
    let mut slim = Slim::start();
    let layer = slim.get(&format!("/v2/a/blobs/{}", slim.layer())).body;
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&layer[..]));
    let mut text = String::new();
    let mut paths = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        paths.push(entry.path().unwrap().display().to_string());
        let header = entry.header();
        assert_eq!(header.mtime().unwrap(), 0);
        assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
        entry.read_to_string(&mut text).unwrap();
    }
    assert_eq!(text, slim.almanac.all("a").text());
    let config = slim.document()["config"]["digest"].clone();
    let config = slim.get(&format!("/v2/a/blobs/{}", config.as_str().unwrap()));
    let config: Value = serde_json::from_slice(&config.body).unwrap();
    let label = "operators.operatorframework.io.index.configs.v1";
    assert_eq!(config["config"]["Labels"][label], "/configs");
    assert!(
        paths.iter().all(|path| path.starts_with("configs/")),
        "{paths:?}"
    );
}

#[test]
fn the_same_content_makes_the_same_image() {
    let (one, other) = (Slim::start(), Slim::start());
    assert_eq!(one.manifest.body, other.manifest.body);

    // Also of another image, in other files and another form.
    let upstream = Upstream::start();
    let image = Image::of_catalog(&Catalog::small()).build();
    upstream.push(REPOSITORY, "v4.20", &image);
    let source = upstream.reference(REPOSITORY, "v4.20");
    let mut almanac = Almanac::start(&following(&source));
    assert_eq!(almanac.until_pullable("a").body, one.manifest.body);
    // And under the tag that it is followed by.
    let reply = almanac.http("/v2/a/manifests/v4.20");
    assert_eq!(reply.body, one.manifest.body);

    // A start has it at once, and makes nothing.
    let files = |almanac: &Almanac| -> Vec<u64> {
        let folder = almanac.program.data().join("blobs/sha256");
        let blobs = almanac.blobs().into_iter();
        let number = |blob| fs::metadata(folder.join(blob)).unwrap().ino();
        blobs.map(number).collect()
    };
    let before = files(&almanac);
    almanac.stop();
    almanac.program.restart();
    almanac.program.wait_until_ready();
    assert_eq!(almanac.http("/v2/a/manifests/latest").status, 200);
    assert_eq!(files(&almanac), before);
}

#[test]
fn almanac_follows_the_slim_image_of_another() {
    let mut slim = Slim::start();
    let source = format!("{}/a:latest", slim.address);
    let mut second = Almanac::start(&following(&source));
    let digest = Digest::of(&slim.manifest.body);
    second.until_at("a", &digest);
    assert_eq!(second.all("a").text(), slim.almanac.all("a").text());
}

#[test]
fn a_moved_tag_makes_another_image_and_lets_pulls_end() {
    let upstream = Upstream::start();
    let image = |package: &str| Image::of_catalog(&Catalog::one(package)).build();
    upstream.push(REPOSITORY, "v4.20", &image("first"));
    let source = upstream.reference(REPOSITORY, "v4.20");
    let mut almanac = Almanac::start(&following(&source));
    let first = almanac.until_pullable("a").body;
    upstream.push(REPOSITORY, "v4.20", &image("second"));
    let begin = Instant::now();
    while almanac.http("/v2/a/manifests/latest").body == first {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
    // Whoever has begun to pull the first finds the rest of it.
    let document: Value = serde_json::from_slice(&first).unwrap();
    let layer = document["layers"][0]["digest"].as_str().unwrap();
    let reply = almanac.http(&format!("/v2/a/blobs/{layer}"));
    assert_eq!(Digest::of(&reply.body).to_string(), layer);
    let digest = Digest::of(&first);
    let reply = almanac.http(&format!("/v2/a/manifests/{digest}"));
    assert_eq!(reply.body, first);
}
