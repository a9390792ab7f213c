//! The blobs of a package and of its channels.

use serde_json::{Value, json};

use crate::sqlite::manifests::Manifests;
use crate::sqlite::rows::{LegacyEntry, LegacyPackage};

/// Writes the blobs of a package and of its channels. `head` are the manifests
/// of the head of its default channel, which has the icon.
pub fn write_package(package: &LegacyPackage, head: &Manifests<'_>, out: &mut Vec<u8>) {
    let mut blob = json!({
        "schema": "olm.package",
        "name": package.name,
        "defaultChannel": package.default_channel,
    });
    if let Some(icon) = head.icon() {
        blob["icon"] = icon;
    }
    writeln(&blob, out);
    for (name, entries) in &package.channels {
        let entries: Vec<Value> = entries.iter().map(entry).collect();
        let blob = json!({
            "schema": "olm.channel",
            "package": package.name,
            "name": name,
            "entries": entries,
        });
        writeln(&blob, out);
    }
}

fn entry(entry: &LegacyEntry) -> Value {
    let mut blob = json!({"name": entry.name});
    if let Some(replaces) = &entry.edges.replaces {
        blob["replaces"] = replaces.as_str().into();
    }
    if !entry.edges.skips.is_empty() {
        blob["skips"] = entry.edges.skips.clone().into();
    }
    if !entry.skip_range.is_empty() {
        blob["skipRange"] = entry.skip_range.as_str().into();
    }
    blob
}

fn writeln(blob: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(blob.to_string().as_bytes());
    out.push(b'\n');
}
