//! Bundles of catalogs for tests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

/// One bundle.
#[derive(Clone, Debug)]
pub(crate) struct Bundle {
    pub name: String,
    /// The version, when it is not the part of the name after `.v`.
    version: Option<String>,
    image: Option<String>,
    properties: Vec<Value>,
    related_images: Vec<Value>,
    fields: Map<String, Value>,
}

/// A bundle with an image, a version taken from its name, and no more.
pub(crate) fn bundle(name: &str) -> Bundle {
    let digest = images::digest::Digest::of(name.as_bytes());
    Bundle {
        name: name.into(),
        version: None,
        image: Some(format!("example.com/bundles/operator@{digest}")),
        properties: Vec::new(),
        related_images: Vec::new(),
        fields: Map::new(),
    }
}

impl Bundle {
    /// Sets the version of the `olm.package` property.
    pub(crate) fn version(mut self, version: &str) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Sets the image's reference.
    pub(crate) fn image(mut self, reference: &str) -> Self {
        self.image = Some(reference.into());
        self
    }

    /// Takes the image away: such a bundle is served from its objects.
    pub(crate) fn no_image(mut self) -> Self {
        self.image = None;
        self
    }

    /// Adds an API that the bundle provides.
    pub(crate) fn provides(self, group: &str, version: &str, kind: &str) -> Self {
        let api = json!({"group": group, "version": version, "kind": kind});
        self.property("olm.gvk", api)
    }

    /// Adds an API that the bundle requires.
    pub(crate) fn requires(self, group: &str, version: &str, kind: &str) -> Self {
        let api = json!({"group": group, "version": version, "kind": kind});
        self.property("olm.gvk.required", api)
    }

    /// Adds a package that the bundle requires.
    pub(crate) fn requires_package(self, name: &str, range: &str) -> Self {
        let needed = json!({"packageName": name, "versionRange": range});
        self.property("olm.package.required", needed)
    }

    /// Adds the metadata of a `ClusterServiceVersion`, with the fields that a
    /// test is about set or replaced by those of `fields`.
    pub(crate) fn csv_metadata(self, fields: Value) -> Self {
        let mut metadata = json!({
            "displayName": self.name,
            "description": "An operator of a test.",
            "installModes": [
                {"type": "OwnNamespace", "supported": false},
                {"type": "SingleNamespace", "supported": false},
                {"type": "MultiNamespace", "supported": false},
                {"type": "AllNamespaces", "supported": true},
            ],
            "keywords": ["test"],
            "links": [{"name": "Source", "url": "https://example.com/source"}],
            "maintainers": [{"name": "Nobody", "email": "nobody@example.com"}],
            "maturity": "alpha",
            "provider": {"name": "Example"},
        });
        if let (Value::Object(metadata), Value::Object(fields)) = (&mut metadata, fields) {
            metadata.extend(fields);
        }
        self.property("olm.csv.metadata", metadata)
    }

    /// Adds a manifest.
    pub(crate) fn object(self, manifest: &Value) -> Self {
        let data = BASE64.encode(manifest.to_string());
        self.property("olm.bundle.object", json!({"data": data}))
    }

    /// Adds any property.
    pub(crate) fn property(mut self, kind: &str, value: impl Into<Value>) -> Self {
        self.properties
            .push(json!({"type": kind, "value": value.into()}));
        self
    }

    /// Adds an image that the bundle's workload needs.
    pub(crate) fn related_image(mut self, name: &str, reference: &str) -> Self {
        self.related_images
            .push(json!({"name": name, "image": reference}));
        self
    }

    /// Sets any field of the blob, last of all.
    pub(crate) fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }

    /// The `olm.bundle` blob.
    pub(crate) fn blob(&self, package: &str) -> Value {
        let from_name = self.name.split_once(".v").map_or("0.0.1", |(_, rest)| rest);
        let version = self.version.as_deref().unwrap_or(from_name);
        let own = json!({
            "type": "olm.package",
            "value": {"packageName": package, "version": version},
        });
        let mut properties = vec![own];
        properties.extend(self.properties.iter().cloned());

        let mut blob = Map::new();
        blob.insert("schema".into(), "olm.bundle".into());
        blob.insert("package".into(), package.into());
        blob.insert("name".into(), self.name.as_str().into());
        if let Some(image) = &self.image {
            blob.insert("image".into(), image.as_str().into());
        }
        blob.insert("properties".into(), properties.into());
        if !self.related_images.is_empty() {
            blob.insert("relatedImages".into(), self.related_images.clone().into());
        }
        blob.extend(self.fields.clone());
        Value::Object(blob)
    }
}
