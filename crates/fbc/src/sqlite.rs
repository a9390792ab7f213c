//! What the rows of a SQLite index mean as blobs: the ones that `opm migrate`
//! makes of such a catalog. Reading the rows is left to the store.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base64::engine::general_purpose::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Base64 as Go decodes it: whatever bits are left over.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

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

/// An entry of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacyEntry {
    /// The bundle's name.
    pub name: String,
    /// What it replaces and skips in this channel.
    pub edges: Edges,
    /// The versions that it skips; empty when it skips none.
    pub skip_range: String,
}

/// What the entry of a bundle leads from in one channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// The bundle that it replaces.
    pub replaces: Option<String>,
    /// The bundles that it skips.
    pub skips: Vec<String>,
}

/// A row of the table of entries. A bundle has one for each edge in a channel.
#[derive(Clone, Debug)]
pub struct EdgeRow {
    /// Its key.
    pub id: i64,
    /// The package, the channel and the bundle.
    pub of: (String, String, String),
    /// The key of the row of what is replaced or skipped.
    pub replaces: Option<i64>,
    /// How far it is from the head of its channel.
    pub depth: Option<i64>,
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
pub struct Manifests<'a> {
    objects: Vec<&'a RawValue>,
    /// The `spec` of the `ClusterServiceVersion`, as far as it is needed.
    spec: Spec<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow)]
    icon: Option<&'a RawValue>,
    #[serde(borrow)]
    related_images: Option<&'a RawValue>,
}

/// The most manifests, and the most related images, of a bundle.
const MOST: usize = 10_000;

impl<'a> Manifests<'a> {
    /// Reads JSON objects that stand one after the other.
    ///
    /// # Errors
    /// With what is wrong.
    pub fn read(text: &'a str) -> Result<Self, String> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Object<'a> {
            #[serde(borrow)]
            kind: Option<&'a RawValue>,
            #[serde(borrow)]
            spec: Option<&'a RawValue>,
        }
        let wrong = |error: serde_json::Error| error.to_string();
        let mut manifests = Self::default();
        for object in serde_json::Deserializer::from_str(text).into_iter() {
            if manifests.objects.len() == MOST {
                return Err(format!("has more than {MOST} manifests"));
            }
            manifests.objects.push(object.map_err(wrong)?);
        }
        for object in &manifests.objects {
            let object: Object<'_> = serde_json::from_str(object.get()).map_err(wrong)?;
            let kind = object
                .kind
                .map(|kind| serde_json::from_str::<String>(kind.get()));
            if kind.is_some_and(|kind| kind.is_ok_and(|kind| kind == "ClusterServiceVersion")) {
                // Whatever else stands there has neither.
                let spec = object.spec.map(|spec| serde_json::from_str(spec.get()));
                manifests.spec = spec.and_then(Result::ok).unwrap_or_default();
                break;
            }
        }
        Ok(manifests)
    }

    /// The first icon of the `ClusterServiceVersion`, as a package has it.
    fn icon(&self) -> Option<Value> {
        let icons: Vec<&RawValue> = serde_json::from_str(self.spec.icon?.get()).ok()?;
        let icon = Members::of(icons.first()?);
        // Some are broken into lines.
        let data = read_text(icon.base64data).replace([' ', '\n', '\r'], "");
        let data = BASE64.decode(data).ok().filter(|data| !data.is_empty())?;
        let kind = read_text(icon.mediatype);
        Some(json!({"base64data": STANDARD.encode(data), "mediatype": kind}))
    }

    /// # Errors
    /// When there are too many.
    fn related_images(&self) -> Result<Vec<RelatedImage>, String> {
        let images = self.spec.related_images.map(RawValue::get);
        let images = images.and_then(|images| serde_json::from_str::<Vec<&RawValue>>(images).ok());
        let images = images.unwrap_or_default();
        if images.len() > MOST {
            return Err(format!("has more than {MOST} related images"));
        }
        let related = |image| {
            let related = Members::of(image);
            RelatedImage {
                image: read_text(related.image),
                name: read_text(related.name),
            }
        };
        Ok(images.into_iter().map(related).collect())
    }
}

/// What an icon or a related image has, unread.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Members<'a> {
    #[serde(borrow)]
    image: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    base64data: Option<&'a RawValue>,
    #[serde(borrow)]
    mediatype: Option<&'a RawValue>,
}

impl<'a> Members<'a> {
    /// Those of an object; none of anything else.
    fn of(value: &'a RawValue) -> Self {
        serde_json::from_str(value.get()).unwrap_or_default()
    }
}

/// A text that is there; else an empty one.
fn read_text(value: Option<&RawValue>) -> String {
    let text = value.map(|value| serde_json::from_str(value.get()));
    text.and_then(Result::ok).unwrap_or_default()
}

/// The entries of channels, by package, channel and name.
///
/// A bundle has a row for each edge. The edges on the way from a head to the
/// end, always along what is replaced, are those of `replaces`; all others are
/// of `skips`. What the bundles' own rows say of it is not asked: indexes that
/// order bundles by version have nothing there.
pub fn entries(rows: &[EdgeRow]) -> BTreeMap<(&str, &str), BTreeMap<&str, Edges>> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&at| rows[at].id);
    let by_id: HashMap<i64, usize> = order.iter().map(|&at| (rows[at].id, at)).collect();
    let next = |at: usize| by_id.get(&rows[at].replaces?).copied();

    let head = rows.iter().filter_map(|row| row.depth).min();
    let is_head = |at: &usize| head.is_some() && rows[*at].depth == head;
    let mut on_the_way = vec![false; rows.len()];
    for start in (0..rows.len()).filter(is_head) {
        let mut at = Some(start);
        while let Some(here) = at.filter(|&here| !on_the_way[here]) {
            on_the_way[here] = true;
            at = next(here);
        }
    }

    let mut entries: BTreeMap<_, BTreeMap<&str, Edges>> = BTreeMap::new();
    for at in order {
        let (package, channel, name) = &rows[at].of;
        let channel = entries.entry((package.as_str(), channel.as_str()));
        let edges = channel.or_default().entry(name.as_str()).or_default();
        if let Some(other) = next(at) {
            let other = rows[other].of.2.clone();
            if on_the_way[at] {
                edges.replaces = edges.replaces.take().max(Some(other));
            } else {
                edges.skips.push(other);
            }
        }
    }
    entries
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
    line(&blob.to_string(), out);
    for (name, entries) in &package.channels {
        let entries: Vec<Value> = entries.iter().map(entry).collect();
        let blob = json!({
            "schema": "olm.channel",
            "package": package.name,
            "name": name,
            "entries": entries,
        });
        line(&blob.to_string(), out);
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

#[derive(Serialize)]
struct RelatedImage {
    image: String,
    name: String,
}

/// Writes the blob of a bundle.
///
/// # Errors
/// With what is wrong with its manifests.
pub fn write_bundle(bundle: &LegacyBundle<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    let manifests = Manifests::read(bundle.manifests)?;
    let mut properties = properties(bundle);
    for object in &manifests.objects {
        // The bytes that the database has.
        let data = STANDARD.encode(object.get());
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
    line(&text, out);
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
                let value: Value = serde_json::from_str(value).unwrap_or_default();
                let required = json!({
                    "packageName": text(&value, "packageName"),
                    "versionRange": text(&value, "version"),
                });
                put(&mut sorted, "olm.package.required", required.to_string());
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

/// Without what rows have beside: `plural` and `type`.
fn gvk(value: &str) -> String {
    let value: Value = serde_json::from_str(value).unwrap_or_default();
    let [group, kind, version] = ["group", "kind", "version"].map(|key| text(&value, key));
    json!({"group": group, "kind": kind, "version": version}).to_string()
}

/// A text of an object; empty when there is none.
fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// JSON without space between its signs. What is none becomes a text, and is a
/// problem of its property.
fn compact(value: &str) -> String {
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

fn line(blob: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(blob.as_bytes());
    out.push(b'\n');
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
}
