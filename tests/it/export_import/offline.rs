//! Nodes without a network.

use std::fs;
use std::time::{Duration, Instant};

use super::{Carried, REPOSITORY, export, import};
use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::image::{Image, Index};
use crate::support::upstream::Upstream;

#[test]
fn a_configuration_exports_its_own_catalogs() {
    let folder = tempfile::tempdir().unwrap();
    let mut carried = Carried::start(&folder);
    carried.export("all.tar", "etcd", &[]);
    let archive = folder.path().join("one.tar");
    let with = |catalogs: &[&str]| {
        let path = folder.path().join("almanac.toml");
        let catalogs = catalogs.iter().map(|name| catalog(name, "file:/nowhere"));
        fs::write(&path, catalogs.collect::<String>()).unwrap();
        export(
            &carried.almanac,
            &archive,
            &[&format!("--config={}", path.display())],
        )
    };
    let finished = with(&["b", "later"]);
    assert!(finished.status.success(), "{finished:?}");
    for said in [
        "exported b at",
        "does not have them: a;",
        "nothing is stored of later",
    ] {
        assert!(finished.stderr.contains(said), "{finished:?}");
    }
    assert!(!finished.stderr.contains("exported a"), "{finished:?}");
    let finished = with(&["later"]);
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    assert!(finished.stderr.contains("a, b"), "{finished:?}");
    // As before where the configuration only says where.
    let finished = with(&[]);
    assert!(finished.stderr.contains("exported a at"), "{finished:?}");
}

/// Serves an image index that lacks one of its platforms, and returns its digest.
fn serve_without_a_platform(upstream: &Upstream) -> images::digest::Digest {
    let of_platform = |architecture: &str| {
        Image::of_catalog(&Catalog::one("etcd"))
            .platform("linux", architecture)
            .build()
    };
    let other = of_platform("arm64");
    let index = Index::new()
        .image(of_platform("amd64"))
        .image(other)
        .build();
    index.for_each_blob(|blob| {
        upstream.put_blob(blob.bytes.clone());
    });
    let mut manifests = Vec::new();
    index.for_each_manifest(|manifest| manifests.push(manifest.clone()));
    for (name, manifest) in [
        (manifests[0].digest.to_string(), &manifests[0]),
        ("v4.20".to_owned(), &index.top),
    ] {
        let bytes = manifest.bytes.clone();
        upstream.put_manifest(REPOSITORY, &name, bytes, manifest.media_type);
    }
    index.digest()
}

#[test]
fn a_catalog_without_its_image_stands_in_nobodys_way() {
    let upstream = Upstream::start();
    let digest = serve_without_a_platform(&upstream);
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("catalog");
    fs::create_dir(&source).unwrap();
    Catalog::one("vault").write_to(&source, Format::Yaml);
    let config = format!(
        "{}{}mirror = \"full\"\n",
        following(&format!("file:{}", source.display())),
        catalog("b", &upstream.reference(REPOSITORY, "v4.20"))
    );
    let mut almanac = Almanac::start(&config);
    almanac.until_pullable("a");
    almanac.until_at("b", &digest);
    let archive = folder.path().join("all.tar");
    let finished = export(&almanac, &archive, &[]);
    assert_eq!(finished.status.code(), Some(3), "{finished:?}");
    let wanted = "the image of the catalog b is not made yet";
    for said in [wanted, "name the other catalogs with --catalog"] {
        assert!(finished.stderr.contains(said), "{finished:?}");
    }
    let finished = export(&almanac, &archive, &["--catalog=a"]);
    assert!(finished.status.success(), "{finished:?}");
}

#[test]
fn an_image_that_was_not_made_yet_is_made_offline() {
    let upstream = Upstream::start();
    let digest = serve_without_a_platform(&upstream);
    let config = following(&upstream.reference(REPOSITORY, "v4.20"));
    // The whole image cannot be mirrored.
    let mut almanac = Almanac::start(&format!("{config}mirror = \"full\"\n"));
    almanac.until_at("a", &digest);
    assert_ne!(almanac.http("/v2/a/manifests/latest").status, 200);
    almanac.stop();
    upstream.forget_requests();
    almanac.restart_with(&format!("offline = true\n{config}"));
    almanac.until_pullable("a");
    assert_eq!(almanac.http("/v2/a/manifests/v4.20").status, 200);
    assert_eq!(upstream.lines(), [""; 0]);
}

#[test]
fn a_curated_catalog_is_made_without_a_network() {
    let folder = tempfile::tempdir().unwrap();
    let mut carried = Carried::start(&folder);
    let archive = carried.export("all.tar", "etcd", &[]);
    let data = folder.path().join("there");
    assert!(import(&archive, &data).status.success());
    let curated = |name: &str, from: &str| {
        format!(
            "\n[[catalog]]\nname = {name:?}\nfrom = [{from:?}]\npackages = [{{ name = \"etcd\" }}]\n"
        )
    };
    // The first is made of the second, and what the last is made of is nowhere.
    let config = format!(
        "offline = true\n{}{}{}{}{}",
        carried.config,
        curated("first", "second"),
        curated("second", "a"),
        catalog("nowhere", "registry.invalid/x:1"),
        curated("last", "nowhere"),
    );
    let mut there = Almanac::start_in(&data, &config);
    there.program.wait_until_ready();
    assert_eq!(there.packages("first").unwrap(), ["etcd"]);
    there.until_pullable("first");
    assert_eq!(there.status("last")["failures"], 0);
    assert_eq!(there.all("last").status, 503);

    // The next archive is taken beside what was made.
    there.stop();
    let next = carried.export("next.tar", "kafka", &[]);
    assert!(import(&next, &data).status.success());
    let config = config.replace("name = \"etcd\" }]", "name = \"kafka\" }]");
    let mut there = Almanac::start_in(&data, &config);
    let begin = Instant::now();
    while there.packages("first").ok() != Some(vec!["kafka".to_owned()]) {
        assert!(begin.elapsed().as_secs() < 30);
        std::thread::sleep(Duration::from_millis(20));
    }
}
