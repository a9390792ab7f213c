//! What people want to see of a bundle, and the graph does not need: taken
//! from the bundle's canonical line when somebody asks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use crate::object::Object;
use crate::text::json::Canonicaliser;
use crate::text::json::typed::{Text, fields};

/// Some of what an `olm.bundle` blob says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// Its image, or empty.
    pub image: String,
    /// The name that its `ClusterServiceVersion` has for people, or empty.
    pub display_name: String,
}

#[derive(Default)]
struct Property<'a> {
    kind: Text<'a>,
    value: Option<&'a RawValue>,
}

fields!(Property<'a> { kind = "type", value = "value" });

impl PartialEq for Property<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.value.map(RawValue::get) == other.value.map(RawValue::get)
    }
}

#[derive(Default)]
struct Metadata {
    display_name: String,
}

fields!(Metadata { display_name = "displayName" });

#[derive(Default)]
struct Encoded<'a> {
    data: Text<'a>,
}

fields!(Encoded<'a> { data = "data" });

#[derive(Default)]
struct Manifest {
    kind: String,
    spec: Metadata,
}

fields!(Manifest { kind = "kind", spec = "spec" });

impl Details {
    /// Reads the canonical line of a bundle. What is malformed counts as
    /// absent; that it is malformed was found when the catalog was read.
    pub fn of(line: &[u8]) -> Self {
        let mut canonicaliser = Canonicaliser::default();
        let mut text = Vec::with_capacity(line.len());
        if !matches!(canonicaliser.read(line, 0, &mut text), Ok(Some(_))) {
            return Self::default();
        }
        let blob = Object::new(&text, &canonicaliser);
        let mut ignored = Vec::new();
        let image: Text<'_> = blob.field("image", &mut ignored);
        let properties: Vec<Property<'_>> = blob.list("properties", &mut ignored);
        let made_from = |kind: &str, read: fn(&str) -> Option<String>| {
            properties
                .iter()
                .filter(|property| property.kind.0 == kind)
                .find_map(|property| read(property.value?.get()))
        };
        let display_name = made_from("olm.csv.metadata", of_metadata)
            .or_else(|| made_from("olm.bundle.object", of_object))
            .unwrap_or_default();
        Self {
            image: image.0.into_owned(),
            display_name,
        }
    }
}

fn of_metadata(json: &str) -> Option<String> {
    let metadata: Metadata = serde_json::from_str(json).ok()?;
    Some(metadata.display_name)
}

/// The name in a `ClusterServiceVersion`, when the object is one.
fn of_object(json: &str) -> Option<String> {
    let encoded: Encoded<'_> = serde_json::from_str(json).ok()?;
    let manifest = STANDARD.decode(encoded.data.0.as_bytes()).ok()?;
    let manifest: Manifest = serde_json::from_slice(&manifest).ok()?;
    (manifest.kind == "ClusterServiceVersion").then_some(manifest.spec.display_name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn details(properties: &serde_json::Value) -> Details {
        let blob = json!({"Image": "quay.io/a", "properties": properties});
        Details::of(format!("{blob}\n").as_bytes())
    }

    #[test]
    fn a_name_comes_from_metadata_or_from_the_manifest() {
        let found = details(&json!([
            {"type": "olm.package", "value": {}},
            {"type": "olm.csv.metadata", "value": {"displayName": "A"}},
        ]));
        assert_eq!((&*found.image, &*found.display_name), ("quay.io/a", "A"));
        let object = |kind: &str| {
            let object = json!({"kind": kind, "spec": {"displayName": kind}});
            let data = STANDARD.encode(object.to_string());
            json!({"type": "olm.bundle.object", "value": {"data": data}})
        };
        let found = details(&json!([
            object("ConfigMap"),
            object("ClusterServiceVersion")
        ]));
        assert_eq!(found.display_name, "ClusterServiceVersion");
    }

    #[test]
    fn what_is_malformed_counts_as_absent() {
        for properties in [
            json!(null),
            json!({}),
            json!([{"type": "olm.csv.metadata", "value": {"displayName": 1}}]),
            json!([{"type": "olm.bundle.object", "value": {"data": "?"}}]),
        ] {
            assert_eq!(details(&properties).display_name, "");
        }
        assert_eq!(Details::of(b"{\"image\":"), Details::default());
    }
}
