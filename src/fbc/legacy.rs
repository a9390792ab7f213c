//! What the rows of a SQLite index mean as blobs: the ones that `opm migrate`
//! makes of such a catalog. Reading the rows is left to the store.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// A package's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacyPackage {
    /// Its name.
    pub name: String,
    /// Its default channel; empty when it has none.
    pub default_channel: String,
    /// Its channels by name, each with its entries.
    pub channels: BTreeMap<String, Vec<LegacyEntry>>,
}

/// An entry of a channel. What it replaces is said of its bundle, so it is the
/// same in all channels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacyEntry {
    /// The bundle's name.
    pub name: String,
    /// The bundle that it replaces; empty when it replaces none.
    pub replaces: String,
    /// The bundles that it skips, separated by commas.
    pub skips: String,
    /// The versions that it skips; empty when it skips none.
    pub skip_range: String,
}

/// A bundle's rows.
#[derive(Clone, Debug, Default)]
pub struct LegacyBundle<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its package.
    pub package: &'a str,
    /// Its image; empty when it has none.
    pub image: &'a str,
    /// Its version.
    pub version: &'a str,
    /// Its manifests: JSON objects, one after the other.
    pub manifests: &'a str,
    /// Types and values, as JSON.
    pub properties: &'a [(String, String)],
    /// The same of what it depends on.
    pub dependencies: &'a [(String, String)],
    /// Images that belong to it.
    pub related_images: &'a [String],
}

/// The manifests of a bundle, read.
#[derive(Debug, Default)]
pub struct Manifests(Vec<Value>);

impl Manifests {
    /// Reads JSON objects that stand one after the other.
    ///
    /// # Errors
    /// With what is wrong.
    pub fn read(text: &str) -> Result<Self, String> {
        let objects = serde_json::Deserializer::from_str(text).into_iter();
        let objects: Result<_, _> = objects.collect();
        objects.map(Self).map_err(|error| error.to_string())
    }

    fn csv(&self) -> Option<&Value> {
        let mut objects = self.0.iter();
        objects.find(|object| object["kind"] == "ClusterServiceVersion")
    }

    /// The first icon of the `ClusterServiceVersion`, as a package has it.
    fn icon(&self) -> Option<Value> {
        let icon = self.csv()?["spec"]["icon"].get(0)?;
        // Some are broken into lines.
        let data = icon["base64data"].as_str()?.replace([' ', '\n', '\r'], "");
        let data = STANDARD.decode(data).ok()?;
        let kind = icon["mediatype"].as_str().unwrap_or_default();
        Some(json!({"base64data": STANDARD.encode(data), "mediatype": kind}))
    }

    fn related_images(&self) -> Vec<(String, String)> {
        let images = self.csv().map(|csv| &csv["spec"]["relatedImages"]);
        let images = images.and_then(Value::as_array);
        let text = |image: &Value, key: &str| image[key].as_str().unwrap_or_default().to_owned();
        let pair = |image| (text(image, "image"), text(image, "name"));
        images.into_iter().flatten().map(pair).collect()
    }
}

/// Writes the blobs of a package and of its channels. `head` are the manifests
/// of the head of its default channel, which has the icon.
pub fn write_package(package: &LegacyPackage, head: &Manifests, out: &mut Vec<u8>) {
    let mut blob = json!({
        "schema": "olm.package",
        "name": package.name,
        "defaultChannel": package.default_channel,
    });
    if let Some(icon) = head.icon() {
        blob["icon"] = icon;
    }
    line(&blob, out);
    for (name, entries) in &package.channels {
        let entries: Vec<Value> = entries.iter().map(entry).collect();
        let blob = json!({
            "schema": "olm.channel",
            "package": package.name,
            "name": name,
            "entries": entries,
        });
        line(&blob, out);
    }
}

fn entry(entry: &LegacyEntry) -> Value {
    let mut blob = json!({"name": entry.name});
    if !entry.replaces.is_empty() {
        blob["replaces"] = entry.replaces.as_str().into();
    }
    let skips: Vec<&str> = entry.skips.split(',').filter(|s| !s.is_empty()).collect();
    if !skips.is_empty() {
        blob["skips"] = skips.into();
    }
    if !entry.skip_range.is_empty() {
        blob["skipRange"] = entry.skip_range.as_str().into();
    }
    blob
}

/// Writes the blob of a bundle.
///
/// # Errors
/// With what is wrong with its manifests.
pub fn write_bundle(bundle: &LegacyBundle<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    let manifests = Manifests::read(bundle.manifests)?;
    let mut properties = properties(bundle);
    for object in &manifests.0 {
        let mut text = String::new();
        as_go(object, &mut text);
        text.push('\n');
        let data = json!({"data": STANDARD.encode(text)});
        // Objects come last.
        properties.insert((true, "olm.bundle.object".into(), data.to_string()), data);
    }
    let properties: Vec<Value> = properties
        .into_iter()
        .map(|((_, kind, _), value)| json!({"type": kind, "value": value}))
        .collect();

    let mut images = manifests.related_images();
    let named: BTreeSet<String> = images.iter().map(|(image, _)| image.clone()).collect();
    let others: BTreeSet<&String> = bundle.related_images.iter().collect();
    let others = others.into_iter().filter(|image| !named.contains(*image));
    images.extend(others.map(|image| (image.clone(), String::new())));
    images.sort_by(|(a, _), (b, _)| a.cmp(b));

    let mut blob = json!({
        "schema": "olm.bundle",
        "name": bundle.name,
        "package": bundle.package,
        "properties": properties,
    });
    if !bundle.image.is_empty() {
        blob["image"] = bundle.image.into();
    }
    if !images.is_empty() {
        let images = images.into_iter();
        let images = images.map(|(image, name)| json!({"name": name, "image": image}));
        blob["relatedImages"] = images.collect();
    }
    line(&blob, out);
    Ok(())
}

/// Properties sorted by type and value, each once, those with objects last.
type Sorted = BTreeMap<(bool, String, String), Value>;

fn properties(bundle: &LegacyBundle<'_>) -> Sorted {
    let mut sorted = Sorted::new();
    let mut put = |kind: &str, value: Value| {
        let object = matches!(kind, "olm.bundle.object" | "olm.csv.metadata");
        sorted.insert((object, kind.to_owned(), value.to_string()), value);
    };
    let mut packaged = false;
    for (kind, text) in bundle.properties {
        packaged |= kind == "olm.package";
        match kind.as_str() {
            "olm.gvk" => put(kind, gvk(&parsed(text))),
            _ => put(kind, parsed(text)),
        }
    }
    for (kind, text) in bundle.dependencies {
        let value = parsed(text);
        match kind.as_str() {
            "olm.gvk" => put("olm.gvk.required", gvk(&value)),
            "olm.package" => {
                // Older loaders wrote other keys.
                let name = [&value["packageName"], &value["name"]];
                let name = name.into_iter().find(|name| name.is_string());
                let range = [&value["version"], &value["versionRange"]];
                let range = range.into_iter().find(|range| range.is_string());
                let required = json!({"packageName": name, "versionRange": range});
                put("olm.package.required", required);
            }
            "olm.constraint" => put(kind, value),
            _ => {}
        }
    }
    if !packaged {
        let own = json!({"packageName": bundle.package, "version": bundle.version});
        put("olm.package", own);
    }
    sorted
}

/// A value; one that is no JSON stays a text, and is a problem of its property.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// Without what rows have beside: `plural` and `type`.
fn gvk(value: &Value) -> Value {
    if !value.is_object() {
        return value.clone();
    }
    json!({"group": value["group"], "version": value["version"], "kind": value["kind"]})
}

fn line(blob: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(blob.to_string().as_bytes());
    out.push(b'\n');
}

/// The text of a value as Go's encoder writes it: whole numbers without a
/// fraction, and what matters in HTML escaped. Values that were read are not
/// deep.
fn as_go(value: &Value, out: &mut String) {
    match value {
        Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
        Value::Number(number) => out.push_str(&match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e21 => {
                format!("{float:.0}")
            }
            _ => number.to_string(),
        }),
        Value::String(text) => quote(text, out),
        Value::Array(values) => {
            out.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                as_go(value, out);
            }
            out.push(']');
        }
        Value::Object(values) => {
            out.push('{');
            for (at, (key, value)) in values.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                quote(key, out);
                out.push(':');
                as_go(value, out);
            }
            out.push('}');
        }
    }
}

fn quote(text: &str, out: &mut String) {
    for sign in Value::from(text).to_string().chars() {
        match sign {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            sign => out.push(sign),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = r#"{"kind":"ClusterServiceVersion","metadata":{"name":"a.v1"},"spec":{
        "icon":[{"base64data":"aWNv bg==","mediatype":"image/png"}],
        "relatedImages":[{"name":"z","image":"r/z"},{"name":"b","image":"r/b"}]}}"#;

    fn pair(kind: &str, value: &str) -> (String, String) {
        (kind.into(), value.into())
    }

    fn written(bundle: &LegacyBundle<'_>) -> Value {
        let mut out = Vec::new();
        write_bundle(bundle, &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn a_package_has_the_icon_of_its_head_and_sorted_channels() {
        let entry = |name: &str, replaces: &str, skips: &str, range: &str| LegacyEntry {
            name: name.into(),
            replaces: replaces.into(),
            skips: skips.into(),
            skip_range: range.into(),
        };
        let channels = BTreeMap::from([
            (
                "stable".into(),
                vec![entry("a.v2", "a.v1", "a.v0,a.v00", "<2.0.0")],
            ),
            ("alpha".into(), vec![entry("a.v1", "", "", "")]),
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
        assert_eq!(blob.get("image"), None);
    }

    #[test]
    fn objects_are_written_as_go_writes_them() {
        let blob = written(&LegacyBundle {
            manifests: "{\"b\":1.0,\"a\":\"<&>\"}\n{\"c\":[null,12345678901]}",
            ..LegacyBundle::default()
        });
        let properties = blob["properties"].as_array().unwrap();
        let texts: BTreeSet<String> = properties[1..]
            .iter()
            .map(|p| {
                STANDARD
                    .decode(p["value"]["data"].as_str().unwrap())
                    .unwrap()
            })
            .map(|data| String::from_utf8(data).unwrap())
            .collect();
        let wanted = [
            "{\"a\":\"\\u003c\\u0026\\u003e\",\"b\":1}\n",
            "{\"c\":[null,12345678901]}\n",
        ];
        assert_eq!(texts, wanted.map(str::to_owned).into());
    }

    #[test]
    fn manifests_that_are_no_json_are_refused() {
        assert!(Manifests::read("{\"a\":1} {").is_err());
        assert!(Manifests::read(&"[".repeat(100_000)).is_err());
    }
}
