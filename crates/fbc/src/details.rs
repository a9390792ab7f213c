//! The few values of a bundle that commands list.

use crate::presentation::Presentation;
use crate::text::json::cursor::Cursor;
use crate::text::json::typed::or_default;

/// Values of an `olm.bundle` blob for lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// Its image, or empty.
    pub image: String,
    /// Its display name, as its presentation has it, or empty.
    pub display_name: String,
}

impl Details {
    /// Reads the canonical line of a bundle. Malformed values count as absent:
    /// reading the catalog reported them.
    pub fn of(line: &[u8]) -> Self {
        let mut image = String::new();
        Cursor::new(line).each_member(|key, cursor| {
            if key.eq_ignore_ascii_case("image") {
                image = or_default(cursor);
            }
        });
        Self {
            image,
            display_name: Presentation::of_bundle(line, None).display_name,
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
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
