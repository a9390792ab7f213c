//! The slim image of a catalog: one layer with its files.
//!
//! The same content gives the same bytes on every machine: there are no dates
//! and no owners, modes and order are fixed, and one thread compresses with
//! settings that depend on nothing.

use std::io::{self, Write};

use flate2::{Compression, GzBuilder};
use serde::Serialize;

use crate::ingest::error::Cause;
use crate::snapshot::Snapshot;
use crate::store::{BlobPin, Image, ImageBlob, ImageKind, ImageManifest, NewBlob, Store};
use ::images::CONFIGS_LABEL;
use ::images::digest::{Digest, Hasher};
use ::images::manifest::OCI_MANIFEST;

/// The catalog folder in the image, as its label has it.
const FOLDER: &str = "configs";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// How hard the layer is compressed: the usual trade.
const LEVEL: u32 = 6;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest<'a> {
    schema_version: u32,
    media_type: &'a str,
    config: Descriptor<'a>,
    layers: [Descriptor<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor<'a> {
    media_type: &'a str,
    digest: Digest,
    size: u64,
}

/// An image configuration. There is nothing in the image that runs, so its
/// platform is no matter; a fixed one keeps the digest the same everywhere.
#[derive(Serialize)]
struct Config<'a> {
    architecture: &'a str,
    os: &'a str,
    #[serde(rename = "config")]
    runtime: Runtime,
    rootfs: RootFs<'a>,
}

#[derive(Serialize)]
struct Runtime {
    #[serde(rename = "Labels")]
    labels: std::collections::BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
struct RootFs<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    diff_ids: [Digest; 1],
}

/// Makes the blobs of the image of a snapshot, and says what it is. Memory does
/// not grow with the catalog.
pub(super) fn make(
    store: &Store,
    snapshot: &Snapshot,
    tags: &[String],
) -> Result<(Image, Vec<BlobPin>), Cause> {
    let (layer, layer_size, archive) = layer(store, snapshot)?;
    let labels = [(CONFIGS_LABEL, format!("/{FOLDER}"))];
    let config = Config {
        architecture: "amd64",
        os: "linux",
        runtime: Runtime {
            labels: labels.into(),
        },
        rootfs: RootFs {
            kind: "layers",
            diff_ids: [archive],
        },
    };
    let (config, config_size) = document(store, &config)?;
    let manifest = Manifest {
        schema_version: 2,
        media_type: OCI_MANIFEST,
        config: Descriptor {
            media_type: CONFIG,
            digest: config.digest(),
            size: config_size,
        },
        layers: [Descriptor {
            media_type: LAYER,
            digest: layer.digest(),
            size: layer_size,
        }],
    };
    let (manifest, manifest_size) = document(store, &manifest)?;
    let image = Image {
        kind: ImageKind::Slim,
        origin: None,
        tags: tags
            .iter()
            .map(|tag| (tag.clone(), manifest.digest()))
            .collect(),
        manifests: vec![ImageManifest {
            digest: manifest.digest(),
            media_type: OCI_MANIFEST.into(),
            size: manifest_size,
            referrer: None,
            attached: false,
        }],
        blobs: vec![
            ImageBlob {
                digest: config.digest(),
                size: config_size,
            },
            ImageBlob {
                digest: layer.digest(),
                size: layer_size,
            },
        ],
    };
    Ok((image, vec![manifest, config, layer]))
}

/// Writes the layer; the digest is that of its archive before compression.
fn layer(store: &Store, snapshot: &Snapshot) -> Result<(BlobPin, u64, Digest), Cause> {
    let blob = store.contents().new_blob()?;
    // No date, and no name of a system.
    let gzip = GzBuilder::new().mtime(0).operating_system(255).write(
        io::BufWriter::with_capacity(1 << 18, blob),
        Compression::new(LEVEL),
    );
    let mut archive = tar::Builder::new(Hashing {
        inner: gzip,
        hasher: Hasher::default(),
    });
    folder(&mut archive, &format!("{FOLDER}/"))?;
    for (path, content) in snapshot.files() {
        if let Some((parent, _)) = path.split_once('/') {
            folder(&mut archive, &format!("{FOLDER}/{parent}/"))?;
        }
        let mut header = header(tar::EntryType::Regular, 0o644);
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, format!("{FOLDER}/{path}"), &content[..])?;
    }
    let Hashing { inner, hasher } = archive.into_inner()?;
    let blob: NewBlob = inner
        .finish()?
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    let size = blob.size();
    Ok((blob.finish()?, size, hasher.finish()))
}

fn folder<W: Write>(archive: &mut tar::Builder<W>, path: &str) -> io::Result<()> {
    let mut header = header(tar::EntryType::Directory, 0o755);
    header.set_size(0);
    archive.append_data(&mut header, path, io::empty())
}

fn header(kind: tar::EntryType, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

/// Writes a document as a blob, with its size.
fn document(store: &Store, document: &impl Serialize) -> Result<(BlobPin, u64), Cause> {
    let bytes = serde_json::to_vec(document).map_err(io::Error::from)?;
    let mut blob = store.contents().new_blob()?;
    blob.write_all(&bytes)?;
    Ok((blob.finish()?, bytes.len() as u64))
}

/// Takes the digest of what passes through.
struct Hashing<W> {
    inner: W,
    hasher: Hasher,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
