//! What packages and bundles say to people and tools that do not resolve:
//! texts, pictures, images, APIs, taken from canonical lines.
//!
//! What is malformed counts as absent; that it is malformed was found when the
//! catalog was read. `details` has the little that commands list.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::document::Gvk;
use crate::text::json::cursor::Walk;
use crate::text::json::{Canonicaliser, unescape};
use crate::text::yaml;

/// How long a summary may be, in characters.
const SUMMARY: usize = 200;
/// How many objects of a bundle are looked at for its `ClusterServiceVersion`.
const MAX_OBJECTS: usize = 1_000;

/// What a bundle says to people, from its `olm.csv.metadata` or from the
/// `ClusterServiceVersion` among its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Presentation {
    /// What people call it. Written by who has the presentation.
    #[serde(skip)]
    pub display_name: String,
    /// The short description among its annotations.
    #[serde(skip)]
    pub short: String,
    /// The long description, in Markdown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Words to find it by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// Who provides it.
    #[serde(skip_serializing_if = "Link::is_empty")]
    pub provider: Link,
    /// Who maintains it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    /// Where to read on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// How mature it is, in its author's words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub maturity: String,
    /// The oldest Kubernetes it runs on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub min_kube_version: String,
    /// How it may be installed: the modes that it supports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub install_modes: Vec<String>,
    /// From the annotation `categories`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    /// From the annotation `capabilities`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub capabilities: String,
    /// From the annotation `repository`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub repository: String,
    /// From the annotation `containerImage`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub container_image: String,
    /// From the annotation `createdAt`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub created_at: String,
    /// From the annotation `support`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub support: String,
}

/// A name with an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    /// The name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
}

impl Link {
    fn is_empty(&self) -> bool {
        self.name.is_empty() && self.url.is_empty()
    }
}

/// Somebody who maintains a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Maintainer {
    /// The name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub email: String,
}

/// A whole bundle, as its line has it.
#[derive(Debug, Default)]
pub struct BundleView<'a> {
    /// Its image, or empty.
    pub image: String,
    /// The version of its first `olm.package` property, or empty.
    pub version: String,
    /// The release of that property, or empty.
    pub release: String,
    /// `olm.gvk`.
    pub provides: Vec<Gvk>,
    /// `olm.gvk.required`.
    pub requires: Vec<Gvk>,
    /// Other properties that ask for something: the type and the value.
    pub dependencies: Vec<(String, &'a RawValue)>,
    /// The images it needs.
    pub related_images: Vec<RelatedImage>,
    /// What it says to people.
    pub presentation: Presentation,
}

/// An image that a bundle needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RelatedImage {
    /// What it is to the bundle.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its pull spec.
    pub image: String,
}

/// A package, as its line has it.
#[derive(Debug, Default)]
pub struct PackageView<'a> {
    /// Its description, or empty.
    pub description: String,
    /// Its picture in base64, and a media type that is safe to send it with.
    pub icon: Option<(Cow<'a, str>, String)>,
}

impl Presentation {
    /// Reads the line of a bundle. `csv` is the `ClusterServiceVersion` among
    /// its objects when that is at hand; else it is looked for.
    pub fn of_bundle(line: &[u8], csv: Option<&[u8]>) -> Self {
        let mut presentation = None;
        let mut objects = Vec::new();
        properties(line, |kind, walk| match kind {
            "olm.csv.metadata" if presentation.is_none() => {
                presentation = Some(Self::of_metadata(walk));
            }
            "olm.bundle.object" if csv.is_none() && objects.len() < MAX_OBJECTS => {
                objects.push(walk.skip());
            }
            _ => {}
        });
        presentation
            .or_else(|| csv.and_then(Self::of_csv))
            .or_else(|| {
                objects
                    .iter()
                    .find_map(|object| Self::of_csv(&manifest(object)?))
            })
            .unwrap_or_default()
    }

    /// The sentence or two that lists have: the short description, or the
    /// beginning of `description`.
    pub fn summary(&self, description: &str) -> String {
        let text = if self.short.trim().is_empty() {
            description
                .split("\n\n")
                .map(|paragraph| paragraph.trim_start_matches(['#', ' ', '\n', '\r']))
                .find(|paragraph| !paragraph.trim().is_empty())
                .unwrap_or_default()
        } else {
            &self.short
        };
        shortened(text)
    }

    /// Reads canonical JSON of a `ClusterServiceVersion`; nothing when it is
    /// something else.
    fn of_csv(json: &[u8]) -> Option<Self> {
        let (mut kind, mut annotations, mut spec) = (String::new(), None, None);
        members(&mut Walk::new(json), |key, walk| match key {
            "kind" => kind = read(walk),
            "metadata" => members(walk, |key, walk| {
                if key == "annotations" {
                    annotations = Some(walk.skip());
                }
            }),
            "spec" => spec = Some(Self::of_metadata(walk)),
            _ => {}
        });
        if kind != "ClusterServiceVersion" {
            return None;
        }
        let mut presentation = spec.unwrap_or_default();
        if let Some(annotations) = annotations {
            presentation.annotations(&mut Walk::new(annotations));
        }
        Some(presentation)
    }

    /// Reads the fields that the property and the `spec` of a
    /// `ClusterServiceVersion` have both.
    fn of_metadata(walk: &mut Walk<'_>) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Mode {
            r#type: String,
            supported: bool,
        }
        let mut presentation = Self::default();
        let mut modes: Vec<Mode> = Vec::new();
        members(walk, |key, value| match key {
            "annotations" => presentation.annotations(value),
            "description" => presentation.description = read(value),
            "displayName" => presentation.display_name = read(value),
            "installModes" => modes = read(value),
            "keywords" => presentation.keywords = read(value),
            "links" => presentation.links = read(value),
            "maintainers" => presentation.maintainers = read(value),
            "maturity" => presentation.maturity = read(value),
            "minKubeVersion" => presentation.min_kube_version = read(value),
            "provider" => presentation.provider = read(value),
            _ => {}
        });
        presentation.install_modes = modes
            .into_iter()
            .filter(|mode| mode.supported)
            .map(|mode| mode.r#type)
            .collect();
        presentation
    }

    fn annotations(&mut self, walk: &mut Walk<'_>) {
        members(walk, |key, value| match key {
            "description" => self.short = read(value),
            "categories" => {
                self.categories = read::<String>(value)
                    .split(',')
                    .map(|category| category.trim().to_owned())
                    .filter(|category| !category.is_empty())
                    .collect();
            }
            "capabilities" => self.capabilities = read(value),
            "repository" => self.repository = read(value),
            "containerImage" => self.container_image = read(value),
            "createdAt" => self.created_at = read(value),
            "support" => self.support = read(value),
            _ => {}
        });
    }
}

impl<'a> BundleView<'a> {
    /// Reads the canonical line of a bundle.
    pub fn of(line: &'a [u8]) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Package {
            version: String,
            release: String,
        }
        let mut view = Self {
            presentation: Presentation::of_bundle(line, None),
            ..Self::default()
        };
        members(&mut Walk::new(line), |key, value| {
            if key.eq_ignore_ascii_case("image") {
                view.image = read(value);
            } else if key.eq_ignore_ascii_case("relatedImages") {
                view.related_images = read(value);
            }
        });
        let mut package: Option<Package> = None;
        properties(line, |kind, value| match kind {
            "olm.package" if package.is_none() => package = Some(read(value)),
            "olm.gvk" => view.provides.push(read(value)),
            "olm.gvk.required" => view.requires.push(read(value)),
            "olm.package.required" | "olm.constraint" => {
                if let Ok(value) = serde_json::from_slice(value.skip()) {
                    view.dependencies.push((kind.to_owned(), value));
                }
            }
            _ => {}
        });
        let Package { version, release } = package.unwrap_or_default();
        (view.version, view.release) = (version, release);
        view
    }
}

impl<'a> PackageView<'a> {
    /// Reads the canonical line of a package.
    pub fn of(line: &'a [u8]) -> Self {
        let mut view = Self::default();
        members(&mut Walk::new(line), |key, value| {
            if key.eq_ignore_ascii_case("description") {
                view.description = read(value);
            } else if key.eq_ignore_ascii_case("icon") {
                let mut data = Cow::Borrowed("");
                let mut media_type = String::new();
                members(value, |key, value| {
                    if key.eq_ignore_ascii_case("base64data") {
                        if let [b'"', inner @ .., b'"'] = value.skip() {
                            data = unescape(inner);
                        }
                    } else if key.eq_ignore_ascii_case("mediatype") {
                        media_type = read(value);
                    }
                });
                let media_type = safe_type(&media_type).to_owned();
                view.icon = (!data.is_empty()).then_some((data, media_type));
            }
        });
        view
    }
}

/// A media type of a picture; anything else is sent as bytes that no browser
/// looks into.
fn safe_type(media_type: &str) -> &str {
    let name = media_type.strip_prefix("image/").unwrap_or_default();
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    if (1..=100).contains(&name.len()) && name.bytes().all(good) {
        media_type
    } else {
        "application/octet-stream"
    }
}

/// Goes through a canonical object, or over anything else. `take` gets each
/// key, and the walk before its value, which it may go over: so that nothing
/// is gone over twice.
fn members<'a>(walk: &mut Walk<'a>, mut take: impl FnMut(&str, &mut Walk<'a>)) {
    if walk.peek() != Some(b'{') {
        walk.skip();
        return;
    }
    walk.step();
    while let Some(key) = walk.next_key() {
        let before = walk.position();
        if let [b'"', inner @ .., b'"'] = key {
            take(&unescape(inner), walk);
        }
        if walk.position() == before {
            walk.skip();
        }
    }
}

/// Goes through the properties of a bundle. `take` gets the type of each, and
/// the walk before its value.
fn properties<'a>(line: &'a [u8], mut take: impl FnMut(&str, &mut Walk<'a>)) {
    members(&mut Walk::new(line), |key, walk| {
        if !key.eq_ignore_ascii_case("properties") || walk.peek() != Some(b'[') {
            return;
        }
        walk.step();
        while walk.next_element() {
            let before = walk.position();
            let mut kind = String::new();
            // A value that comes before its type, by its case.
            let mut waiting = None;
            members(walk, |key, walk| {
                if key.eq_ignore_ascii_case("type") {
                    kind = read(walk);
                } else if key.eq_ignore_ascii_case("value") {
                    if kind.is_empty() {
                        waiting = Some(walk.skip());
                    } else {
                        take(&kind, walk);
                    }
                }
            });
            if let Some(value) = waiting {
                take(&kind, &mut Walk::new(value));
            }
            // Nothing canonical is empty; whatever it is, the walk goes on.
            if walk.position() == before {
                walk.step();
            }
        }
    });
}

/// A value of the right type, or what stands for none.
fn read<T: DeserializeOwned + Default>(walk: &mut Walk<'_>) -> T {
    serde_json::from_slice::<Option<T>>(walk.skip())
        .ok()
        .flatten()
        .unwrap_or_default()
}

/// The document of an `olm.bundle.object`, as canonical JSON.
fn manifest(property: &[u8]) -> Option<Vec<u8>> {
    let mut data = String::new();
    members(&mut Walk::new(property), |key, value| {
        if key.eq_ignore_ascii_case("data") {
            data = read(value);
        }
    });
    data.retain(|sign| !matches!(sign, '\r' | '\n'));
    let decoded = STANDARD.decode(data).ok()?;
    // Of the many kinds of manifests one is wanted.
    memchr::memmem::find(&decoded, b"ClusterServiceVersion")?;
    let mut json = Vec::with_capacity(decoded.len());
    if decoded.trim_ascii_start().starts_with(b"{") {
        Canonicaliser::default().read(&decoded, 0, &mut json).ok()?;
    } else {
        let mut read = Vec::new();
        yaml::to_json(&decoded, &yaml::Limits::default(), &mut read).ok()?;
        Canonicaliser::default().read(&read, 0, &mut json).ok()?;
    }
    Some(json)
}

/// A text on one line, cut to what lists show of it.
fn shortened(text: &str) -> String {
    let mut short = String::new();
    let mut count = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if count + length + usize::from(count > 0) > SUMMARY {
            if short.is_empty() {
                short = word.chars().take(SUMMARY).collect();
            }
            short.push('…');
            return short;
        }
        if count > 0 {
            short.push(' ');
            count += 1;
        }
        short.push_str(word);
        count += length;
    }
    short
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// As the reader writes it: keys sorted, no space.
    fn line(blob: &Value) -> Vec<u8> {
        format!("{blob}\n").into_bytes()
    }

    fn bundle(properties: &Value) -> Vec<u8> {
        line(&json!({
            "schema": "olm.bundle",
            "name": "a.v1",
            "image": "example.com/a:1",
            "relatedImages": [{"name": "server", "image": "example.com/b:1"}, {"image": "c"}],
            "properties": properties,
        }))
    }

    fn metadata() -> Value {
        json!({
            "annotations": {
                "categories": "Database, Big Data,",
                "capabilities": "Deep Insights",
                "description": "Keeps  keys\nand values.",
            },
            "description": "# Long\n\nMore.",
            "displayName": "A \"b\"",
            "installModes": [
                {"type": "OwnNamespace", "supported": false},
                {"type": "AllNamespaces", "supported": true},
            ],
            "keywords": ["keys"],
            "links": [{"name": "Home", "url": "https://example.com"}],
            "maintainers": [{"name": "Nobody", "email": "n@example.com"}],
            "minKubeVersion": "1.20.0",
            "provider": {"name": "Example"},
        })
    }

    #[test]
    fn metadata_and_manifest_say_the_same() {
        let of_property = Presentation::of_bundle(
            &bundle(&json!([{"type": "olm.csv.metadata", "value": metadata()}])),
            None,
        );
        let mut spec = metadata();
        let annotations = spec["annotations"].take();
        spec.as_object_mut().unwrap().remove("annotations");
        let csv = json!({
            "kind": "ClusterServiceVersion",
            "metadata": {"annotations": annotations},
            "spec": spec,
        });
        let object = |manifest: &Value| {
            let data = STANDARD.encode(manifest.to_string());
            json!({"type": "olm.bundle.object", "value": {"data": data}})
        };
        let objects = bundle(&json!([
            object(&json!({"kind": "ConfigMap"})),
            object(&csv)
        ]));
        assert_eq!(Presentation::of_bundle(&objects, None), of_property);
        let given = csv.to_string();
        let given = Presentation::of_bundle(&bundle(&json!([])), Some(given.as_bytes()));
        assert_eq!(given, of_property);

        assert_eq!(of_property.display_name, "A \"b\"");
        assert_eq!(of_property.categories, ["Database", "Big Data"]);
        assert_eq!(of_property.install_modes, ["AllNamespaces"]);
        assert_eq!(of_property.provider.name, "Example");
        assert_eq!(of_property.summary(""), "Keeps keys and values.");
    }

    #[test]
    fn a_bundle_says_what_it_brings_and_needs() {
        let line = bundle(&json!([
            {"type": "olm.package", "value": {"packageName": "a", "version": "1.0.0", "release": "2"}},
            {"type": "olm.gvk", "value": {"group": "g", "version": "v1", "kind": "K"}},
            {"type": "olm.gvk.required", "value": {"group": "g", "version": "v1", "kind": "R"}},
            {"type": "olm.package.required", "value": {"packageName": "b", "versionRange": ">1.0.0"}},
            {"type": "other", "value": 1},
        ]));
        let view = BundleView::of(&line);
        assert_eq!((&*view.image, &*view.version), ("example.com/a:1", "1.0.0"));
        assert_eq!(view.release, "2");
        assert_eq!(view.provides[0].kind, "K");
        assert_eq!(view.requires[0].kind, "R");
        assert_eq!(view.related_images.len(), 2);
        let [(kind, value)] = &view.dependencies[..] else {
            panic!("one dependency");
        };
        assert_eq!(kind, "olm.package.required");
        assert_eq!(
            value.get(),
            r#"{"packageName":"b","versionRange":">1.0.0"}"#
        );
    }

    #[test]
    fn what_is_malformed_counts_as_absent() {
        for properties in [
            json!(null),
            json!({}),
            json!([1, null, {"type": 1, "value": 2}, {"type": "olm.csv.metadata"}]),
            json!([{"type": "olm.csv.metadata", "value": {"displayName": 1, "links": {}}}]),
            json!([{"type": "olm.bundle.object", "value": {"data": "?"}}]),
            json!([{"type": "olm.package", "value": "x"}]),
        ] {
            let line = bundle(&properties);
            let view = BundleView::of(&line);
            assert_eq!(view.presentation, Presentation::default());
            assert_eq!(view.version, "");
        }
        for line in [&b""[..], b"{", b"[]", b"{\"properties\":[{"] {
            assert_eq!(BundleView::of(line).image, "");
        }
    }

    #[test]
    fn a_package_shows_its_picture() {
        let blob =
            json!({"description": "d", "icon": {"base64data": "YQ==", "mediatype": "image/png"}});
        let line = line(&blob);
        let view = PackageView::of(&line);
        assert_eq!(view.description, "d");
        let (data, media_type) = view.icon.unwrap();
        assert_eq!((&*data, &*media_type), ("YQ==", "image/png"));
        assert!(PackageView::of(b"{\"icon\":{}}").icon.is_none());
        for unsafe_type in ["text/html", "image/", "image/a\r\nb", "image/svg+xml;a=b"] {
            assert_eq!(safe_type(unsafe_type), "application/octet-stream");
        }
    }

    #[test]
    fn a_summary_is_one_short_line() {
        let none = Presentation::default();
        assert_eq!(none.summary(""), "");
        assert_eq!(none.summary("## Title\n\nText"), "Title");
        assert_eq!(
            none.summary("\n\n\nText\nof two lines"),
            "Text of two lines"
        );
        let long = none.summary(&"word ".repeat(100));
        assert!(
            long.ends_with("word…") && long.chars().count() <= SUMMARY + 1,
            "{long}"
        );
        assert_eq!(none.summary(&"é".repeat(500)).chars().count(), SUMMARY + 1);
    }
}
