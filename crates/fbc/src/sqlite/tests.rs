//! Rows, and the blobs that are written for them.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::blobs::compact;
use super::manifests::MOST;
use super::*;

const CSV: &str = r#"{"kind":"ClusterServiceVersion","metadata":{"name":"a.v1"},"spec":{
    "icon":[{"base64data":"aWNv bg==","mediatype":"image/png"}],
    "relatedImages":[{"name":"z","image":"r/z"},{"name":"b","image":"r/b"}]}}"#;

fn pair(kind: &str, value: &str) -> (String, String) {
    (kind.into(), value.into())
}

fn edges(replaces: Option<&str>, skips: &[&str]) -> Edges {
    Edges {
        replaces: replaces.map(str::to_owned),
        skips: skips.iter().map(|&name| name.to_owned()).collect(),
    }
}

fn written(bundle: &LegacyBundle<'_>) -> Value {
    let mut out = Vec::new();
    write_bundle(bundle, &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn a_bundle_has_so_many_manifests_and_images_at_most() {
    let bundle = |manifests: &str| {
        let bundle = LegacyBundle {
            name: "a.v1",
            package: "a",
            manifests,
            ..LegacyBundle::default()
        };
        write_bundle(&bundle, &mut Vec::new())
    };
    let images = |count: usize| {
        let images = vec!["{}"; count].join(",");
        bundle(&CSV.replace(r#"{"name":"z","image":"r/z"}"#, &images))
    };
    assert_eq!(bundle(&"{}".repeat(MOST)), Ok(()));
    let problem = bundle(&"{}".repeat(MOST + 1)).unwrap_err();
    assert!(problem.contains("10000 manifests"), "{problem}");
    assert_eq!(images(MOST - 1), Ok(()));
    let problem = images(MOST).unwrap_err();
    assert!(problem.contains("10000 related images"), "{problem}");
}

#[test]
fn a_package_has_the_icon_of_its_head_and_sorted_channels() {
    let entry = |name: &str, replaces: Option<&str>, skips: &[&str], range: &str| LegacyEntry {
        name: name.into(),
        edges: edges(replaces, skips),
        skip_range: range.into(),
    };
    let channels = BTreeMap::from([
        (
            "stable".into(),
            vec![entry("a.v2", Some("a.v1"), &["a.v0", "a.v00"], "<2.0.0")],
        ),
        ("alpha".into(), vec![entry("a.v1", None, &[], "")]),
    ]);
    let package = LegacyPackage {
        name: "a".into(),
        default_channel: "stable".into(),
        channels,
    };
    let mut out = Vec::new();
    write_package(&package, &Manifests::read(CSV).unwrap(), &mut out);
    let lines = String::from_utf8(out).unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(
        lines,
        [
            json!({"schema": "olm.package", "name": "a", "defaultChannel": "stable",
                "icon": {"base64data": "aWNvbg==", "mediatype": "image/png"}}),
            json!({"schema": "olm.channel", "package": "a", "name": "alpha",
                "entries": [{"name": "a.v1"}]}),
            json!({"schema": "olm.channel", "package": "a", "name": "stable",
                "entries": [{"name": "a.v2", "replaces": "a.v1", "skips": ["a.v0", "a.v00"],
                    "skipRange": "<2.0.0"}]}),
        ]
    );
}

#[test]
fn properties_are_sorted_and_each_is_there_once() {
    let properties = [
        pair("olm.package", r#"{"packageName":"a","version":"1.0.0"}"#),
        pair(
            "olm.gvk",
            r#"{"group":"g","kind":"K","version":"v1","plural":"ks"}"#,
        ),
        pair("olm.gvk", r#"{"group":"g","kind":"K","version":"v1"}"#),
        pair("olm.maxOpenShiftVersion", "4.8"),
        pair("custom", "no json"),
    ];
    let dependencies = [
        pair(
            "olm.gvk",
            r#"{"group":"h","kind":"L","type":"olm.gvk","version":"v2"}"#,
        ),
        pair("olm.package", r#"{"packageName":"b","version":">1"}"#),
    ];
    let images = ["r/a".to_owned(), "r/z".to_owned()];
    let blob = written(&LegacyBundle {
        name: "a.v1",
        package: "a",
        image: "r/a",
        version: "1.0.0",
        properties: &properties,
        dependencies: &dependencies,
        related_images: &images,
        manifests: CSV,
    });
    let properties = blob["properties"].as_array().unwrap();
    let kinds: Vec<_> = properties
        .iter()
        .map(|p| p["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "custom",
            "olm.gvk",
            "olm.gvk.required",
            "olm.maxOpenShiftVersion",
            "olm.package",
            "olm.package.required",
            "olm.bundle.object"
        ]
    );
    assert_eq!(properties[0]["value"], "no json");
    assert_eq!(
        properties[2]["value"],
        json!({"group": "h", "kind": "L", "version": "v2"})
    );
    assert_eq!(
        properties[5]["value"],
        json!({"packageName": "b", "versionRange": ">1"})
    );
    assert_eq!(
        blob["relatedImages"],
        json!([{"name": "", "image": "r/a"}, {"name": "b", "image": "r/b"},
            {"name": "z", "image": "r/z"}])
    );
}

#[test]
fn a_bundle_without_the_package_property_gets_one() {
    let blob = written(&LegacyBundle {
        name: "a.v1",
        package: "a",
        version: "1.0.0",
        ..LegacyBundle::default()
    });
    assert_eq!(
        blob["properties"],
        json!([{"type": "olm.package", "value": {"packageName": "a", "version": "1.0.0"}}])
    );
    assert_eq!(blob["image"], "");
}

#[test]
fn objects_keep_their_bytes_and_come_last() {
    let blob = written(&LegacyBundle {
        manifests: "{\"b\": 1.0,\"a\":\"<&>\"}\n{\"c\":[null,12345678901]}\n",
        ..LegacyBundle::default()
    });
    let properties = blob["properties"].as_array().unwrap();
    assert_eq!(properties[0]["type"], "olm.package");
    let texts: BTreeSet<String> = properties[1..]
        .iter()
        .map(|p| {
            STANDARD
                .decode(p["value"]["data"].as_str().unwrap())
                .unwrap()
        })
        .map(|data| String::from_utf8(data).unwrap())
        .collect();
    let wanted = ["{\"b\": 1.0,\"a\":\"<&>\"}", "{\"c\":[null,12345678901]}"];
    assert_eq!(texts, wanted.map(str::to_owned).into());
}

#[test]
fn edges_are_of_their_channel_and_only_the_way_from_the_head_replaces() {
    let row = |id, channel: &str, name: &str, replaces, depth| EdgeRow {
        id,
        of: ("p".into(), channel.into(), name.into()),
        replaces,
        depth: Some(depth),
    };
    let rows = [
        row(1, "stable", "v3", Some(4), 0),
        row(2, "stable", "skipped", None, 1),
        row(3, "stable", "v3", Some(2), 1),
        row(4, "stable", "v1", Some(5), 2),
        // Rows of hostile databases may go round, or nowhere.
        row(5, "stable", "v0", Some(4), 3),
        row(6, "alpha", "v1", Some(99), 0),
    ];
    let entries = entries(&rows);
    let of = |channel, name| entries[&("p", channel)][name].clone();
    assert_eq!(of("stable", "v3"), edges(Some("v1"), &["skipped"]));
    assert_eq!(of("stable", "v1"), edges(Some("v0"), &[]));
    assert_eq!(of("stable", "v0"), edges(Some("v1"), &[]));
    assert_eq!(of("stable", "skipped"), edges(None, &[]));
    assert_eq!(of("alpha", "v1"), edges(None, &[]));
}

#[test]
fn space_between_signs_says_nothing() {
    let text = "{ \"a b\" : [1, \"\\\" \\\\\" ] }";
    assert_eq!(compact(text), "{\"a b\":[1,\"\\\" \\\\\"]}");
    assert_eq!(compact("no json"), "\"no json\"");
}

#[test]
fn manifests_that_are_no_json_are_refused() {
    assert!(Manifests::read("{\"a\":1} {").is_err());
    assert!(Manifests::read(&"[".repeat(100_000)).is_err());
}

#[test]
fn the_first_csv_among_the_manifests_has_the_icon() {
    let icon = |name: &str| {
        let data = STANDARD.encode(name);
        format!(
            r#"{{"spec": {{"icon": [{{"base64data": "{data}", "mediatype": "t"}}]}}, "kind": "Cluster\u0053erviceVersion"}}"#
        )
    };
    let text = format!("{{\"kind\": 1}}\n{}\n{}", icon("a"), icon("b"));
    let mut out = Vec::new();
    let manifests = Manifests::read(&text).unwrap();
    write_package(&LegacyPackage::default(), &manifests, &mut out);
    let blob: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(blob["icon"]["base64data"], STANDARD.encode("a"));
}

#[test]
fn a_property_that_is_not_an_object_stays_for_the_reader_to_report() {
    let blob = written(&LegacyBundle {
        properties: &[pair("olm.gvk", "[1]"), pair("olm.gvk", "{")],
        dependencies: &[pair("olm.package", "7")],
        ..LegacyBundle::default()
    });
    let values: Vec<&Value> = blob["properties"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|property| property["type"] != "olm.package")
        .map(|property| &property["value"])
        .collect();
    assert_eq!(values, [&json!("{"), &json!([1]), &json!(7)]);
}
