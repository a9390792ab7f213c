//! Catalogs and selections for the tests.

mod dependencies;
mod packages;
mod ranges;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::select::*;

/// A bundle: its name ends in its version.
fn bundle(package: &str, name: &str, properties: &[Value]) -> Value {
    let version = name.rsplit_once(".v").map_or("", |(_, version)| version);
    let own = json!({"type": "olm.package", "value": {"packageName": package, "version": version}});
    let properties: Vec<&Value> = std::iter::once(&own).chain(properties).collect();
    json!({"schema": "olm.bundle", "package": package, "name": name, "properties": properties})
}

fn package(name: &str, default: &str) -> Value {
    json!({"schema": "olm.package", "name": name, "defaultChannel": default})
}

fn channel(package: &str, name: &str, entries: &Value) -> Value {
    json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries})
}

fn catalog(name: &str, blobs: &[Value]) -> Catalog {
    let text = |blob: &Value, key: &str| blob[key].as_str().unwrap_or_default().into();
    let lines = blobs.iter().map(|blob| Line {
        schema: text(blob, "schema"),
        package: text(blob, "package"),
        name: text(blob, "name"),
        json: blob.to_string().into(),
    });
    Catalog {
        name: name.to_owned(),
        lines: lines.collect(),
        quarantined: BTreeSet::new(),
    }
}

/// A package of three versions in `stable`, of which the last is alone in
/// `edge`, deprecated here and there, with a blob of its own.
fn etcd() -> Catalog {
    catalog(
        "community",
        &[
            package("etcd", "stable"),
            channel(
                "etcd",
                "stable",
                &json!([
                    {"name": "etcd.v1.0.0", "replaces": "etcd.v0.9.0"},
                    {"name": "etcd.v1.1.0", "replaces": "etcd.v1.0.0"},
                    {"name": "etcd.v2.0.0", "replaces": "etcd.v1.1.0", "skipRange": ">=1.0.0 <2.0.0"},
                ]),
            ),
            channel("etcd", "edge", &json!([{"name": "etcd.v2.0.0"}])),
            bundle("etcd", "etcd.v1.0.0", &[]),
            bundle("etcd", "etcd.v1.1.0", &[]),
            bundle("etcd", "etcd.v2.0.0", &[]),
            json!({"schema": "olm.deprecations", "package": "etcd", "entries": [
                {"reference": {"schema": "olm.bundle", "name": "etcd.v1.0.0"}, "message": "old"},
                {"reference": {"schema": "olm.channel", "name": "edge"}, "message": "edgy"},
            ]}),
            json!({"schema": "example.com.notes", "package": "etcd", "big": 12_345_678_901_234_567_u64}),
            json!({"schema": "example.com.loose", "text": "of no package"}),
        ],
    )
}

fn wanted(name: &str) -> PackageSelection {
    PackageSelection::named(name)
}

fn ranged(name: &str, min: &str, max: &str) -> PackageSelection {
    PackageSelection {
        range: VersionRange::new(min, max).unwrap(),
        ..wanted(name)
    }
}

fn in_channels(name: &str, channels: &[&str], default: &str) -> PackageSelection {
    PackageSelection {
        channels: (channels.iter())
            .map(|name| ChannelSelection {
                name: (*name).to_owned(),
                range: VersionRange::default(),
            })
            .collect(),
        default_channel: default.to_owned(),
        ..wanted(name)
    }
}

fn request(packages: Vec<PackageSelection>, from: usize) -> Request {
    Request {
        selections: vec![Selection {
            from: (0..from).collect(),
            full: false,
            packages,
        }],
        ..Request::default()
    }
}

fn take(catalogs: &[Catalog], packages: Vec<PackageSelection>) -> Result<Selected, String> {
    select(catalogs, &request(packages, catalogs.len())).map_err(|error| error.to_string())
}

/// The blobs of a schema in a result.
fn blobs(selected: &Selected, schema: &str) -> Vec<Value> {
    let lines = selected.packages.iter().flat_map(|package| &package.lines);
    let blobs = lines.map(|line| serde_json::from_slice(line).unwrap());
    blobs
        .filter(|blob: &Value| blob["schema"] == schema)
        .collect()
}

/// Channels with the names of their entries.
fn channels(selected: &Selected) -> Vec<(String, Vec<String>)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let channels = blobs(selected, "olm.channel");
    let channels = channels.iter().map(|channel| {
        let entries = channel["entries"].as_array().unwrap().iter();
        let entries = entries.map(|entry| text(&entry["name"])).collect();
        (text(&channel["name"]), entries)
    });
    channels.collect()
}

fn shown(channels: &[(String, Vec<String>)]) -> String {
    let shown = channels.iter();
    let shown: Vec<String> = shown
        .map(|(channel, entries)| format!("{channel}: {}", entries.join(" ")))
        .collect();
    shown.join("; ")
}
