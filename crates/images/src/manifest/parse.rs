//! Reading manifests and indexes.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::manifest::descriptor::{
    DOCKER_LIST, DOCKER_MANIFEST, DOCKER_SCHEMA_1, Descriptor, MAX_DOCUMENT, MAX_ENTRIES,
    MAX_LAYERS, OCI_INDEX, OCI_MANIFEST,
};
use crate::manifest::error::ManifestError;
use crate::manifest::index::{Index, IndexEntry};
use crate::manifest::json::{cut, null_as_default, object, texts};
use crate::platform::Platform;

/// A manifest of one image, or an index of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manifest {
    /// One image.
    Image(ImageManifest),
    /// One image for each platform.
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

impl Manifest {
    /// Parses a manifest of at most 4 MiB. `media_type` comes from outside the
    /// document (a `Content-Type`, a descriptor) and only improves an error.
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

/// The fields of a manifest or index that are read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    schema_version: Option<i64>,
    media_type: Option<String>,
    config: Option<RawDescriptor>,
    layers: Option<Vec<RawDescriptor>>,
    manifests: Option<Vec<RawEntry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDescriptor {
    #[serde(default, deserialize_with = "null_as_default")]
    media_type: String,
    digest: String,
    size: u64,
}

#[derive(Deserialize)]
struct RawEntry {
    #[serde(flatten)]
    descriptor: RawDescriptor,
    platform: Option<RawPlatform>,
    #[serde(default, deserialize_with = "texts")]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct RawPlatform {
    #[serde(default, deserialize_with = "null_as_default")]
    os: String,
    #[serde(default, deserialize_with = "null_as_default")]
    architecture: String,
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
            Ok(IndexEntry {
                descriptor: entry.descriptor.into_descriptor()?,
                platform: entry.platform.map(|platform| Platform {
                    os: platform.os,
                    architecture: platform.architecture,
                    variant: platform.variant.filter(|variant| !variant.is_empty()),
                }),
                annotations: entry.annotations,
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
