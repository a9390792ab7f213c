use serde_json::{Value, json};

use super::*;
use crate::answers::grpc::encoder::Encoder;
use fbc::read::{Output, Reader, pieces};

/// The text made for a bundle with this property, these related images, and a
/// package with this icon; and how many parts of it come from the line.
fn made(metadata: &str, related: Option<&str>, icon: Option<&str>) -> (Value, usize) {
    let related = related.unwrap_or("null");
    let icon = icon.unwrap_or("null");
    let catalog = format!(
        r#"{{"schema":"olm.package","name":"a","description":"the package","icon":{icon}}}
{{"schema":"olm.bundle","name":"a.v1","package":"a","relatedImages":{related},"properties":[
{{"type":"olm.package","value":{{"packageName":"a","version":"1.0.0"}}}},
{{"type":"olm.csv.metadata","value":{metadata}}}]}}"#
    );
    let (mut out, mut encoder) = (Output::default(), Encoder::default());
    for piece in pieces(catalog.as_bytes(), usize::MAX) {
        let bytes = &catalog.as_bytes()[piece.range.clone()];
        Reader::default().read(&piece, bytes, 0, &mut out, &mut encoder);
    }
    assert_eq!(out.blobs.bundles[0].blob.defects, []);
    let Manifests::Made { parts, described } = &encoder.bundles[0].manifests else {
        panic!("{:?}", encoder.bundles);
    };
    let mut text = Vec::new();
    let mut from_line = 0;
    for part in parts.decode(&encoder.messages) {
        match part {
            CsvPart::Fixed(number) => text.extend(FIXED[usize::from(number)].bytes()),
            CsvPart::Metas(span) => {
                from_line += 1;
                text.extend(span.of(&out.lines).unwrap());
            }
            CsvPart::Messages(span) => text.extend(span.of(&encoder.messages).unwrap()),
        }
    }
    let end = encoder.ends[0].of(*described);
    text.extend(end.of(&encoder.messages).unwrap());
    (serde_json::from_slice(&text).unwrap(), from_line)
}

#[test]
fn an_empty_property_makes_the_least_that_clients_can_read() {
    let (made, _) = made("{}", None, None);
    assert_eq!(
        made,
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {"name": "a.v1"},
            "status": {"cleanup": {}},
            "spec": {
                "install": {"strategy": "deployment", "spec": {"deployments": null}},
                "version": "1.0.0",
                "customresourcedefinitions": {},
                "apiservicedefinitions": {},
                "description": "the package",
                "displayName": "",
                "provider": {},
                "cleanup": {"enabled": false},
            },
        })
    );
}

#[test]
fn neighbours_in_the_line_are_one_piece() {
    let (made, from_line) = made(
        r#"{"annotations":{"a":"b"},"apiServiceDefinitions":{},"crdDescriptions":{"owned":[{"kind":"A","name":"as","version":"v1"}]},"description":"d","displayName":"D","installModes":[{"supported":true,"type":"OwnNamespace"}],"keywords":["k"],"labels":{"l":"m"},"links":[{"name":"n","url":"u"}],"provider":{"name":"p"}}"#,
        Some(r#"[{"image":"i","name":"n"}]"#),
        None,
    );
    // annotations, labels, two kinds of APIs, description to keywords,
    // links to provider, related images.
    assert_eq!(from_line, 7);
    assert_eq!(
        made["metadata"],
        json!({"name": "a.v1", "annotations": {"a": "b"}, "labels": {"l": "m"}})
    );
    let spec = &made["spec"];
    assert_eq!(spec["customresourcedefinitions"]["owned"][0]["kind"], "A");
    assert_eq!(spec["apiservicedefinitions"], json!({}));
    assert_eq!(spec["description"], "d");
    assert_eq!(spec["displayName"], "D");
    assert_eq!(
        spec["installModes"],
        json!([{"supported": true, "type": "OwnNamespace"}])
    );
    assert_eq!(spec["keywords"], json!(["k"]));
    assert_eq!(spec["links"], json!([{"name": "n", "url": "u"}]));
    assert_eq!(spec["provider"], json!({"name": "p"}));
    assert_eq!(spec["relatedImages"], json!([{"image": "i", "name": "n"}]));
}

#[test]
fn known_fields_are_kept_and_unknown_ones_fall_away() {
    let icon = r#"{"base64data":"AA==","mediatype":"image/png"}"#;
    let (made, _) = made(
        r#"{"annotations":{"a":"b","n":null},"crdDescriptions":{"owned":[{"kind":"A","specDescriptors":[{"path":"p","value":{"x":1},"zz":1}]}]},"description":"","displayName":null,"installModes":[],"provider":null,"zz":1}"#,
        Some(r#"[{"image":""}]"#),
        Some(icon),
    );
    assert_eq!(made["metadata"]["annotations"], json!({"a": "b", "n": ""}));
    assert_eq!(
        made["spec"]["customresourcedefinitions"]["owned"],
        json!([{"name": "", "version": "", "kind": "A", "specDescriptors": [{"path": "p", "value": {"x": 1}}]}])
    );
    assert_eq!(made["spec"]["description"], "the package");
    assert_eq!(made["spec"]["displayName"], "");
    assert_eq!(
        made["spec"]["icon"],
        json!([{"base64data": "AA==", "mediatype": "image/png"}])
    );
    assert_eq!(
        made["spec"]["relatedImages"],
        json!([{"image": "", "name": ""}])
    );
    assert_eq!(made["spec"].get("installModes"), None);
    assert_eq!(made["spec"].get("zz"), None);
}

#[test]
fn keys_in_another_case_name_the_same_fields() {
    let (made, from_line) = made(
        r#"{"Annotations":{"a":"1","b":"2"},"CRDDescriptions":{"Owned":[{"KIND":"A","Name":"as","version":"v1"}]},"DisplayName":"D","Keywords":["k","l"],"annotations":{"b":"3"},"description":"d","keywords":["m"],"provider":{"NAME":"p","Other":1}}"#,
        Some(r#"[{"Image":"i","NAME":"n"}]"#),
        None,
    );
    // Only the description can be used unchanged.
    assert_eq!(from_line, 1);
    assert_eq!(
        made["metadata"],
        json!({"name": "a.v1", "annotations": {"a": "1", "b": "3"}})
    );
    let spec = &made["spec"];
    assert_eq!(
        spec["customresourcedefinitions"],
        json!({"owned": [{"kind": "A", "name": "as", "version": "v1"}]})
    );
    assert_eq!(spec["displayName"], "D");
    assert_eq!(spec["description"], "d");
    assert_eq!(spec["keywords"], json!(["m"]));
    assert_eq!(spec["provider"], json!({"name": "p"}));
    assert_eq!(spec["relatedImages"], json!([{"image": "i", "name": "n"}]));
}
