//! Image manifests and indexes, OCI's and Docker's.
//!
//! A document is taken for what its own `mediaType` and shape say: a
//! `Content-Type` header can differ from one request to the next while the
//! digest stays the same, so it decides nothing. A document that could be read
//! both ways is refused (the ambiguity has been used to make two clients see
//! two images under one digest).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Error as _};

use crate::digest::{Digest, DigestError};
use crate::platform::Platform;

/// The largest manifest, index or image configuration: 4 MiB, the bound that
/// other pullers and registries use.
pub const MAX_DOCUMENT: usize = 4 << 20;
/// The most layers of one image.
pub const MAX_LAYERS: usize = 512;
/// The most entries of one index.
pub const MAX_ENTRIES: usize = 4096;

/// The media type of an OCI image manifest.
pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The media type of an OCI index.
pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// The media type of a Docker image manifest, version 2 schema 2.
pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// The media type of a Docker manifest list.
pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";

const DOCKER_SCHEMA_1: &str = "application/vnd.docker.distribution.manifest.v1+";
const REFERENCE_TYPE: &str = "vnd.docker.reference.type";
/// How much of a text from a document an error repeats.
const MAX_SHOWN: usize = 200;

/// A manifest document: one image, or a list of images to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manifest {
    /// One image.
    Image(ImageManifest),
    /// One image a platform.
    Index(Index),
}

/// One image: its configuration and its layers, lowest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageManifest {
    /// The image configuration.
    pub config: Descriptor,
    /// The layers, lowest first; at most [`MAX_LAYERS`].
    pub layers: Vec<Descriptor>,
}

/// A list of manifests, usually one a platform; at most [`MAX_ENTRIES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// The entries in the order of the document.
    pub entries: Vec<IndexEntry>,
}

/// One manifest of an [`Index`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Where the manifest is.
    pub descriptor: Descriptor,
    /// The platform the image is for, where the index says.
    pub platform: Option<Platform>,
    /// Free annotations.
    pub annotations: BTreeMap<String, String>,
}

/// What some content is called, how large it is and of which kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The media type, as written.
    pub media_type: String,
    /// The digest.
    pub digest: Digest,
    /// The size in bytes.
    pub size: u64,
}

/// Why a document is no manifest (or image configuration) that almanac takes.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Larger than [`MAX_DOCUMENT`].
    #[error("the document has {size} bytes; the limit is {MAX_DOCUMENT}")]
    TooLarge {
        /// Its size in bytes.
        size: u64,
    },
    /// Not JSON, or JSON with other types than a manifest has.
    #[error("the document is no image manifest and no index")]
    Json(#[source] serde_json::Error),
    /// Not an image configuration.
    #[error("the document is no image configuration")]
    Config(#[source] serde_json::Error),
    /// Docker's first manifest schema, which names its layers by other digests.
    #[error(
        "the manifest is a Docker schema 1 manifest, which is not supported: push the image anew with a current tool"
    )]
    Schema1,
    /// Another `schemaVersion` than 2.
    #[error("the manifest has schemaVersion {0}; only 2 is known")]
    SchemaVersion(i64),
    /// A media type that is neither an image's nor an index's.
    #[error("the document has the media type {0:?}, which is no image manifest and no index")]
    MediaType(String),
    /// The media type says one thing and the shape another, or the shape says both.
    #[error(
        "the document has the fields of an image manifest and of an index, or other fields than its media type asks for"
    )]
    Ambiguous,
    /// Neither `config` and `layers` nor `manifests`.
    #[error("the document has neither config and layers nor manifests")]
    Shape,
    /// More than [`MAX_LAYERS`] layers.
    #[error("the image has {0} layers; the limit is {MAX_LAYERS}")]
    TooManyLayers(usize),
    /// More than [`MAX_ENTRIES`] entries.
    #[error("the index has {0} entries; the limit is {MAX_ENTRIES}")]
    TooManyEntries(usize),
    /// A layer that registries do not hold.
    #[error(
        "layer {digest} has the media type {media_type:?}: foreign and nondistributable layers are not supported"
    )]
    ForeignLayer {
        /// The layer.
        digest: Digest,
        /// Its media type.
        media_type: String,
    },
    /// A descriptor whose digest is none.
    #[error("a descriptor in the document has no valid digest")]
    Digest(#[source] DigestError),
    /// An index where an image should be.
    #[error(
        "the index names another index for the platform; an index in an index is not supported"
    )]
    Nested,
    /// No entry for the platform.
    #[error("the index has no image for the platform {wanted}; there are: {available}")]
    NoPlatform {
        /// The platform that was looked for.
        wanted: Box<Platform>,
        /// The platforms there are, separated by commas (at most 50).
        available: String,
    },
}

impl Manifest {
    /// Reads a manifest of at most 4 MiB. `media_type` is what the carrier of
    /// the document said (a `Content-Type`, a descriptor); it only helps to
    /// name a document that cannot be read.
    pub fn parse(bytes: &[u8], media_type: Option<&str>) -> Result<Self, ManifestError> {
        if bytes.len() > MAX_DOCUMENT {
            return Err(ManifestError::TooLarge {
                size: bytes.len() as u64,
            });
        }
        let said = media_type.unwrap_or_default();
        let document: Document = match object(bytes) {
            Ok(document) => document,
            Err(_) if said.starts_with(DOCKER_SCHEMA_1) => return Err(ManifestError::Schema1),
            Err(error) => return Err(ManifestError::Json(error)),
        };
        document.into_manifest()
    }
}

impl Index {
    /// The entry for `platform`: the first with the same operating system,
    /// architecture and variant; else the first that has no variant, or (when
    /// none was asked for) any. Entries that are attestations rather than
    /// images are passed over. An index whose only image has no platform is
    /// taken at its word.
    pub fn select(&self, platform: &Platform) -> Result<&Descriptor, ManifestError> {
        let images = || self.entries.iter().filter(|entry| !entry.is_attestation());
        let fit = |entry: &&IndexEntry| {
            let offered = entry.platform.as_ref()?;
            if offered.os != platform.os || offered.architecture != platform.architecture {
                return None;
            }
            match (&offered.variant, &platform.variant) {
                (offered, wanted) if offered == wanted => Some(0),
                (None, Some(_)) => Some(1),
                (Some(_), None) => Some(2),
                _ => None,
            }
        };
        let best = images()
            .filter_map(|entry| fit(&entry).map(|fit| (fit, entry)))
            .min_by_key(|(fit, _)| *fit);
        if let Some((_, entry)) = best {
            return Ok(&entry.descriptor);
        }
        let mut all = images();
        match (all.next(), all.next()) {
            (Some(only), None) if only.platform.is_none() => Ok(&only.descriptor),
            _ => Err(ManifestError::NoPlatform {
                wanted: Box::new(platform.clone()),
                available: self.platforms(),
            }),
        }
    }

    fn platforms(&self) -> String {
        let platforms = self
            .entries
            .iter()
            .filter(|entry| !entry.is_attestation())
            .filter_map(|entry| entry.platform.as_ref())
            .take(50)
            .map(|platform| cut(&platform.to_string()))
            .collect::<Vec<_>>();
        if platforms.is_empty() {
            "none".into()
        } else {
            platforms.join(", ")
        }
    }
}

impl IndexEntry {
    /// Whether the entry tells of another entry (provenance, bill of
    /// materials) instead of being an image.
    pub fn is_attestation(&self) -> bool {
        let unknown = self
            .platform
            .as_ref()
            .is_some_and(|platform| platform.os == "unknown" && platform.architecture == "unknown");
        unknown
            || self
                .annotations
                .get(REFERENCE_TYPE)
                .is_some_and(|kind| kind == "attestation-manifest")
    }
}

/// A manifest as it is written. Fields that are not needed are not looked at.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    schema_version: Option<i64>,
    #[serde(default)]
    media_type: Option<String>,
    #[serde(default)]
    config: Option<RawDescriptor>,
    #[serde(default)]
    layers: Option<Vec<RawDescriptor>>,
    #[serde(default)]
    manifests: Option<Vec<RawEntry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDescriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEntry {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    platform: Option<RawPlatform>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct RawPlatform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    variant: Option<String>,
}

impl Document {
    fn into_manifest(self) -> Result<Manifest, ManifestError> {
        let media_type = self.media_type.as_deref().unwrap_or_default();
        if self.schema_version == Some(1) || media_type.starts_with(DOCKER_SCHEMA_1) {
            return Err(ManifestError::Schema1);
        }
        if let Some(version) = self.schema_version
            && version != 2
        {
            return Err(ManifestError::SchemaVersion(version));
        }
        let (may_be_image, may_be_index) = match media_type {
            "" => (true, true),
            OCI_MANIFEST | DOCKER_MANIFEST => (true, false),
            OCI_INDEX | DOCKER_LIST => (false, true),
            other => return Err(ManifestError::MediaType(cut(other))),
        };
        match (self.config, self.layers, self.manifests) {
            (Some(config), Some(layers), None) if may_be_image => {
                image(config, layers).map(Manifest::Image)
            }
            (None, None, Some(entries)) if may_be_index => index(entries).map(Manifest::Index),
            (Some(_), Some(_), _) | (_, _, Some(_)) => Err(ManifestError::Ambiguous),
            _ => Err(ManifestError::Shape),
        }
    }
}

fn image(
    config: RawDescriptor,
    layers: Vec<RawDescriptor>,
) -> Result<ImageManifest, ManifestError> {
    if layers.len() > MAX_LAYERS {
        return Err(ManifestError::TooManyLayers(layers.len()));
    }
    let config = config.into_descriptor()?;
    let layers = layers
        .into_iter()
        .map(|layer| {
            let layer = layer.into_descriptor()?;
            if layer.media_type.contains("foreign") || layer.media_type.contains("nondistributable")
            {
                return Err(ManifestError::ForeignLayer {
                    digest: layer.digest,
                    media_type: cut(&layer.media_type),
                });
            }
            Ok(layer)
        })
        .collect::<Result<_, _>>()?;
    Ok(ImageManifest { config, layers })
}

fn index(entries: Vec<RawEntry>) -> Result<Index, ManifestError> {
    if entries.len() > MAX_ENTRIES {
        return Err(ManifestError::TooManyEntries(entries.len()));
    }
    let entries = entries
        .into_iter()
        .map(|entry| {
            let descriptor = RawDescriptor {
                media_type: entry.media_type,
                digest: entry.digest,
                size: entry.size,
            };
            Ok(IndexEntry {
                descriptor: descriptor.into_descriptor()?,
                platform: entry.platform.map(|platform| Platform {
                    os: platform.os,
                    architecture: platform.architecture,
                    variant: platform.variant.filter(|variant| !variant.is_empty()),
                }),
                annotations: entry.annotations.unwrap_or_default(),
            })
        })
        .collect::<Result<_, _>>()?;
    Ok(Index { entries })
}

impl RawDescriptor {
    fn into_descriptor(self) -> Result<Descriptor, ManifestError> {
        Ok(Descriptor {
            media_type: self.media_type,
            digest: self.digest.parse().map_err(ManifestError::Digest)?,
            size: self.size,
        })
    }
}

/// Reads a JSON object. The derived readers would take an array for one as
/// well, which nobody else does.
pub(crate) fn object<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    if bytes.trim_ascii_start().starts_with(b"{") {
        serde_json::from_slice(bytes)
    } else {
        Err(serde_json::Error::custom("not a JSON object"))
    }
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

    fn descriptor(media_type: &str, content: &str) -> Value {
        json!({
            "mediaType": media_type,
            "digest": Digest::of(content.as_bytes()).to_string(),
            "size": content.len(),
        })
    }

    fn entry(content: &str, os: &str, architecture: &str, variant: Option<&str>) -> Value {
        let mut entry = descriptor(OCI_MANIFEST, content);
        entry["platform"] = json!({"os": os, "architecture": architecture, "variant": variant});
        entry
    }

    fn parse(document: &Value) -> Result<Manifest, ManifestError> {
        Manifest::parse(document.to_string().as_bytes(), None)
    }

    fn index_of(entries: &[Value]) -> Index {
        match parse(&json!({"schemaVersion": 2, "manifests": entries})).unwrap() {
            Manifest::Index(index) => index,
            Manifest::Image(_) => panic!("an index was written"),
        }
    }

    fn selected(entries: &[Value], platform: &str) -> Result<Digest, String> {
        index_of(entries)
            .select(&platform.parse().unwrap())
            .map(|descriptor| descriptor.digest)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn an_image_is_read_with_any_media_type_it_may_have() {
        for media_type in [Some(OCI_MANIFEST), Some(DOCKER_MANIFEST), None] {
            let mut document = json!({
                "schemaVersion": 2,
                "config": descriptor("c", "config"),
                "layers": [descriptor(LAYER, "one"), descriptor(LAYER, "two")],
                "annotations": {"unread": [1]},
            });
            if let Some(media_type) = media_type {
                document["mediaType"] = media_type.into();
            }
            let Manifest::Image(image) = parse(&document).unwrap() else {
                panic!("{media_type:?}");
            };
            assert_eq!(image.config.digest, Digest::of(b"config"));
            assert_eq!(image.layers.len(), 2);
            assert_eq!(image.layers[1].digest, Digest::of(b"two"));
            assert_eq!(image.layers[1].size, 3);
            assert_eq!(image.layers[1].media_type, LAYER);
        }
    }

    #[test]
    fn an_index_gives_the_image_of_the_platform() {
        let entries = [
            entry("amd", "linux", "amd64", None),
            entry("arm7", "linux", "arm", Some("v7")),
            entry("arm6", "linux", "arm", Some("v6")),
            entry("arm64", "linux", "arm64", Some("v8")),
            entry("note", "unknown", "unknown", None),
        ];
        assert_eq!(selected(&entries, "linux/amd64"), Ok(Digest::of(b"amd")));
        assert_eq!(selected(&entries, "linux/amd64/v3"), Ok(Digest::of(b"amd")));
        assert_eq!(selected(&entries, "linux/arm64"), Ok(Digest::of(b"arm64")));
        assert_eq!(selected(&entries, "linux/arm/v6"), Ok(Digest::of(b"arm6")));
        assert_eq!(selected(&entries, "linux/arm"), Ok(Digest::of(b"arm7")));
        let error = selected(&entries, "linux/s390x").unwrap_err();
        assert!(error.contains("linux/s390x"), "{error}");
        assert!(error.contains("linux/amd64, linux/arm/v7"), "{error}");
        assert!(!error.contains("unknown"), "{error}");
        assert!(selected(&entries, "unknown/unknown").is_err());
    }

    #[test]
    fn the_only_image_of_an_index_needs_no_platform() {
        let mut note = descriptor(OCI_MANIFEST, "note");
        note["annotations"] = json!({REFERENCE_TYPE: "attestation-manifest"});
        let only = descriptor(OCI_MANIFEST, "only");
        let entries = [note, only.clone()];
        assert_eq!(selected(&entries, "linux/amd64"), Ok(Digest::of(b"only")));
        assert!(selected(&[only.clone(), only], "linux/amd64").is_err());
        assert!(selected(&[], "linux/amd64").unwrap_err().contains("none"));
    }

    #[test]
    fn a_document_that_can_be_read_both_ways_is_refused() {
        let config = descriptor("c", "config");
        for document in [
            json!({"config": config, "layers": [], "manifests": []}),
            json!({"mediaType": OCI_INDEX, "config": config, "layers": []}),
            json!({"mediaType": OCI_MANIFEST, "manifests": []}),
            json!({"layers": [], "manifests": []}),
        ] {
            assert!(
                matches!(parse(&document), Err(ManifestError::Ambiguous)),
                "{document}"
            );
        }
    }

    #[test]
    fn what_is_not_supported_is_refused_by_its_name() {
        let schema_1 = json!({"schemaVersion": 1, "fsLayers": []});
        assert!(matches!(parse(&schema_1), Err(ManifestError::Schema1)));
        let signed = Manifest::parse(
            b"{",
            Some("application/vnd.docker.distribution.manifest.v1+prettyjws"),
        );
        assert!(matches!(signed, Err(ManifestError::Schema1)));
        let version_3 = json!({"schemaVersion": 3, "manifests": []});
        assert!(matches!(
            parse(&version_3),
            Err(ManifestError::SchemaVersion(3))
        ));
        let other = json!({"mediaType": "text/html", "manifests": []});
        assert!(matches!(parse(&other), Err(ManifestError::MediaType(_))));
        for media_type in [
            "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
            "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
        ] {
            let foreign = json!({
                "config": descriptor("c", "config"),
                "layers": [descriptor(media_type, "far")],
            });
            let error = parse(&foreign).unwrap_err().to_string();
            assert!(error.contains(media_type), "{error}");
        }
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        for text in [
            "",
            "null",
            "[]",
            "[2,null,null,null,[]]",
            "{}",
            "<html></html>",
            r#"{"config":{}}"#,
            r#"{"manifests":[{}]}"#,
            r#"{"manifests":[{"digest":"sha256:abc","size":1}]}"#,
            r#"{"manifests":[{"digest":"sha256:abc","size":-1}]}"#,
            r#"{"manifests":{}}"#,
        ] {
            assert!(Manifest::parse(text.as_bytes(), None).is_err(), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert!(Manifest::parse(deep.as_bytes(), None).is_err());
    }

    #[test]
    fn the_limits_hold() {
        let large = vec![b' '; MAX_DOCUMENT + 1];
        assert!(matches!(
            Manifest::parse(&large, None),
            Err(ManifestError::TooLarge { .. })
        ));
        let layers = vec![descriptor(LAYER, "layer"); MAX_LAYERS + 1];
        let image = json!({"config": descriptor("c", "config"), "layers": layers});
        assert!(matches!(
            parse(&image),
            Err(ManifestError::TooManyLayers(513))
        ));
        let index = json!({"manifests": vec![descriptor(OCI_MANIFEST, "image"); MAX_ENTRIES + 1]});
        assert!(matches!(
            parse(&index),
            Err(ManifestError::TooManyEntries(4097))
        ));
    }
}
