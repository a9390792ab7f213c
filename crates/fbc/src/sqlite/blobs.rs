//! The blobs of packages, channels and bundles.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::sqlite::manifests::{Manifests, RelatedImage};
use crate::sqlite::rows::{LegacyBundle, LegacyEntry, LegacyPackage};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bundle<'a> {
    schema: &'a str,
    name: &'a str,
    package: &'a str,
    image: &'a str,
    properties: Vec<Property>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related_images: Vec<RelatedImage>,
}

#[derive(Serialize)]
struct Property {
    #[serde(rename = "type")]
    kind: String,
    value: Box<RawValue>,
}

/// Writes the blob of a bundle.
///
/// # Errors
/// A description of the defect of its manifests.
pub fn write_bundle(bundle: &LegacyBundle<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    let manifests = Manifests::read(bundle.manifests)?;
    let mut properties = properties(bundle);
    for object in &manifests.objects {
        // The bytes that the database has.
        let data = STANDARD.encode(object);
        put(&mut properties, OBJECT, json!({"data": data}).to_string());
    }
    let properties = properties.into_iter().map(|(_, kind, text)| {
        let value = RawValue::from_string(text)?;
        Ok(Property { kind, value })
    });
    let properties: Result<_, serde_json::Error> = properties.collect();

    let mut images = manifests.related_images()?;
    let named: BTreeSet<String> = images.iter().map(|related| related.image.clone()).collect();
    let others: BTreeSet<&String> = bundle.related_images.iter().collect();
    let others = others.into_iter();
    let others = others.filter(|image| !image.is_empty() && !named.contains(*image));
    images.extend(others.map(|image| RelatedImage {
        image: image.clone(),
        name: String::new(),
    }));
    // Those that are the same stay as the manifests have them.
    images.sort_by(|one, other| one.image.cmp(&other.image));

    let blob = Bundle {
        schema: "olm.bundle",
        name: bundle.name,
        package: bundle.package,
        image: bundle.image,
        properties: properties.map_err(|error| error.to_string())?,
        related_images: images,
    };
    let text = serde_json::to_string(&blob).map_err(|error| error.to_string())?;
    out.extend_from_slice(text.as_bytes());
    out.push(b'\n');
    Ok(())
}

const OBJECT: &str = "olm.bundle.object";

/// Types and values of properties, sorted, each once, those with objects last.
type Sorted = BTreeSet<(bool, String, String)>;

fn put(sorted: &mut Sorted, kind: &str, text: String) {
    let object = matches!(kind, OBJECT | "olm.csv.metadata");
    sorted.insert((object, kind.to_owned(), text));
}

fn properties(bundle: &LegacyBundle<'_>) -> Sorted {
    let mut sorted = Sorted::new();
    let mut packaged = false;
    for (kind, value) in bundle.properties {
        packaged |= kind == "olm.package";
        let value = match kind.as_str() {
            "olm.gvk" => gvk(value),
            _ => compact(value),
        };
        put(&mut sorted, kind, value);
    }
    for (kind, value) in bundle.dependencies {
        match kind.as_str() {
            "olm.gvk" => put(&mut sorted, "olm.gvk.required", gvk(value)),
            "olm.package" => {
                put(&mut sorted, "olm.package.required", package_required(value));
            }
            // No property stands for others, such as labels.
            _ => {}
        }
    }
    if !packaged {
        let own = json!({"packageName": bundle.package, "version": bundle.version});
        put(&mut sorted, "olm.package", own.to_string());
    }
    sorted
}

/// The value of `olm.package.required`. A value that is not an object stays as it
/// is: the reader reports it.
fn package_required(value: &str) -> String {
    match serde_json::from_str::<Value>(value) {
        Ok(object @ Value::Object(_)) => json!({
            "packageName": text(&object, "packageName"),
            "versionRange": text(&object, "version"),
        })
        .to_string(),
        _ => compact(value),
    }
}

/// The value of `olm.gvk`, without the fields `plural` and `type` of rows. A value
/// that is not an object stays as it is: the reader reports it.
fn gvk(value: &str) -> String {
    match serde_json::from_str::<Value>(value) {
        Ok(object @ Value::Object(_)) => {
            let [group, kind, version] = ["group", "kind", "version"].map(|key| text(&object, key));
            json!({"group": group, "kind": kind, "version": version}).to_string()
        }
        _ => compact(value),
    }
}

/// A string of an object. Empty if the object has none, as opm reads it.
fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// JSON without white space. A text that is not JSON becomes a string: the reader
/// reports the property.
pub(super) fn compact(value: &str) -> String {
    if serde_json::from_str::<&RawValue>(value).is_err() {
        return Value::from(value).to_string();
    }
    let mut quoted = false;
    let mut escaped = false;
    let keep = |sign: &char| {
        if escaped {
            escaped = false;
        } else if quoted {
            escaped = *sign == '\\';
            quoted = *sign != '"';
        } else {
            quoted = *sign == '"';
            return !sign.is_ascii_whitespace();
        }
        true
    };
    value.chars().filter(keep).collect()
}

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
