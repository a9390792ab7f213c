//! The presentation of bundles and packages, read from their lines.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::view::safe_type;
use super::*;

/// As the reader writes it: keys sorted, no space.
fn line(blob: &Value) -> Vec<u8> {
    format!("{blob}\n").into_bytes()
}

fn bundle(properties: &Value) -> Vec<u8> {
    line(&json!({
        "schema": "olm.bundle",
        "name": "a.v1",
        "image": "example.com/a:1",
        "relatedImages": [{"name": "server", "image": "example.com/b:1"}, {"image": "c"}],
        "properties": properties,
    }))
}

fn metadata() -> Value {
    json!({
        "annotations": {
            "categories": "Database, Big Data,",
            "capabilities": "Deep Insights",
            "description": "Keeps  keys\nand values.",
        },
        "description": "# Long\n\nMore.",
        "displayName": "A \"b\"",
        "installModes": [
            {"type": "OwnNamespace", "supported": false},
            {"type": "AllNamespaces", "supported": true},
        ],
        "keywords": ["keys"],
        "links": [{"name": "Home", "url": "https://example.com"}],
        "maintainers": [{"name": "Nobody", "email": "n@example.com"}],
        "minKubeVersion": "1.20.0",
        "provider": {"name": "Example"},
    })
}

#[test]
fn metadata_and_manifest_say_the_same() {
    let of_property = Presentation::from_bundle(
        &bundle(&json!([{"type": "olm.csv.metadata", "value": metadata()}])),
        None,
    );
    let mut spec = metadata();
    let annotations = spec["annotations"].take();
    spec.as_object_mut().unwrap().remove("annotations");
    let csv = json!({
        "kind": "ClusterServiceVersion",
        "metadata": {"annotations": annotations},
        "spec": spec,
    });
    let object = |manifest: &Value| {
        let data = STANDARD.encode(manifest.to_string());
        json!({"type": "olm.bundle.object", "value": {"data": data}})
    };
    let objects = bundle(&json!([
        object(&json!({"kind": "ConfigMap"})),
        object(&csv)
    ]));
    assert_eq!(Presentation::from_bundle(&objects, None), of_property);
    let given = csv.to_string();
    let given = Presentation::from_bundle(&bundle(&json!([])), Some(given.as_bytes()));
    assert_eq!(given, of_property);

    assert_eq!(of_property.display_name, "A \"b\"");
    assert_eq!(of_property.categories, ["Database", "Big Data"]);
    assert_eq!(of_property.install_modes, ["AllNamespaces"]);
    assert_eq!(of_property.provider.name, "Example");
    assert_eq!(of_property.summary(""), "Keeps keys and values.");
}

#[test]
fn a_manifest_may_be_yaml_and_its_base64_may_have_line_breaks() {
    let manifest = "kind: ClusterServiceVersion\nspec:\n  displayName: From YAML\n";
    let mut data = STANDARD.encode(manifest);
    data.insert(10, '\n');
    let line = bundle(&json!([{"type": "olm.bundle.object", "value": {"data": data}}]));
    let presentation = Presentation::from_bundle(&line, None);
    assert_eq!(presentation.display_name, "From YAML");
}

#[test]
fn a_manifest_is_found_behind_any_number_of_others() {
    let object = |kind: &str| {
        let data = STANDARD.encode(format!("kind: {kind}\nspec: {{displayName: {kind}}}"));
        json!({"type": "olm.bundle.object", "value": {"data": data}})
    };
    let mut objects = vec![object("ConfigMap"); 1_500];
    objects.push(object("ClusterServiceVersion"));
    let presentation = Presentation::from_bundle(&bundle(&json!(objects)), None);
    assert_eq!(presentation.display_name, "ClusterServiceVersion");
}

#[test]
fn malformed_values_count_as_absent() {
    for properties in [
        json!(null),
        json!({}),
        json!([{"type": "olm.csv.metadata", "value": {"displayName": 1}}]),
        json!([{"type": "olm.bundle.object", "value": {"data": "?"}}]),
    ] {
        let presentation = Presentation::from_bundle(&bundle(&properties), None);
        assert_eq!(presentation.display_name, "");
    }
    assert_eq!(image(br#"{"Image":"quay.io/a"}"#), "quay.io/a");
    assert_eq!(image(b"{\"image\":1}"), "");
    assert_eq!(image(b"{\"image\":"), "");
}

#[test]
fn a_bundle_says_what_it_brings_and_needs() {
    let line = bundle(&json!([
        {"type": "olm.package", "value": {"packageName": "a", "version": "1.0.0", "release": "2"}},
        {"type": "olm.gvk", "value": {"group": "g", "version": "v1", "kind": "K"}},
        {"type": "olm.gvk.required", "value": {"group": "g", "version": "v1", "kind": "R"}},
        {"type": "olm.package.required", "value": {"packageName": "b", "versionRange": ">1.0.0"}},
        {"type": "other", "value": 1},
    ]));
    let view = BundleView::new(&line);
    assert_eq!((&*view.image, &*view.version), ("example.com/a:1", "1.0.0"));
    assert_eq!(view.release, "2");
    assert_eq!(view.provides[0].kind, "K");
    assert_eq!(view.requires[0].kind, "R");
    assert_eq!(view.related_images.len(), 2);
    let [(kind, value)] = &view.dependencies[..] else {
        panic!("one dependency");
    };
    assert_eq!(kind, "olm.package.required");
    assert_eq!(
        value.get(),
        r#"{"packageName":"b","versionRange":">1.0.0"}"#
    );
}

#[test]
fn what_is_malformed_counts_as_absent() {
    for properties in [
        json!(null),
        json!({}),
        json!([1, null, {"type": 1, "value": 2}, {"type": "olm.csv.metadata"}]),
        json!([{"type": "olm.csv.metadata", "value": {"displayName": 1, "links": {}}}]),
        json!([{"type": "olm.bundle.object", "value": {"data": "?"}}]),
        json!([{"type": "olm.package", "value": "x"}]),
    ] {
        let line = bundle(&properties);
        let view = BundleView::new(&line);
        let mut expected = Presentation::default();
        // Metadata without labels is that of a bundle for one architecture.
        if properties[0]["value"]["links"].is_object() {
            expected.architectures = vec!["amd64".to_owned()];
        }
        assert_eq!(view.presentation, expected);
        assert_eq!(view.version, "");
    }
    for line in [&b""[..], b"{", b"[]", b"{\"properties\":[{"] {
        assert_eq!(BundleView::new(line).image, "");
    }
}

#[test]
fn a_package_shows_its_picture() {
    let blob =
        json!({"description": "d", "icon": {"base64data": "YQ==", "mediatype": "image/png"}});
    let line = line(&blob);
    let view = PackageView::new(&line);
    assert_eq!(view.description, "d");
    let (data, media_type) = view.icon.unwrap();
    assert_eq!((&*data, &*media_type), ("YQ==", "image/png"));
    assert!(PackageView::new(b"{\"icon\":{}}").icon.is_none());
    for unsafe_type in ["text/html", "image/", "image/a\r\nb", "image/svg+xml;a=b"] {
        assert_eq!(safe_type(unsafe_type), "application/octet-stream");
    }
}

#[test]
fn a_summary_is_one_short_line() {
    let none = Presentation::default();
    assert_eq!(none.summary(""), "");
    assert_eq!(none.summary("## Title\n\nText"), "Title");
    assert_eq!(
        none.summary("\n\n\nText\nof two lines"),
        "Text of two lines"
    );
    let long = none.summary(&"word ".repeat(100));
    assert!(
        long.ends_with("word…") && long.chars().count() <= 200 + 1,
        "{long}"
    );
    assert_eq!(none.summary(&"é".repeat(500)).chars().count(), 200 + 1);
}

#[test]
fn the_template_of_a_namespace_outweighs_its_suggested_name() {
    let read = |template: &str| {
        let annotations = json!({
            "operatorframework.io/suggested-namespace": "plain",
            "operatorframework.io/suggested-namespace-template": template,
        });
        let blob = json!({"properties": [
            {"type": "olm.csv.metadata", "value": {"annotations": annotations}},
        ]});
        Presentation::from_bundle(&line(&blob), None)
    };
    let template = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "whole", "labels": {"a": "b"}, "annotations": null}});
    let found = read(&template.to_string());
    assert_eq!(found.suggested_namespace, "whole");
    let labels = found.namespace_template.labels.unwrap();
    assert_eq!(labels["a"], "b");
    // Without a name, or as something else, it says nothing.
    for bad in [
        r#"{"kind":"Namespace","metadata":{"labels":{"a":"b"}}}"#,
        r#"{"kind":"Pod","metadata":{"name":"whole"}}"#,
        r#"{"metadata":{"name":"whole","labels":{"a":1}}}"#,
        "name: whole",
        "",
    ] {
        assert_eq!(read(bad).suggested_namespace, "plain", "{bad}");
    }
}
