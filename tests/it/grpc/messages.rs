//! What is in the message of a bundle, and how large it may be.

use almanac::proto;
use prost::Message as _;
use serde_json::{Value, json};

use super::{FOR_CHANNEL, GET_BUNDLE, bundles, for_channel, fruit, get_bundle};
use crate::support::catalog::{Bundle, Catalog, bundle, entry};
use crate::support::grpc::Client;
use crate::support::served::{Folders, Served};

#[tokio::test]
async fn a_bundle_of_objects_is_served_with_them() {
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": "plum.v1.0.0"},
        "spec": {"displayName": "<Plum>", "install": {"strategy": "deployment"}},
    });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "plums.example.com"},
    });
    let catalog = Catalog::new().package("plum", |package| {
        package
            .channel(
                "stable",
                [
                    entry("plum.v1.0.0"),
                    entry("plum.v2.0.0").replaces("plum.v1.0.0"),
                ],
            )
            .bundle(bundle("plum.v1.0.0").no_image().object(&crd).object(&csv))
            .bundle(bundle("plum.v2.0.0").object(&csv))
    });
    let served = Served::catalogs(&Folders::of("fruit", &catalog));
    let client = Client::new(served.grpc);
    let parse = |text: &String| serde_json::from_str::<Value>(text).unwrap();

    let get = async |name: &str| -> proto::Bundle {
        let request = get_bundle("plum", "stable", name);
        client.unary(GET_BUNDLE, request).await.unwrap()
    };
    let plain = get("plum.v1.0.0").await;
    assert_eq!(plain.bundle_path, "");
    assert_eq!(parse(&plain.csv_json), csv);
    let objects: Vec<Value> = plain.object.iter().map(parse).collect();
    assert_eq!(objects, [crd, csv.clone()]);
    let kinds: Vec<&str> = plain.properties.iter().map(|p| p.r#type.as_str()).collect();
    assert_eq!(kinds, ["olm.package"]);
    let with_image = get("plum.v2.0.0").await;
    assert_eq!(parse(&with_image.csv_json), csv);

    // OLM makes such a bundle of what is listed, and pulls no image; where
    // there is one, the manifests are left out.
    let listed = bundles(&client).await;
    assert_eq!(listed[0].csv_json, plain.csv_json);
    assert_eq!(listed[0].object, plain.object);
    assert_eq!(listed[1].csv_json, "");
    assert!(listed[1].object.is_empty());
}

#[tokio::test]
async fn no_listed_message_is_too_large_for_clients() {
    const MIB: usize = 1 << 20;
    let csv = json!({"apiVersion": "v1", "kind": "ClusterServiceVersion", "spec": {}});
    let object = |length: usize| json!({"kind": "ConfigMap", "data": "y".repeat(length)});
    let one = |catalog: Catalog, name: &str, filled: Bundle| {
        catalog.package(name, |package| {
            let channel = package.channel("stable", [entry(&format!("{name}.v1.0.0"))]);
            channel.bundle(filled)
        })
    };
    let catalog = one(fruit(), "near", {
        let near = bundle("near.v1.0.0").no_image().object(&csv);
        near.object(&object(4 * MIB - MIB / 4))
    });
    let catalog = one(catalog, "objects", {
        let over = bundle("objects.v1.0.0").no_image().object(&csv);
        over.object(&object(2 * MIB)).object(&object(2 * MIB))
    });
    let text = "y".repeat(4 * MIB);
    let catalog = one(catalog, "properties", {
        bundle("properties.v1.0.0").property("x", text)
    });
    let served = Served::catalogs(&Folders::of("fruit", &catalog));
    // What gRPC's own library takes unless it is told otherwise.
    let client = Client::new(served.grpc).taking(4 * MIB);
    let listed = bundles(&client).await;
    let found = |name: &str| listed.iter().find(|bundle| bundle.package_name == name);
    let near = found("near").unwrap();
    assert_eq!(near.object.len(), 2);
    assert!(!near.csv_json.is_empty());
    let over = found("objects").unwrap();
    assert_eq!((over.object.len(), over.csv_json.as_str()), (0, ""));
    assert_eq!(over.version, "1.0.0");
    assert_eq!(found("properties"), None);
    assert_eq!(listed.len(), 5 + 2, "and all others are there");
    assert!(listed.iter().all(|bundle| bundle.encoded_len() < 4 * MIB));
    // Both are there for who takes more.
    let taking = Client::new(served.grpc);
    for (name, objects) in [("objects", 3), ("properties", 0)] {
        let all: proto::Bundle = taking
            .unary(FOR_CHANNEL, for_channel(name, "stable"))
            .await
            .unwrap();
        assert_eq!(all.object.len(), objects, "{name}");
    }

    let status = served.status("fruit");
    let problems = status["problems"].as_array().unwrap();
    let log = served.program.log();
    for (package, code) in [
        ("near", "bundle-near-limit"),
        ("objects", "bundle-too-large"),
        ("properties", "bundle-too-large"),
    ] {
        let told = |problem: &&Value| problem["package"] == package && problem["code"] == code;
        let problem = problems.iter().find(told);
        let problem = problem.unwrap_or_else(|| panic!("{package}: {problems:?}"));
        let message = problem["message"].as_str().unwrap();
        let mut warnings = log.lines().filter(|line| line.contains("WARN"));
        assert!(warnings.any(|line| line.contains(message)), "{log}");
    }
}

#[tokio::test]
async fn a_cluster_service_version_is_made_of_its_metadata() {
    let crds = json!({"owned": [{"kind": "Fig", "name": "figs.example.com", "version": "v1"}]});
    let described = json!({
        "displayName": "Fig & Co",
        "annotations": {"capabilities": "Full Lifecycle"},
        "labels": {"operatorframework.io/arch.arm64": "supported"},
        "crdDescriptions": crds,
        "minKubeVersion": "1.25.0",
    });
    let mut silent = described.clone();
    silent["description"] = Value::Null;
    let catalog = Catalog::new().package("fig", |package| {
        package
            .description("Of the whole package.")
            .icon("image/svg+xml", b"<svg/>")
            .channel(
                "stable",
                [
                    entry("fig.v1.0.0"),
                    entry("fig.v1.1.0").replaces("fig.v1.0.0"),
                ],
            )
            .bundle(
                bundle("fig.v1.0.0")
                    .csv_metadata(described)
                    .related_image("fig", "example.com/fig:v1"),
            )
            .bundle(bundle("fig.v1.1.0").csv_metadata(silent))
    });
    let served = Served::catalogs(&Folders::of("fruit", &catalog));
    let client = Client::new(served.grpc);
    let get = async |name: &str| -> proto::Bundle {
        let request = get_bundle("fig", "stable", name);
        client.unary(GET_BUNDLE, request).await.unwrap()
    };
    let fig = get("fig.v1.0.0").await;
    assert_eq!(fig.object, [fig.csv_json.as_str()]);
    assert!(bundles(&client).await[0].csv_json.is_empty());
    let csv: Value = serde_json::from_str(&fig.csv_json).unwrap();
    assert_eq!(
        csv,
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {
                "name": "fig.v1.0.0",
                "annotations": {"capabilities": "Full Lifecycle"},
                "labels": {"operatorframework.io/arch.arm64": "supported"},
            },
            "spec": {
                "apiservicedefinitions": {},
                "cleanup": {"enabled": false},
                "customresourcedefinitions": crds,
                "description": "An operator of a test.",
                "displayName": "Fig & Co",
                "icon": [{"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"}],
                "install": {"spec": {"deployments": null}, "strategy": "deployment"},
                "installModes": [
                    {"supported": false, "type": "OwnNamespace"},
                    {"supported": false, "type": "SingleNamespace"},
                    {"supported": false, "type": "MultiNamespace"},
                    {"supported": true, "type": "AllNamespaces"},
                ],
                "keywords": ["test"],
                "links": [{"name": "Source", "url": "https://example.com/source"}],
                "maintainers": [{"email": "nobody@example.com", "name": "Nobody"}],
                "maturity": "alpha",
                "minKubeVersion": "1.25.0",
                "provider": {"name": "Example"},
                "relatedImages": [{"image": "example.com/fig:v1", "name": "fig"}],
                "version": "1.0.0",
            },
            "status": {"cleanup": {}},
        })
    );
    let silent: Value = serde_json::from_str(&get("fig.v1.1.0").await.csv_json).unwrap();
    assert_eq!(silent["spec"]["description"], "Of the whole package.");
}
