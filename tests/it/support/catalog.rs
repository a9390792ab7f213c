//! Catalogs for tests, put together in code and written as JSON or YAML.
//!
//! What is not said gets a good default, so that a test shows only what it is
//! about: the first channel is the default one, and an entry without a bundle
//! gets a bundle with metadata, whose version is the part of the name after `.v`.

use std::collections::BTreeSet;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

pub(crate) use super::bundle::{Bundle, bundle};
use super::yaml;

/// A catalog: packages, and blobs that belong to none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    packages: Vec<Package>,
    others: Vec<Value>,
}

/// One package with all its blobs.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    name: String,
    blob: Map<String, Value>,
    channels: Vec<Channel>,
    bundles: Vec<Bundle>,
    deprecations: Vec<Value>,
    customs: Vec<Value>,
}

#[derive(Clone, Debug)]
struct Channel {
    name: String,
    entries: Vec<Entry>,
}

/// One entry of a channel.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    name: String,
    blob: Map<String, Value>,
}

/// How a catalog is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// One JSON document a line.
    JsonLines,
    /// JSON documents over several lines.
    PrettyJson,
    /// YAML documents in block style.
    Yaml,
}

/// An entry that replaces and skips nothing.
pub(crate) fn entry(name: &str) -> Entry {
    let mut blob = Map::new();
    blob.insert("name".into(), name.into());
    Entry {
        name: name.into(),
        blob,
    }
}

/// The lines of a catalog with this package.
pub(crate) fn text_of(package: &str) -> String {
    Catalog::one(package).text(Format::JsonLines)
}

impl Catalog {
    /// A catalog of nothing.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A catalog of one package with one channel of two versions, for tests
    /// that need some catalog.
    pub(crate) fn small() -> Self {
        Self::new().package("etcd", |package| {
            package.channel(
                "stable",
                [
                    entry("etcd.v1.0.0"),
                    entry("etcd.v1.1.0").replaces("etcd.v1.0.0"),
                ],
            )
        })
    }

    /// A catalog of one package of this name, with one version.
    pub(crate) fn one(package: &str) -> Self {
        Self::new().package(package, |filled| {
            filled.channel("stable", [entry(&format!("{package}.v1.0.0"))])
        })
    }

    /// Adds a package.
    pub(crate) fn package(mut self, name: &str, fill: impl FnOnce(Package) -> Package) -> Self {
        self.packages.push(fill(Package::new(name)));
        self
    }

    /// Adds a blob as it is, also one that is wrong.
    pub(crate) fn blob(mut self, blob: Value) -> Self {
        self.others.push(blob);
        self
    }

    /// All blobs, package by package.
    pub(crate) fn blobs(&self) -> Vec<Value> {
        let packages = self.packages.iter().flat_map(Package::blobs);
        packages.chain(self.others.iter().cloned()).collect()
    }

    /// The whole catalog as one text.
    pub(crate) fn text(&self, format: Format) -> String {
        format.write(&self.blobs())
    }

    /// The catalog as files, one a package: path and content.
    pub(crate) fn files(&self, format: Format) -> Vec<(String, Vec<u8>)> {
        let ending = match format {
            Format::Yaml => "yaml",
            Format::JsonLines | Format::PrettyJson => "json",
        };
        let file = |folder: &str, blobs: &[Value]| {
            (
                format!("{folder}/catalog.{ending}"),
                format.write(blobs).into_bytes(),
            )
        };
        let mut files: Vec<_> = self
            .packages
            .iter()
            .map(|package| file(&package.name, &package.blobs()))
            .collect();
        if !self.others.is_empty() {
            files.push(file("others", &self.others));
        }
        files
    }

    /// Writes the catalog's files under `folder`.
    pub(crate) fn write_to(&self, folder: &Path, format: Format) {
        for (path, bytes) in self.files(format) {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
    }
}

impl Format {
    fn write(self, blobs: &[Value]) -> String {
        blobs
            .iter()
            .map(|blob| match self {
                Self::JsonLines => format!("{blob}\n"),
                Self::PrettyJson => format!("{blob:#}\n"),
                Self::Yaml => format!("---\n{}", yaml::document(blob)),
            })
            .collect()
    }
}

impl Package {
    fn new(name: &str) -> Self {
        let mut blob = Map::new();
        blob.insert("schema".into(), "olm.package".into());
        blob.insert("name".into(), name.into());
        Self {
            name: name.into(),
            blob,
            channels: Vec::new(),
            bundles: Vec::new(),
            deprecations: Vec::new(),
            customs: Vec::new(),
        }
    }

    /// Names the default channel; without this it is the first.
    pub(crate) fn default_channel(self, name: &str) -> Self {
        self.field("defaultChannel", name)
    }

    /// Describes the package.
    pub(crate) fn description(self, text: &str) -> Self {
        self.field("description", text)
    }

    /// Gives the package an icon.
    pub(crate) fn icon(self, media_type: &str, bytes: &[u8]) -> Self {
        let icon = json!({"base64data": BASE64.encode(bytes), "mediatype": media_type});
        self.field("icon", icon)
    }

    /// Sets any field of the `olm.package` blob.
    pub(crate) fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.blob.insert(name.into(), value.into());
        self
    }

    /// Adds a channel.
    pub(crate) fn channel(mut self, name: &str, entries: impl IntoIterator<Item = Entry>) -> Self {
        self.channels.push(Channel {
            name: name.into(),
            entries: entries.into_iter().collect(),
        });
        self
    }

    /// Adds a bundle that is more than the default one.
    pub(crate) fn bundle(mut self, bundle: Bundle) -> Self {
        self.bundles.push(bundle);
        self
    }

    /// Deprecates the package.
    pub(crate) fn deprecate(self, message: &str) -> Self {
        self.deprecation(&json!({"schema": "olm.package"}), message)
    }

    /// Deprecates a channel.
    pub(crate) fn deprecate_channel(self, name: &str, message: &str) -> Self {
        self.deprecation(&json!({"schema": "olm.channel", "name": name}), message)
    }

    /// Deprecates a bundle.
    pub(crate) fn deprecate_bundle(self, name: &str, message: &str) -> Self {
        self.deprecation(&json!({"schema": "olm.bundle", "name": name}), message)
    }

    fn deprecation(mut self, reference: &Value, message: &str) -> Self {
        self.deprecations
            .push(json!({"reference": reference, "message": message}));
        self
    }

    /// Adds a blob of a schema of the author's own, which gets the package's
    /// name.
    pub(crate) fn custom(mut self, schema: &str, mut fields: Value) -> Self {
        fields["schema"] = schema.into();
        fields["package"] = self.name.as_str().into();
        self.customs.push(fields);
        self
    }

    fn blobs(&self) -> Vec<Value> {
        let mut package = self.blob.clone();
        if let Some(channel) = self.channels.first() {
            package
                .entry("defaultChannel")
                .or_insert_with(|| channel.name.as_str().into());
        }
        let mut blobs = vec![Value::Object(package)];
        blobs.extend(self.channels.iter().map(|channel| channel.blob(&self.name)));

        let mut made: BTreeSet<&str> = BTreeSet::new();
        for bundle in &self.bundles {
            made.insert(&bundle.name);
            blobs.push(bundle.blob(&self.name));
        }
        for entry in self.channels.iter().flat_map(|channel| &channel.entries) {
            if made.insert(&entry.name) {
                let bundle = bundle(&entry.name).csv_metadata(json!({}));
                blobs.push(bundle.blob(&self.name));
            }
        }

        if !self.deprecations.is_empty() {
            blobs.push(json!({
                "schema": "olm.deprecations",
                "package": self.name,
                "entries": self.deprecations,
            }));
        }
        blobs.extend(self.customs.iter().cloned());
        blobs
    }
}

impl Channel {
    fn blob(&self, package: &str) -> Value {
        let entries = self.entries.iter().map(|entry| entry.blob.clone().into());
        json!({
            "schema": "olm.channel",
            "package": package,
            "name": self.name,
            "entries": Value::Array(entries.collect()),
        })
    }
}

impl Entry {
    /// Names the bundle whose place this one takes.
    pub(crate) fn replaces(self, name: &str) -> Self {
        self.field("replaces", name)
    }

    /// Names bundles that are passed over.
    pub(crate) fn skips<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<&str> = names.into_iter().collect();
        self.field("skips", names)
    }

    /// Gives the range of versions whose place this one takes.
    pub(crate) fn skip_range(self, range: &str) -> Self {
        self.field("skipRange", range)
    }

    /// Sets any field.
    pub(crate) fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.blob.insert(name.into(), value.into());
        self
    }
}

mod checks {
    use super::*;

    #[test]
    fn what_is_not_said_gets_a_good_default() {
        let blobs = Catalog::small().blobs();
        let schemas: Vec<&str> = blobs
            .iter()
            .map(|blob| blob["schema"].as_str().unwrap())
            .collect();
        assert_eq!(
            schemas,
            ["olm.package", "olm.channel", "olm.bundle", "olm.bundle"]
        );
        assert_eq!(blobs[0]["defaultChannel"], "stable");
        assert_eq!(blobs[3]["properties"][0]["value"]["version"], "1.1.0");
    }

    #[test]
    fn everything_can_be_said() {
        let catalog = Catalog::new()
            .package("etcd", |package| {
                package
                    .default_channel("beta")
                    .description("Keys and values.")
                    .icon("image/svg+xml", b"<svg/>")
                    .channel("stable", [entry("etcd.v1.0.0")])
                    .channel(
                        "beta",
                        [entry("etcd.v1.1.0")
                            .skips(["etcd.v1.0.0"])
                            .skip_range("<1.1.0")],
                    )
                    .bundle(
                        bundle("etcd.v1.1.0")
                            .version("1.1.0-rc.1")
                            .no_image()
                            .provides("example.com", "v1", "Cluster")
                            .requires("example.com", "v1", "Disk")
                            .requires_package("disks", ">=1.0.0")
                            .csv_metadata(json!({"maturity": "stable"}))
                            .object(&json!({"kind": "ConfigMap"}))
                            .related_image("server", "example.com/server:1"),
                    )
                    .deprecate("Gone.")
                    .deprecate_channel("stable", "Old.")
                    .deprecate_bundle("etcd.v1.0.0", "Older.")
                    .custom("example.com.notes", json!({"text": "Hello."}))
            })
            .blob(json!({"schema": "example.com.loose"}));
        let blobs = catalog.blobs();
        assert_eq!(blobs.len(), 8, "{blobs:#?}");
        assert_eq!(blobs[0]["defaultChannel"], "beta");
        assert_eq!(blobs[3]["image"], Value::Null);
        let properties = blobs[3]["properties"].as_array().unwrap();
        let types: Vec<_> = properties
            .iter()
            .map(|p| p["type"].as_str().unwrap())
            .collect();
        assert_eq!(
            types,
            [
                "olm.package",
                "olm.gvk",
                "olm.gvk.required",
                "olm.package.required",
                "olm.csv.metadata",
                "olm.bundle.object"
            ]
        );
        assert_eq!(properties[4]["value"]["maturity"], "stable");
        assert_eq!(blobs[5]["entries"].as_array().unwrap().len(), 3);
        assert_eq!(blobs[6]["package"], "etcd");
    }

    #[test]
    fn a_catalog_is_written_one_file_a_package() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::small().blob(json!({"schema": "example.com.loose"}));
        catalog.write_to(folder.path(), Format::PrettyJson);
        let text = std::fs::read_to_string(folder.path().join("etcd/catalog.json")).unwrap();
        let read: Vec<Value> = serde_json::Deserializer::from_str(&text)
            .into_iter()
            .map(Result::unwrap)
            .collect();
        assert_eq!(read, catalog.blobs()[..4]);
        assert!(folder.path().join("others/catalog.json").exists());
        assert_eq!(catalog.text(Format::JsonLines).lines().count(), 5);
        assert_eq!(catalog.text(Format::Yaml).matches("---\n").count(), 5);
    }
}
