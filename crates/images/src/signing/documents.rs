//! The documents of a signature, as cosign writes them: a manifest with one
//! layer for each name of the image.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;

use crate::digest::Digest;
use crate::manifest::{OCI_CONFIG, OCI_MANIFEST};
use crate::signatures::payload::Payload;
use crate::signatures::sigstore::signature::{PAYLOAD, SIGNATURE};
use crate::signing::key::SigningKey;

/// A manifest with the signatures of one image, and its blobs.
#[derive(Clone, Debug)]
pub struct SignatureDocuments {
    /// The manifest.
    pub manifest: Vec<u8>,
    /// The configuration and the payloads.
    pub blobs: Vec<Vec<u8>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ManifestJson {
    schema_version: u8,
    media_type: &'static str,
    config: DescriptorJson,
    layers: Vec<DescriptorJson>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DescriptorJson {
    media_type: &'static str,
    size: u64,
    digest: Digest,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
struct ConfigJson {
    architecture: &'static str,
    os: &'static str,
    config: BTreeMap<String, String>,
    rootfs: RootFs,
}

#[derive(Serialize)]
struct RootFs {
    #[serde(rename = "type")]
    kind: &'static str,
    diff_ids: Vec<Digest>,
}

/// The tag under which the signatures of an image are stored.
pub fn signature_tag(image: &Digest) -> String {
    format!("sha256-{}.sig", image.hex())
}

impl SignatureDocuments {
    /// Signs the image with this digest under each of the names.
    pub fn sign(key: &SigningKey, image: &Digest, names: &[String]) -> Result<Self, String> {
        let mut layers = Vec::new();
        let mut blobs = Vec::new();
        for name in names {
            let payload = Payload {
                digest: *image,
                name: name.clone(),
            };
            let payload = payload.document().map_err(|error| error.to_string())?;
            let signature = BASE64_STANDARD.encode(key.sign(&payload)?);
            let mut layer = DescriptorJson::new(PAYLOAD, &payload);
            layer.annotations.insert(SIGNATURE, signature);
            layers.push(layer);
            blobs.push(payload);
        }
        let config = serde_json::to_vec(&ConfigJson {
            architecture: "",
            os: "",
            config: BTreeMap::new(),
            rootfs: RootFs {
                kind: "layers",
                diff_ids: layers.iter().map(|layer| layer.digest).collect(),
            },
        });
        let config = config.map_err(|error| error.to_string())?;
        let manifest = serde_json::to_vec(&ManifestJson {
            schema_version: 2,
            media_type: OCI_MANIFEST,
            config: DescriptorJson::new(OCI_CONFIG, &config),
            layers,
        });
        blobs.push(config);
        Ok(Self {
            manifest: manifest.map_err(|error| error.to_string())?,
            blobs,
        })
    }
}

impl DescriptorJson {
    fn new(media_type: &'static str, content: &[u8]) -> Self {
        Self {
            media_type,
            size: content.len() as u64,
            digest: Digest::of(content),
            annotations: BTreeMap::new(),
        }
    }
}
