//! The slim image of a catalog: one layer with its files.
//!
//! The same content gives the same bytes on every machine: dates, owners, modes
//! and order are fixed, and one thread compresses with fixed settings.

use std::io::{self, Write};

use flate2::{Compression, GzBuilder};

use crate::ingest::error::Cause;
use crate::ingest::labels::CONFIGS_LABEL;
use crate::snapshot::Snapshot;
use crate::store::{BlobPin, Image, ImageBlob, ImageKind, ImageManifest, NewBlob, Store};
use ::images::digest::{Digest, Hasher};
use ::images::document;
use ::images::manifest::{OCI_CONFIG, OCI_LAYER_GZIP, OCI_MANIFEST};
use ::images::{Descriptor, Platform};

/// The catalog folder in the image, which its label names.
const FOLDER: &str = "configs";
/// The compression level of the layer, gzip's default.
const LEVEL: u32 = 6;

/// Makes the blobs of a snapshot's image, and returns its record. Memory does not
/// grow with the catalog.
pub(super) fn make(
    store: &Store,
    snapshot: &Snapshot,
    tags: &[String],
) -> Result<(Image, Vec<BlobPin>), Cause> {
    let (layer, layer_size, archive) = layer(store, snapshot)?;
    // Nothing in the image runs, so any platform would do. A fixed one keeps
    // the digest the same everywhere.
    let platform = Platform::default();
    let label = format!("/{FOLDER}");
    let config = document::image_config(&platform, (CONFIGS_LABEL, &label), &[archive]);
    let config = config.map_err(no_document)?;
    let (config, config_size) = write_document(store, &config)?;
    let described = |media_type: &str, digest, size| Descriptor {
        media_type: media_type.into(),
        digest,
        size,
    };
    let manifest = document::image_manifest(
        &described(OCI_CONFIG, config.digest(), config_size),
        &[described(OCI_LAYER_GZIP, layer.digest(), layer_size)],
    );
    let manifest = manifest.map_err(no_document)?;
    let (manifest, manifest_size) = write_document(store, &manifest)?;
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
        signed: None,
    };
    Ok((image, vec![manifest, config, layer]))
}

/// Writes the layer. The digest is of its archive before compression.
fn layer(store: &Store, snapshot: &Snapshot) -> Result<(BlobPin, u64, Digest), Cause> {
    let blob = store.contents().new_blob()?;
    // No date, and no operating system.
    let gzip = GzBuilder::new().mtime(0).operating_system(255).write(
        io::BufWriter::with_capacity(1 << 18, blob),
        Compression::new(LEVEL),
    );
    let mut archive = tar::Builder::new(Hashing {
        inner: gzip,
        hasher: Hasher::default(),
    });
    folder(&mut archive, &format!("{FOLDER}/")).map_err(Cause::WriteImage)?;
    let mut crc = crc32fast::Hasher::new();
    for (path, content) in snapshot.files() {
        crc.update(&content);
        if let Some((parent, _)) = path.split_once('/') {
            folder(&mut archive, &format!("{FOLDER}/{parent}/")).map_err(Cause::WriteImage)?;
        }
        let mut header = header(tar::EntryType::Regular, 0o644);
        header.set_size(content.len() as u64);
        archive
            .append_data(&mut header, format!("{FOLDER}/{path}"), &content[..])
            .map_err(Cause::WriteImage)?;
    }
    if crc.finalize() != snapshot.decoded().crc {
        let problem = "the lines of the catalog are damaged";
        return Err(Cause::ReadImage(io::Error::other(problem)));
    }
    let Hashing { inner, hasher } = archive.into_inner().map_err(Cause::WriteImage)?;
    let blob: NewBlob = inner
        .finish()
        .and_then(|buffer| buffer.into_inner().map_err(io::IntoInnerError::into_error))
        .map_err(Cause::WriteImage)?;
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

fn no_document(error: document::DocumentError) -> Cause {
    Cause::WriteImage(io::Error::other(error))
}

/// Writes a document as a blob, with its size.
pub(super) fn write_document(store: &Store, bytes: &[u8]) -> Result<(BlobPin, u64), Cause> {
    let mut blob = store.contents().new_blob()?;
    blob.write_all(bytes).map_err(Cause::WriteImage)?;
    Ok((blob.finish()?, bytes.len() as u64))
}

/// Hashes the bytes that are written.
struct Hashing<W> {
    inner: W,
    hasher: Hasher,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
