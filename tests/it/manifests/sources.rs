//! Every `CatalogSource` and `ClusterCatalog` that is documented or written by
//! `almanac manifests`.

use std::collections::BTreeSet;
use std::io::Read as _;

use flate2::read::GzDecoder;
use images::Reference;
use serde_json::{Value, json};

use super::cluster::{Cluster, Image, text};
use super::{deployed, in_pages};
use crate::docs::read;
use crate::olm_v0::dockerfile;
use crate::support::catalog::Catalog;
use crate::support::http;
use crate::support::program::Start;
use crate::support::served::{Folders, Served};
use crate::support::yaml;

const LABEL: &str = "operators.operatorframework.io.index.configs.v1";

/// The cluster of the pages, with the images that they name.
fn cluster(slim: &Image) -> Cluster {
    let mut cluster = Cluster::of(&deployed());
    let stages = dockerfile(&read("Dockerfile"));
    let opm = &stages["opm-image"];
    let program = |words: &str| opm.words(words);
    let base = Image {
        files: ["/bin/opm", "/bin/grpc_health_probe"]
            .map(str::to_owned)
            .into(),
        command: [program("ENTRYPOINT"), program("CMD")].concat(),
        user: opm.all("USER")[0].to_owned(),
    };
    // An image that serves itself: that base, the catalog and a cache.
    let stages = dockerfile(&read("deploy/catalog.Dockerfile"));
    let stage = &stages[""];
    assert_eq!(stage.from, "almanac-opm");
    let mut itself = base.clone();
    itself.command = [stage.words("ENTRYPOINT"), stage.words("CMD")].concat();
    let (_, configs) = stage.all("ADD")[0].split_once(' ').unwrap();
    itself.files.insert(configs.to_owned());
    let built = stage.words("RUN");
    let cache = built.iter().find_map(|it| it.strip_prefix("--cache-dir="));
    itself.files.insert(cache.unwrap().to_owned());
    for (name, image) in [
        ("opm", &base),
        ("registry.example.com/granary-catalog:v1", &itself),
        ("registry.example.com/lantern-catalog:v1", slim),
        ("almanac.example.com/community:latest", slim),
    ] {
        cluster.images.insert(name.to_owned(), image.clone());
    }
    cluster
}

/// The slim image of a catalog, as it is pulled, and its configuration.
fn slim() -> (Image, Value) {
    let served = Served::catalogs(&Folders::of("community", &Catalog::small()));
    let get = |path: &str| {
        let begin = std::time::Instant::now();
        loop {
            let reply = http::get(served.http, &format!("/v2/community/{path}")).unwrap();
            if reply.status == 200 {
                return reply.body;
            }
            assert!(begin.elapsed().as_secs() < 30, "{}", reply.text());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    let blob = |descriptor: &Value| get(&format!("blobs/{}", text(&descriptor["digest"])));
    let manifest = json(&get("manifests/latest"));
    let config = json(&blob(&manifest["config"]));
    let mut files = BTreeSet::new();
    for layer in manifest["layers"].as_array().unwrap() {
        let mut archive = Vec::new();
        let bytes = blob(layer);
        GzDecoder::new(&bytes[..])
            .read_to_end(&mut archive)
            .unwrap();
        for entry in tar::Archive::new(&archive[..]).entries().unwrap() {
            let path = entry.unwrap().path().unwrap().into_owned();
            let path = path.to_str().unwrap().trim_end_matches('/').to_owned();
            files.insert(format!("/{path}"));
        }
    }
    let words = |key: &str| -> Vec<String> {
        serde_json::from_value(config["config"][key].clone()).unwrap_or_default()
    };
    let image = Image {
        files,
        command: [words("Entrypoint"), words("Cmd")].concat(),
        user: config["config"]["User"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
    };
    (image, config)
}

/// The manifests that `almanac manifests` writes for the catalog of the pages.
fn written() -> Vec<Value> {
    let mut all = Vec::new();
    for by in ["address", "image"] {
        let finished = Start::new([
            "manifests",
            "community=file:deploy/catalog",
            "--catalog-host=almanac.example.com",
        ])
        .argument(format!("--by={by}"))
        .run();
        assert!(finished.status.success(), "{}", finished.stderr);
        all.extend(yaml::documents(&finished.stdout));
    }
    all
}

#[test]
fn operator_lifecycle_manager_can_act_on_every_documented_source() {
    let (slim, config) = slim();
    let configs = &config["config"]["Labels"][LABEL];
    assert!(slim.files.contains(text(configs)), "{slim:?}");
    let cluster = cluster(&slim);

    let file = |path: &str| {
        let documents = yaml::documents(&read(path)).into_iter();
        let with_origin = documents.map(|document| (path.to_owned(), document));
        with_origin.collect::<Vec<_>>()
    };
    let mut all = in_pages();
    all.extend(deployed().into_iter().map(|it| ("olm-v0".to_owned(), it)));
    all.extend(file("deploy/catalogsource-image.yaml"));
    let command = || "almanac manifests".to_owned();
    all.extend(written().into_iter().map(|it| (command(), it)));
    let (mut sources, mut catalogs) = (0, 0);
    for (origin, manifest) in all {
        if manifest["kind"] == "CatalogSource" {
            if let Err(reason) = cluster.act_on(&manifest) {
                panic!("{origin}: {reason}: {manifest:#}");
            }
            sources += 1;
        } else if manifest["kind"] == "ClusterCatalog" {
            accept(&manifest).unwrap_or_else(|why| panic!("{origin}: {why}: {manifest:#}"));
            let reference = text(&manifest["spec"]["source"]["image"]["ref"]);
            assert!(cluster.images.contains_key(reference), "{reference}");
            catalogs += 1;
        }
    }
    assert!(sources >= 6 && catalogs >= 3, "{sources}, {catalogs}");
}

/// A `CatalogSource` as oc-mirror writes it: of a template it keeps everything but the
/// name, the namespace and the image.
fn of_oc_mirror(template: &Value, image: &str) -> Value {
    let mut source = template.clone();
    source["metadata"]["name"] = "cs-community-latest".into();
    source["metadata"]["namespace"] = "openshift-marketplace".into();
    source["metadata"]["annotations"] = json!({"createdBy": "oc-mirror v2"});
    source["spec"]["sourceType"] = "grpc".into();
    source["spec"]["image"] = image.into();
    source
}

#[test]
fn catalog_sources_of_oc_mirror_start_with_the_documented_template() {
    let (slim, _) = slim();
    let mut cluster = cluster(&slim);
    let image = "mirror.example.com/community:latest";
    cluster.images.insert(image.to_owned(), slim);
    let plain = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {}, "spec": {},
    });
    let reason = cluster.act_on(&of_oc_mirror(&plain, image)).unwrap_err();
    assert!(reason.contains("no program"), "{reason}");
    let documented = in_pages().into_iter().map(|(_, it)| it);
    let template = documented
        .filter(|it| it["kind"] == "CatalogSource" && it["metadata"]["name"] == "template")
        .collect::<Vec<_>>();
    let [template] = &template[..] else {
        panic!("one template, not {template:?}")
    };
    cluster.act_on(&of_oc_mirror(template, image)).unwrap();
}

/// Admits a `ClusterCatalog` by the rules of its definition.
fn accept(catalog: &Value) -> Result<(), String> {
    let source = &catalog["spec"]["source"];
    if source["type"] != "Image" {
        return Err("the only type is Image".into());
    }
    let image = &source["image"];
    let reference = text(&image["ref"]);
    if reference.len() > 1000 {
        return Err("ref is too long".into());
    }
    let parsed: Reference = reference.parse().map_err(|error| format!("{error}"))?;
    let poll = &image["pollIntervalMinutes"];
    if !poll.is_null() && (parsed.tag().is_none() || poll.as_u64().is_none_or(|it| it < 1)) {
        return Err("pollIntervalMinutes needs a tag, and one minute".into());
    }
    Ok(())
}

/// The walk finds what would keep a pod from starting, or a client from
/// connecting.
#[test]
fn a_source_that_cannot_become_ready_is_found() {
    let (slim, _) = slim();
    let cluster = cluster(&slim);
    let [address] = cluster.of_kind("CatalogSource")[..] else {
        panic!("one CatalogSource")
    };
    let images = yaml::documents(&read("deploy/catalogsource-image.yaml"));
    let [itself, extracted] = &images[..] else {
        panic!("two sources")
    };
    let changed = |source: &Value, path: &str, value: Value| {
        let mut source = source.clone();
        let mut at = &mut source;
        for key in path.split('.') {
            at = &mut at[key];
        }
        *at = value;
        source
    };
    let slim_alone = changed(extracted, "spec.grpcPodConfig.extractContent", Value::Null);
    let extract = |key: &str| format!("spec.grpcPodConfig.extractContent.{key}");
    for (source, reason) in [
        (
            changed(extracted, &extract("cacheDir"), json!("/tmp/cache")),
            "lstat /tmp/cache",
        ),
        (
            changed(extracted, &extract("catalogDir"), json!("/other")),
            "lstat /other",
        ),
        (slim_alone, "no program"),
        (
            changed(itself, "spec.image", json!("x.example.com/y")),
            "cannot be pulled",
        ),
        (changed(itself, "spec.image", Value::Null), "unset"),
        (
            changed(itself, "spec.updateStrategy.registryPoll", json!({})),
            "Interval",
        ),
        (
            changed(itself, "metadata.name", json!("a.b")),
            "cannot name",
        ),
        (
            changed(address, "spec.image", json!("x.example.com/y")),
            "dialled",
        ),
        (
            changed(
                address,
                "spec.address",
                json!("http://community.olm.svc:50051"),
            ),
            "no HOST:PORT",
        ),
        (
            changed(address, "spec.address", json!("community.olm.svc:8080")),
            "console",
        ),
        (
            changed(
                &changed(address, "metadata.name", json!("other")),
                "spec.address",
                json!("other.olm.svc:50051"),
            ),
            "no Service other",
        ),
        (
            changed(
                address,
                "spec.updateStrategy",
                json!({"registryPoll": {"interval": "15m"}}),
            ),
            "no effect",
        ),
    ] {
        let found = cluster.act_on(&source).unwrap_err();
        assert!(found.contains(reason), "{reason}: {found}");
    }

    for (kind, part) in [
        ("NetworkPolicy", "no NetworkPolicy"),
        ("Service", "no Service"),
    ] {
        let mut manifests = deployed();
        manifests.retain(|manifest| manifest["kind"] != kind);
        let found = Cluster::of(&manifests).act_on(address).unwrap_err();
        assert!(found.contains(part), "{found}");
    }
}

#[test]
fn the_slim_image_has_a_fixed_date() {
    let (_, config) = slim();
    assert_eq!(config["created"], "1970-01-01T00:00:00Z");
}
