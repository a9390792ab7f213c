//! A catalog that is nobody's: as large as wanted, with texts as long as real
//! ones.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// A package of 25 bundles with texts as long as real ones.
pub(crate) fn package(package: u32) -> String {
    const BUNDLES: u32 = 25;
    let name = format!("made-up-{package:03}");
    let bundle = |version: u32| format!("{name}.v1.{version}.0");
    // Words that repeat, but not too evenly, from a small generator.
    let mut state = u64::from(package) + 1;
    let mut text = |length: usize| {
        let mut text = String::with_capacity(length + 12);
        while text.len() < length {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            write!(text, "word{} ", (state >> 33) % 4000).unwrap();
        }
        text
    };
    let entries: Vec<Value> = (0..BUNDLES)
        .map(|version| match version {
            0 => json!({"name": bundle(0)}),
            _ => json!({"name": bundle(version), "replaces": bundle(version - 1)}),
        })
        .collect();
    let mut blobs = vec![
        json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": name, "name": "stable", "entries": entries}),
    ];
    for version in 0..BUNDLES {
        let group = format!("{name}.example.com");
        let image = format!("registry.example.com/made-up/{name}");
        let api = json!({
            "name": format!("things.{group}"), "kind": "Thing", "version": "v1",
            "description": text(3000),
        });
        let metadata = json!({
            "annotations": {"alm-examples": text(9000)},
            "crdDescriptions": {"owned": [api]},
            "description": text(4000),
            "displayName": name,
            "installModes": [{"type": "AllNamespaces", "supported": true}],
            "provider": {"name": "made up"},
        });
        blobs.push(json!({
            "schema": "olm.bundle",
            "name": bundle(version),
            "package": name,
            "image": format!("{image}-bundle:v1.{version}.0"),
            "properties": [
                {"type": "olm.package", "value": {"packageName": name, "version": format!("1.{version}.0")}},
                {"type": "olm.gvk", "value": {"group": group, "kind": "Thing", "version": "v1"}},
                {"type": "olm.csv.metadata", "value": metadata},
            ],
            "relatedImages": [{"name": "operator", "image": format!("{image}:v1.{version}.0")}],
        }));
    }
    blobs.iter().fold(String::new(), |mut out, blob| {
        writeln!(out, "{blob}").unwrap();
        out
    })
}

/// A blob as a document of block YAML, the way people write it: lists of words
/// and long texts as block scalars.
#[allow(dead_code, reason = "not every bench reads YAML")]
pub(crate) fn yaml(blob: &Value) -> String {
    let mut out = "---\n".to_owned();
    put(blob, 0, &mut out);
    out
}

fn put(value: &Value, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                write!(out, "{pad}{key}:").unwrap();
                put_value(value, indent, out);
            }
        }
        Value::Array(values) => {
            for value in values {
                let mut inner = String::new();
                put(value, indent + 2, &mut inner);
                let inner = inner.trim_start();
                writeln!(out, "{pad}- {}", inner.trim_end()).unwrap();
            }
        }
        scalar => writeln!(out, "{pad}{scalar}").unwrap(),
    }
}

fn put_value(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(_) => {
            out.push('\n');
            put(value, indent + 2, out);
        }
        Value::Array(_) => {
            out.push('\n');
            put(value, indent, out);
        }
        Value::String(text) if text.len() > 200 => {
            out.push_str(" |-\n");
            let pad = " ".repeat(indent + 2);
            for line in text.trim_end().as_bytes().chunks(78) {
                writeln!(out, "{pad}{}", String::from_utf8_lossy(line).trim()).unwrap();
            }
        }
        scalar => writeln!(out, " {scalar}").unwrap(),
    }
}
