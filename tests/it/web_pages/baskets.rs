//! Mirror plans, and their files in the tools that read them.

use std::fs;

use serde_json::{Value, json};

use super::site::text_of;
use crate::support::almanac::Almanac;
use crate::support::catalog::{Catalog, bundle, entry};
use crate::support::program::Start;
use crate::support::served::{Folders, Served};

/// A package with a channel of three versions, and one of a single version.
fn cargo(package: &str) -> Catalog {
    let name = |minor: usize| format!("{package}.v1.{minor}.0");
    let entries = (0..3).map(|minor| match minor {
        0 => entry(&name(0)),
        _ => entry(&name(minor)).replaces(&name(minor - 1)),
    });
    Catalog::new().package(package, |mut filled| {
        for minor in 0..3 {
            let image = format!("quay.io/harbor/{package}:1.{minor}.0");
            let related = format!("quay.io/harbor/{package}-worker:1.{minor}.0");
            filled = filled.bundle(
                bundle(&name(minor))
                    .image(&image)
                    .related_image("worker", &related),
            );
        }
        filled
            .channel("stable", entries)
            .channel("old", [entry(&name(0))])
    })
}

fn served() -> Served {
    let folders = Folders::of("harbor", &cargo("crane"))
        .catalog("dock", &cargo("hook"))
        .catalog("port", &cargo("sling"));
    Served::catalogs(&folders)
}

const BASKET: &str = "pick=harbor/crane&pick=dock/hook/stable@1.1.0..&pick=port/sling@1.0.0..1.1.0";

#[test]
fn the_image_set_of_a_basket_lists_the_same_images() {
    let mut served = served();
    for catalog in ["harbor", "dock", "port"] {
        // The file names the images that almanac makes.
        let manifest = format!("/v2/{catalog}/manifests/latest");
        let begin = std::time::Instant::now();
        while served.get(&manifest).status != 200 {
            assert!(
                begin.elapsed() < crate::support::program::PATIENCE,
                "{catalog}"
            );
            crate::support::program::pause(begin);
        }
        served.wait_for_status(catalog, |status| status["state"] == "serving");
    }
    let list = served
        .get(&format!("/api/v1/mirror?{BASKET}&format=list"))
        .text();
    assert_eq!(
        list.lines().collect::<Vec<_>>(),
        [
            "quay.io/harbor/crane:1.0.0",
            "quay.io/harbor/crane:1.2.0",
            "quay.io/harbor/crane-worker:1.0.0",
            "quay.io/harbor/crane-worker:1.2.0",
            "quay.io/harbor/hook:1.1.0",
            "quay.io/harbor/hook:1.2.0",
            "quay.io/harbor/hook-worker:1.1.0",
            "quay.io/harbor/hook-worker:1.2.0",
            "quay.io/harbor/sling:1.0.0",
            "quay.io/harbor/sling:1.1.0",
            "quay.io/harbor/sling-worker:1.0.0",
            "quay.io/harbor/sling-worker:1.1.0",
        ]
    );
    let text = text_of(&served, &format!("/mirror?{BASKET}"));
    for line in list.lines() {
        assert!(text.contains(line), "{line}: {text}");
    }
    let set = served.get(&format!("/api/v1/mirror?{BASKET}&format=image-set"));
    assert_eq!(set.header("content-type"), Some("application/yaml"));
    let set = set.text();
    assert!(
        set.contains(&format!("{}/harbor:latest", served.http)),
        "{set}"
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("imageset.yaml");
    fs::write(&path, set).unwrap();
    let images = Start::new(["images"])
        .argument(format!("curated:{}", path.display()))
        .argument(format!("--insecure={}", served.http))
        .run();
    assert!(images.status.success(), "{images:?}");
    assert_eq!(images.stdout, list);
}

#[test]
fn the_configuration_of_a_basket_can_be_served() {
    let harbor = Folders::of("harbor", &cargo("crane"));
    let served = Served::catalogs(&harbor);
    let route = "/api/v1/mirror?pick=harbor/crane/stable@1.1.0..&format=config";
    let config = served.get(route);
    assert_eq!(config.header("content-type"), Some("application/toml"));
    // The catalog is a folder here, which no page names.
    let image = format!("\"{}/harbor:latest\"", served.http);
    let text = config.text();
    assert!(text.contains(&image), "{text}");
    let folder = format!("\"file:{}\"", harbor.path("harbor").display());
    let mut almanac = Almanac::start(&text.replace(&image, &folder));
    almanac.until("harbor-mirror", "a revision", |status| {
        status["state"] == "serving"
    });
    let address = almanac.program.address("http");
    let path = "/catalogs/harbor-mirror/api/v1/packages/crane?fields=channels";
    let reply = crate::support::http::get(address, path).unwrap();
    let found: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(
        found["channels"][0]["versions"],
        json!(["1.2.0", "1.1.0"]),
        "{found}"
    );
}

#[test]
fn the_manifests_of_a_basket_lead_to_the_mirror() {
    let harbor = Folders::of("harbor", &cargo("crane"));
    let served = Served::catalogs(&harbor);
    let route = "/api/v1/mirror?pick=harbor/crane&to=m.example.com/ops&format=manifests";
    let manifests = served.get(route);
    assert_eq!(manifests.header("content-type"), Some("application/yaml"));
    let manifests = manifests.text();
    let command = Start::new(["manifests", "--mirror=m.example.com/ops", "--kind=itms"])
        .argument(format!("file:{}", harbor.path("harbor").display()))
        .run();
    for part in [
        "kind: ImageTagMirrorSet",
        "- m.example.com/ops/harbor",
        "source: quay.io/harbor",
    ] {
        assert!(manifests.contains(part), "{part}: {manifests}");
        assert!(command.stdout.contains(part), "{part}: {command:?}");
    }
    let text = text_of(&served, "/mirror?pick=harbor/crane&to=m.example.com/ops");
    assert!(text.contains("download=\"mirrors.yaml\""), "{text}");
    let nowhere = "/api/v1/mirror?pick=harbor/crane&format=manifests";
    assert_eq!(served.get(nowhere).status, 400);
}

#[test]
fn a_basket_is_the_same_on_the_page_and_as_json() {
    let served = served();
    let path = format!("/api/v1/mirror?{BASKET}");
    let found: Value = serde_json::from_slice(&served.get(&path).body).unwrap();
    assert_eq!(
        found["packages"].as_array().map(Vec::len),
        Some(3),
        "{found}"
    );
    assert_eq!(
        found["images"].as_array().map(Vec::len),
        Some(12),
        "{found}"
    );
    assert_eq!(found["tags"], 12);
    let text = text_of(&served, &format!("/mirror?{BASKET}"));
    assert!(
        text.contains("3 packages · 6 bundles · 12 images"),
        "{text}"
    );
    assert!(text.contains("download=\"imageset.yaml\""), "{text}");
}
