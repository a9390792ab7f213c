//! Container images for tests, put together in code: images and indexes of
//! [`Layer`]s.
//!
//! They are kept as bytes with digests. A test gives them to a registry of its
//! own through [`Built::for_each_blob`] and [`Built::for_each_manifest`], or
//! writes an OCI layout with [`Built::add_to_layout`]. Wrong images are made
//! with [`Image::edit_manifest`], [`Image::edit_config`] and raw layers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use images::digest::Digest;
use serde_json::{Map, Value, json};

use super::catalog::{Catalog, Format};
pub(crate) use super::layer::{Compression, Layer};

/// The label of an image's config that names the folder of its catalog.
pub(crate) const CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";

/// The annotation of a layout's index that names an image.
const TAG_ANNOTATION: &str = "org.opencontainers.image.ref.name";

/// Whose media types an image has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    Oci,
    Docker,
}

/// An image for one platform.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    flavour: Flavour,
    layers: Vec<Layer>,
    config: Value,
    annotations: Map<String, Value>,
    manifest_edits: Vec<fn(&mut Value)>,
    platform: (String, String),
}

/// An index: images for several platforms.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    flavour: Flavour,
    images: Vec<Built>,
}

/// Bytes that are named by their digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blob {
    pub media_type: &'static str,
    pub digest: Digest,
    pub bytes: Vec<u8>,
}

/// An image or an index as it lies in a registry.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    /// The target of a tag: a manifest or an index.
    pub top: Blob,
    /// The manifests below an index, in its order.
    manifests: Vec<Blob>,
    /// Configs and layers, each once.
    blobs: Vec<Blob>,
    platform: (String, String),
}

/// The image of a catalog with this package.
pub(crate) fn image_of(package: &str) -> Built {
    Image::of_catalog(&Catalog::one(package)).build()
}

impl Image {
    /// An image without layers, in OCI's media types, for linux/amd64.
    pub(crate) fn new() -> Self {
        Self {
            flavour: Flavour::Oci,
            layers: Vec::new(),
            config: json!({"config": {"Labels": {}}, "history": []}),
            annotations: Map::new(),
            manifest_edits: Vec::new(),
            platform: ("linux".into(), "amd64".into()),
        }
    }

    /// The image of a catalog: its files under `/configs`, and the label.
    pub(crate) fn of_catalog(catalog: &Catalog) -> Self {
        Self::new()
            .label(CONFIGS_LABEL, "/configs")
            .layer(Layer::of_catalog(catalog, Format::JsonLines, "configs"))
    }

    /// Takes Docker's media types.
    pub(crate) fn docker(mut self) -> Self {
        self.flavour = Flavour::Docker;
        self
    }

    /// Puts a layer on top.
    pub(crate) fn layer(mut self, layer: Layer) -> Self {
        self.layers.push(layer);
        self
    }

    /// Sets a label of the config.
    pub(crate) fn label(self, name: &str, value: &str) -> Self {
        self.edit_config(|config| config["config"]["Labels"][name] = value.into())
    }

    /// Sets an annotation of the manifest.
    pub(crate) fn annotation(mut self, name: &str, value: &str) -> Self {
        self.annotations.insert(name.into(), value.into());
        self
    }

    /// Sets the platform.
    pub(crate) fn platform(mut self, os: &str, architecture: &str) -> Self {
        self.platform = (os.into(), architecture.into());
        self
    }

    /// Changes the config.
    pub(crate) fn edit_config(mut self, edit: impl FnOnce(&mut Value)) -> Self {
        edit(&mut self.config);
        self
    }

    /// Changes the manifest when it is made, last of all.
    pub(crate) fn edit_manifest(mut self, edit: fn(&mut Value)) -> Self {
        self.manifest_edits.push(edit);
        self
    }

    /// Makes the bytes.
    pub(crate) fn build(&self) -> Built {
        let mut blobs: Vec<Blob> = Vec::new();
        let mut layers = Vec::new();
        let mut archives = Vec::new();
        for layer in &self.layers {
            let blob = Blob::new(layer_type(self.flavour, layer.compression), layer.bytes());
            archives.push(Digest::of(&layer.archive()).to_string());
            layers.push(blob.descriptor());
            if !blobs.contains(&blob) {
                blobs.push(blob);
            }
        }

        let mut config = self.config.clone();
        config["os"] = self.platform.0.as_str().into();
        config["architecture"] = self.platform.1.as_str().into();
        config["rootfs"] = json!({"type": "layers", "diff_ids": archives});
        let (manifest_type, config_type) = match self.flavour {
            Flavour::Oci => (
                "application/vnd.oci.image.manifest.v1+json",
                "application/vnd.oci.image.config.v1+json",
            ),
            Flavour::Docker => (
                "application/vnd.docker.distribution.manifest.v2+json",
                "application/vnd.docker.container.image.v1+json",
            ),
        };
        let config = Blob::new(config_type, config.to_string().into_bytes());

        let mut manifest = json!({
            "schemaVersion": 2,
            "mediaType": manifest_type,
            "config": config.descriptor(),
            "layers": layers,
        });
        if !self.annotations.is_empty() {
            manifest["annotations"] = self.annotations.clone().into();
        }
        for edit in &self.manifest_edits {
            edit(&mut manifest);
        }
        blobs.insert(0, config);
        Built {
            top: Blob::new(manifest_type, manifest.to_string().into_bytes()),
            manifests: Vec::new(),
            blobs,
            platform: self.platform.clone(),
        }
    }
}

fn layer_type(flavour: Flavour, compression: Compression) -> &'static str {
    match (flavour, compression) {
        (Flavour::Oci, Compression::Plain) => "application/vnd.oci.image.layer.v1.tar",
        (Flavour::Oci, Compression::Gzip) => "application/vnd.oci.image.layer.v1.tar+gzip",
        (Flavour::Oci, Compression::Zstd) => "application/vnd.oci.image.layer.v1.tar+zstd",
        (Flavour::Docker, Compression::Plain) => "application/vnd.docker.image.rootfs.diff.tar",
        (Flavour::Docker, Compression::Gzip) => "application/vnd.docker.image.rootfs.diff.tar.gzip",
        (Flavour::Docker, Compression::Zstd) => "application/vnd.docker.image.rootfs.diff.tar.zstd",
    }
}

impl Index {
    /// An index of nothing, in OCI's media type.
    pub(crate) fn new() -> Self {
        Self {
            flavour: Flavour::Oci,
            images: Vec::new(),
        }
    }

    /// Takes Docker's media type.
    pub(crate) fn docker(mut self) -> Self {
        self.flavour = Flavour::Docker;
        self
    }

    /// Adds an image under its platform, or another index.
    pub(crate) fn image(mut self, image: Built) -> Self {
        self.images.push(image);
        self
    }

    /// Makes the bytes.
    pub(crate) fn build(&self) -> Built {
        let media_type = match self.flavour {
            Flavour::Oci => "application/vnd.oci.image.index.v1+json",
            Flavour::Docker => "application/vnd.docker.distribution.manifest.list.v2+json",
        };
        let descriptors: Vec<Value> = self
            .images
            .iter()
            .map(|image| {
                let mut descriptor = image.top.descriptor();
                let (os, architecture) = &image.platform;
                descriptor["platform"] = json!({"os": os, "architecture": architecture});
                descriptor
            })
            .collect();
        let index = json!({
            "schemaVersion": 2,
            "mediaType": media_type,
            "manifests": descriptors,
        });
        let mut blobs: BTreeMap<Digest, Blob> = BTreeMap::new();
        let mut manifests = Vec::new();
        for image in &self.images {
            image.for_each_blob(|blob| drop(blobs.insert(blob.digest, blob.clone())));
            image.for_each_manifest(|manifest| manifests.push(manifest.clone()));
        }
        Built {
            top: Blob::new(media_type, index.to_string().into_bytes()),
            manifests,
            blobs: blobs.into_values().collect(),
            platform: ("unknown".into(), "unknown".into()),
        }
    }
}

impl Blob {
    fn new(media_type: &'static str, bytes: Vec<u8>) -> Self {
        Self {
            media_type,
            digest: Digest::of(&bytes),
            bytes,
        }
    }

    fn descriptor(&self) -> Value {
        json!({
            "mediaType": self.media_type,
            "digest": self.digest,
            "size": self.bytes.len(),
        })
    }
}

impl Built {
    /// The digest of what a tag leads to.
    pub(crate) fn digest(&self) -> Digest {
        self.top.digest
    }

    /// Calls for every config and layer, before any manifest names them.
    pub(crate) fn for_each_blob(&self, mut give: impl FnMut(&Blob)) {
        self.blobs.iter().for_each(&mut give);
    }

    /// Calls for every manifest, those below an index first, the top last.
    pub(crate) fn for_each_manifest(&self, mut give: impl FnMut(&Blob)) {
        self.manifests.iter().for_each(&mut give);
        give(&self.top);
    }

    /// Writes all into an OCI layout, which is begun where there is none, and
    /// has `tag` lead to it and to nothing else.
    pub(crate) fn add_to_layout(&self, folder: &Path, tag: &str) {
        let blobs = folder.join("blobs/sha256");
        fs::create_dir_all(&blobs).unwrap();
        let write = |blob: &Blob| fs::write(blobs.join(blob.digest.hex()), &blob.bytes).unwrap();
        self.for_each_blob(write);
        self.for_each_manifest(write);

        let path = folder.join("index.json");
        let mut manifests: Vec<Value> = fs::read(&path).map_or_else(
            |_| Vec::new(),
            |bytes| {
                let mut index: Value = serde_json::from_slice(&bytes).unwrap();
                serde_json::from_value(index["manifests"].take()).unwrap()
            },
        );
        manifests.retain(|manifest| manifest["annotations"][TAG_ANNOTATION] != tag);
        let mut descriptor = self.top.descriptor();
        descriptor["annotations"] = json!({TAG_ANNOTATION: tag});
        manifests.push(descriptor);
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": manifests,
        });
        fs::write(path, index.to_string()).unwrap();
        fs::write(
            folder.join("oci-layout"),
            r#"{"imageLayoutVersion":"1.0.0"}"#,
        )
        .unwrap();
    }
}

mod checks {
    use super::*;

    #[test]
    fn all_that_an_index_names_is_given() {
        let catalog = Catalog::small();
        let one = Image::of_catalog(&catalog).build();
        let other = Image::of_catalog(&catalog)
            .platform("linux", "arm64")
            .docker()
            .build();
        let index = Index::new().image(one.clone()).image(other).build();

        let mut given: Vec<Digest> = Vec::new();
        index.for_each_blob(|blob| given.push(blob.digest));
        // The same layer in both, and a config each.
        assert_eq!(given.len(), 3);
        index.for_each_manifest(|manifest| {
            let document: Value = serde_json::from_slice(&manifest.bytes).unwrap();
            let layers = document["layers"].as_array().into_iter().flatten();
            let images = document["manifests"].as_array().into_iter().flatten();
            for named in layers.chain(images).chain(document.get("config")) {
                let digest: Digest = named["digest"].as_str().unwrap().parse().unwrap();
                assert!(given.contains(&digest), "{document:#}");
            }
            given.push(manifest.digest);
        });
        assert_eq!(given.last(), Some(&index.digest()));
        assert!(given.contains(&one.digest()));
    }

    #[test]
    fn a_layout_keeps_one_image_a_tag() {
        let folder = tempfile::tempdir().unwrap();
        let image = Image::of_catalog(&Catalog::small());
        image.build().add_to_layout(folder.path(), "v1");
        image.build().add_to_layout(folder.path(), "v2");
        let newer = image.annotation("example.com/build", "2").build();
        newer.add_to_layout(folder.path(), "v1");

        let text = fs::read(folder.path().join("index.json")).unwrap();
        let index: Value = serde_json::from_slice(&text).unwrap();
        let tags: Vec<&Value> = index["manifests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|manifest| &manifest["annotations"][TAG_ANNOTATION])
            .collect();
        assert_eq!(tags, ["v2", "v1"]);
        let blob = folder
            .path()
            .join("blobs/sha256")
            .join(newer.digest().hex());
        assert_eq!(fs::read(blob).unwrap(), newer.top.bytes);
    }
}
