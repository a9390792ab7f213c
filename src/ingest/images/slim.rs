//! The slim image of a catalog: one layer with its files.
//!
//! The same content gives the same bytes on every machine: dates, owners, modes
//! and order are fixed, and so are the groups that are compressed together. Those of
//! `all.gz` and of earlier revisions are copied.

use std::io::{self, Write};

use crate::ingest::error::Cause;
use crate::ingest::labels::CONFIGS_LABEL;
use crate::snapshot::Snapshot;
use crate::store::{
    BlobPin, GroupedGzip, Image, ImageBlob, ImageKind, ImageManifest, NewBlob, Store,
};
use ::images::digest::{Digest, Hasher};
use ::images::document;
use ::images::manifest::{OCI_CONFIG, OCI_LAYER_GZIP, OCI_MANIFEST};
use ::images::{Descriptor, Platform};

/// The catalog folder in the image, which its label names.
const FOLDER: &str = "configs";
/// Bytes of a block of an archive.
const BLOCK: u64 = 512;

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
        left_out: Vec::new(),
    };
    Ok((image, vec![manifest, config, layer]))
}

/// Writes the layer. The digest is of its archive before compression.
fn layer(store: &Store, snapshot: &Snapshot) -> Result<(BlobPin, u64, Digest), Cause> {
    let blob = io::BufWriter::with_capacity(1 << 18, store.contents().new_blob()?);
    let gzip = GroupedGzip::new(blob, snapshot.known_groups()).map_err(Cause::WriteImage)?;
    let mut archive = tar::Builder::new(SlimLayer {
        gzip,
        hasher: Hasher::default(),
        between: Vec::new(),
    });
    folder(&mut archive, &format!("{FOLDER}/")).map_err(Cause::WriteImage)?;
    let mut groups = snapshot.groups().into_iter();
    let mut crc = crc32fast::Hasher::new();
    for (path, content) in snapshot.files() {
        if let Some((parent, _)) = path.split_once('/') {
            folder(&mut archive, &format!("{FOLDER}/{parent}/")).map_err(Cause::WriteImage)?;
        }
        let mut header = header(tar::EntryType::Regular, 0o644);
        header.set_size(content.len() as u64);
        // The header alone. The content follows in its groups, none of which is in two files.
        archive
            .append_data(&mut header, format!("{FOLDER}/{path}"), io::empty())
            .map_err(Cause::WriteImage)?;
        let (layer, mut rest) = (archive.get_mut(), content.len());
        while rest > 0
            && let Some(group) = groups.next()
        {
            let of_group = layer.group(&group).map_err(Cause::WriteImage)?;
            crc.combine(&of_group);
            rest = rest.saturating_sub(group.len());
        }
        layer.pad(content.len() as u64);
    }
    if crc.finalize() != snapshot.decoded().crc {
        let problem = "the lines of the catalog are damaged";
        return Err(Cause::ReadImage(io::Error::other(problem)));
    }
    let finished = archive.into_inner().and_then(SlimLayer::finish);
    let (blob, archive) = finished.map_err(Cause::WriteImage)?;
    let size = blob.size();
    Ok((blob.finish()?, size, archive))
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

/// A layer that is being written: groups of lines, and what an archive has between
/// them.
struct SlimLayer {
    gzip: GroupedGzip<io::BufWriter<NewBlob>>,
    /// Of the archive.
    hasher: Hasher,
    /// Bytes between the last group and the next one.
    between: Vec<u8>,
}

impl SlimLayer {
    /// Appends a group of lines and returns its CRC-32.
    fn group(&mut self, lines: &[u8]) -> io::Result<crc32fast::Hasher> {
        self.close()?;
        let crc = self.append(lines)?;
        let length = lines.len() as u64;
        Ok(crc32fast::Hasher::new_with_initial_len(crc, length))
    }

    /// Fills the last block of a file of this size.
    fn pad(&mut self, size: u64) {
        let padding = size.next_multiple_of(BLOCK) - size;
        self.between.extend((0..padding).map(|_| 0));
    }

    fn close(&mut self) -> io::Result<()> {
        if !self.between.is_empty() {
            let between = std::mem::take(&mut self.between);
            self.append(&between)?;
            self.between = between;
            self.between.clear();
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<u32> {
        self.hasher.update(bytes);
        let crc = self.gzip.append(bytes, || true)?;
        // It never ends early.
        crc.ok_or_else(|| io::ErrorKind::Interrupted.into())
    }

    /// The blob, and the digest of the archive.
    fn finish(mut self) -> io::Result<(NewBlob, Digest)> {
        self.close()?;
        let (blob, _) = self.gzip.finish()?;
        let blob = blob.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok((blob, self.hasher.finish()))
    }
}

impl Write for SlimLayer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.between.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
