//! The statements of a bundle about its APIs: the descriptions of its kinds, and examples.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use crate::document::Gvk;
use crate::manifest_objects;
use crate::object::MAX_LIST;
use crate::properties::{BundleObject, each_property};
use crate::text::json::cursor::Cursor;
use crate::text::json::typed::{fields, or_default};

/// A kind that a bundle owns, as its `ClusterServiceVersion` describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KindDescription {
    /// The name of its definition: `PLURAL.GROUP`.
    pub name: String,
    /// The version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The name to display.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Its purpose.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
}

fields!(KindDescription {
    name = "name",
    version = "version",
    kind = "kind",
    display_name = "displayName",
    description = "description",
});

#[derive(Default)]
struct Definitions {
    owned: Vec<KindDescription>,
}

fields!(Definitions { owned = "owned" });

/// The descriptions of a bundle's kinds, and its examples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApiDescriptions {
    /// The kinds that it owns.
    pub owned: Vec<KindDescription>,
    /// The objects of the annotation `alm-examples`.
    pub examples: Vec<Value>,
    /// The text of that annotation if it is not a JSON list, and the reason.
    pub unreadable: Option<(String, String)>,
}

/// The examples of a bundle by its APIs.
#[derive(Clone, Debug, Default)]
pub struct Examples<'a> {
    of: HashMap<(&'a str, &'a str, &'a str), Vec<&'a Value>>,
    /// Those of kinds that the bundle does not provide.
    pub others: Vec<&'a Value>,
}

impl ApiDescriptions {
    /// Reads the canonical line of a bundle. Malformed values count as absent.
    pub fn from_bundle(line: &[u8]) -> Self {
        let mut found = Self::default();
        let mut objects = Vec::new();
        let mut metadata = false;
        each_property(line, |kind, cursor| match kind {
            "olm.csv.metadata" if !metadata => {
                metadata = true;
                cursor.each_member(|key, value| match key {
                    "annotations" => found.annotations(value),
                    "crdDescriptions" => found.owned = or_default::<Definitions>(value).owned,
                    _ => {}
                });
            }
            "olm.bundle.object" if objects.len() < MAX_LIST => {
                let object: BundleObject<'_> = or_default(cursor);
                objects.push(object.data.0);
            }
            _ => {}
        });
        if !metadata && let Some(csv) = manifest_objects::find_csv(objects) {
            found.read_csv(&csv);
        }
        found
    }

    /// The examples by the APIs that a bundle provides, so that each example belongs to
    /// one. An example in a version that is not provided belongs to the first API of its
    /// group and kind.
    pub fn examples_by_api<'a>(&'a self, provided: &'a [Gvk]) -> Examples<'a> {
        let (mut exact, mut first) = (HashMap::new(), HashMap::new());
        for api in provided {
            let (group, version, kind) = key(api);
            exact.entry((group, version, kind)).or_insert(api);
            first.entry((group, kind)).or_insert(api);
        }
        let mut examples = Examples::default();
        for example in &self.examples {
            let version = example["apiVersion"].as_str().unwrap_or_default();
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            let kind = example["kind"].as_str().unwrap_or_default();
            let found = exact.get(&(group, version, kind));
            match found.or_else(|| first.get(&(group, kind))) {
                Some(api) => examples.of.entry(key(api)).or_default().push(example),
                None => examples.others.push(example),
            }
        }
        examples
    }

    /// The descriptions by group and kind.
    pub fn by_kind(&self) -> HashMap<(&str, &str), &KindDescription> {
        let owned = self.owned.iter().map(|one| {
            let group = one.name.split_once('.').map_or("", |(_, group)| group);
            ((group, one.kind.as_str()), one)
        });
        owned.collect()
    }

    fn read_csv(&mut self, csv: &[u8]) {
        Cursor::new(csv).each_member(|key, cursor| match key {
            "metadata" => cursor.each_member(|key, value| {
                if key == "annotations" {
                    self.annotations(value);
                }
            }),
            "spec" => cursor.each_member(|key, value| {
                if key == "customresourcedefinitions" {
                    self.owned = or_default::<Definitions>(value).owned;
                }
            }),
            _ => {}
        });
    }

    fn annotations(&mut self, cursor: &mut Cursor<'_>) {
        cursor.each_member(|key, value| {
            if key != "alm-examples" {
                return;
            }
            let text: String = or_default(value);
            match serde_json::from_str::<Vec<Value>>(&text) {
                Ok(examples) => self.examples = examples,
                Err(_) if text.trim().is_empty() => {}
                Err(error) => self.unreadable = Some((text, error.to_string())),
            }
        });
    }
}

impl<'a> Examples<'a> {
    /// Those of an API.
    pub fn of(&self, api: &'a Gvk) -> &[&'a Value] {
        self.of.get(&key(api)).map_or(&[], Vec::as_slice)
    }
}

/// The group, the version and the kind of an API.
fn key(api: &Gvk) -> (&str, &str, &str) {
    (&api.group, &api.version, &api.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{"schema":"olm.bundle","properties":[{"type":"olm.csv.metadata","value":{"annotations":{"alm-examples":"[{\"apiVersion\":\"a.example.com/v1\",\"kind\":\"A\"}]"},"crdDescriptions":{"owned":[{"name":"as.a.example.com","version":"v1","kind":"A","description":"An A."}]}}}]}"#;

    #[test]
    fn kinds_have_their_descriptions_and_examples() {
        let found = ApiDescriptions::from_bundle(METADATA.as_bytes());
        assert_eq!(
            found.by_kind()[&("a.example.com", "A")].description,
            "An A."
        );
        assert_eq!(found.examples.len(), 1);
        assert_eq!(found.unreadable, None);
    }

    #[test]
    fn an_example_belongs_to_the_api_of_its_version_or_to_the_first_of_its_kind() {
        let example =
            |version: &str, kind: &str| serde_json::json!({"apiVersion": version, "kind": kind});
        let found = ApiDescriptions {
            examples: vec![
                example("g/v1", "A"),
                example("g/v2", "A"),
                example("g/v9", "A"),
                example("v1", "B"),
            ],
            ..ApiDescriptions::default()
        };
        let api = |version: &str| Gvk {
            group: "g".into(),
            version: version.into(),
            kind: "A".into(),
        };
        let provided = [api("v1"), api("v2")];
        let examples = found.examples_by_api(&provided);
        let of = |at: usize| -> Vec<&str> {
            let examples = examples.of(&provided[at]).iter();
            examples
                .filter_map(|one| one["apiVersion"].as_str())
                .collect()
        };
        assert_eq!(of(0), ["g/v1", "g/v9"]);
        assert_eq!(of(1), ["g/v2"]);
        assert_eq!(examples.others, [&example("v1", "B")]);
    }

    #[test]
    fn an_example_that_is_not_json_stays_as_text_with_the_reason() {
        let line = METADATA.replace("[{\\\"api", "[{api");
        let found = ApiDescriptions::from_bundle(line.as_bytes());
        let (text, reason) = found.unreadable.unwrap();
        assert!(text.starts_with("[{api"), "{text}");
        assert!(reason.contains("line 1"), "{reason}");
    }
}
