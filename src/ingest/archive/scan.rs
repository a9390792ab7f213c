//! Reading an archive: each file is verified against its digest, and the metadata
//! are parsed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use crate::ingest::archive::error::ArchiveError;
use crate::ingest::archive::metadata::{
    BLOBS, FORMAT, INDEX, LAYOUT, LAYOUT_TEXT, MARKER, MAX_DOCUMENT, Marker, Metadata, check, index,
};
use crate::ingest::archive::progress::Progress;
use crate::store::DiskError;
use ::images::digest::{Digest, Hasher};
use ::images::document;
use fbc::text::display::clip;

/// How much of an archive is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Up to the metadata.
    Metadata,
    /// All of it.
    Whole,
}

/// An archive that was read.
pub(super) struct Scanned {
    pub(super) metadata: Metadata,
    /// The blobs, verified, with their sizes.
    pub(super) blobs: BTreeMap<Digest, u64>,
}

/// The metadata of an archive, verified.
pub(super) fn read_metadata(path: &Path, progress: &Progress) -> Result<Metadata, ArchiveError> {
    Ok(scan(path, Depth::Metadata, progress)?.metadata)
}

/// Reads an archive and verifies it.
pub(super) fn scan(
    path: &Path,
    depth: Depth,
    progress: &Progress,
) -> Result<Scanned, ArchiveError> {
    let read = || DiskError::at("read", path);
    let file = std::fs::metadata(path).map_err(read())?;
    if !file.is_file() {
        let problem = "it is read more than once, so it has to be a file: write it to one first";
        return Err(no_archive(path, problem.into()));
    }
    let total = file.len();
    check_kind(path)?;
    let mut archive = open(path)?;
    let mut marker: Option<Marker> = None;
    let mut metadata: Option<Metadata> = None;
    let mut listed = None;
    let mut blobs = BTreeMap::new();
    let mut done = 0;
    for entry in archive.entries().map_err(read())? {
        let broken = |error: io::Error| no_archive(path, format!("it is cut or damaged: {error}"));
        let mut entry = entry.map_err(broken)?;
        let is_file = entry.header().entry_type().is_file();
        if !is_file && marker.is_some() {
            return Err(no_archive(path, "it has entries that are not files".into()));
        }
        let name = name_of(&entry);
        let size = entry.size();
        let Some(known) = &marker else {
            if !is_file {
                return Err(foreign(path));
            }
            marker = read_beginning(&name, &mut entry, path)?;
            continue;
        };
        if name == INDEX {
            listed = Some(small(&mut entry, path)?);
            continue;
        }
        let digest = name.strip_prefix(BLOBS).and_then(digest_named);
        let digest = digest.ok_or_else(|| {
            let shown = clip(&name, 200);
            no_archive(path, format!("it has an unknown file {shown:?}"))
        })?;
        let wanted = digest == known.metadata;
        let mut kept = Vec::new();
        let mut hasher = Hasher::default();
        if wanted && size > MAX_DOCUMENT {
            return Err(no_archive(path, "its metadata are too large".into()));
        }
        pieces(&mut entry, path, |piece| {
            hasher.update(piece);
            done += piece.len() as u64;
            if wanted {
                kept.extend_from_slice(piece);
            }
            progress.at("verifying", done, total)
        })?;
        let actual = hasher.finish();
        if actual != digest {
            return Err(damaged(path, digest, actual));
        }
        if wanted {
            metadata = Some(parse_metadata(&kept, listed.as_ref(), path)?);
            if depth == Depth::Metadata {
                break;
            }
        } else {
            blobs.insert(digest, size);
        }
    }
    let metadata = metadata.ok_or_else(|| no_archive(path, "it has no metadata".into()))?;
    Ok(Scanned { metadata, blobs })
}

/// Reads a file before the blobs: the mark of a layout, or the marker of an archive.
fn read_beginning(
    name: &str,
    entry: &mut impl Read,
    path: &Path,
) -> Result<Option<Marker>, ArchiveError> {
    match name {
        LAYOUT if small(entry, path)? == LAYOUT_TEXT.as_bytes() => Ok(None),
        MARKER => read_marker(&small(entry, path)?, path).map(Some),
        _ => Err(foreign(path)),
    }
}

/// Parses the metadata, and compares the index of the layout with them.
fn parse_metadata(
    bytes: &[u8],
    listed: Option<&Vec<u8>>,
    path: &Path,
) -> Result<Metadata, ArchiveError> {
    let parsed = serde_json::from_slice(bytes);
    let parsed: Metadata =
        parsed.map_err(|error| no_archive(path, format!("its metadata: {error}")))?;
    check(&parsed).map_err(|problem| no_archive(path, problem))?;
    let index = document::image_index(&index(&parsed));
    if !index.is_ok_and(|index| listed == Some(&index)) {
        return Err(no_archive(path, format!("{INDEX} is damaged")));
    }
    Ok(parsed)
}

fn read_marker(bytes: &[u8], path: &Path) -> Result<Marker, ArchiveError> {
    /// The fields of every format.
    #[derive(serde::Deserialize)]
    struct Any {
        format: u32,
        #[serde(default)]
        version: String,
    }
    let broken = |error| no_archive(path, format!("{MARKER}: {error}"));
    let any: Any = serde_json::from_slice(bytes).map_err(broken)?;
    if any.format > FORMAT {
        return Err(ArchiveError::Newer {
            path: path.to_owned(),
            format: any.format,
            version: clip(&any.version, 100),
        });
    }
    serde_json::from_slice(bytes).map_err(broken)
}

/// Checks that a file is a tar, by its first block.
fn check_kind(path: &Path) -> Result<(), ArchiveError> {
    const MAGIC: std::ops::Range<usize> = 257..262;
    let read = || DiskError::at("read", path);
    let file = File::open(path).map_err(DiskError::at("open", path))?;
    let mut block = Vec::new();
    file.take(512).read_to_end(&mut block).map_err(read())?;
    let compressed: [(&[u8], &str); 4] = [
        (b"\x1f\x8b", "gunzip"),
        (b"\x28\xb5\x2f\xfd", "unzstd"),
        (b"\xfd7zXZ", "unxz"),
        (b"BZh", "bunzip2"),
    ];
    if let Some((_, tool)) = compressed
        .iter()
        .find(|(magic, _)| block.starts_with(magic))
    {
        let problem = format!("it is compressed; unpack it first, with {tool}");
        return Err(no_archive(path, problem));
    }
    if block.is_empty() {
        return Err(no_archive(path, "it is empty".into()));
    }
    if block.get(MAGIC) != Some(b"ustar") {
        let problem = "it is not a tar, or cut or damaged at its beginning";
        return Err(no_archive(path, problem.into()));
    }
    Ok(())
}

/// The error for a tar of another program.
fn foreign(path: &Path) -> ArchiveError {
    let problem = "it is a tar, but not what `almanac export` writes; an image in an archive is no \
                   import but a source of a catalog, as in source = \"oci-archive:FILE\"";
    no_archive(path, problem.into())
}

pub(super) fn open(path: &Path) -> Result<tar::Archive<BufReader<File>>, ArchiveError> {
    let file = File::open(path).map_err(DiskError::at("open", path))?;
    Ok(tar::Archive::new(BufReader::with_capacity(1 << 20, file)))
}

/// The name of an entry, only ever compared.
pub(super) fn name_of<R: Read>(entry: &tar::Entry<'_, R>) -> String {
    String::from_utf8_lossy(&entry.path_bytes()).into_owned()
}

pub(super) fn digest_named(hex: &str) -> Option<Digest> {
    format!("sha256:{hex}").parse().ok()
}

/// A document of at most 64 MiB: the index of many images may be large.
fn small(reader: &mut impl Read, path: &Path) -> Result<Vec<u8>, ArchiveError> {
    const MAX: u64 = 64 << 20;
    let mut bytes = Vec::new();
    let read = reader.take(MAX + 1).read_to_end(&mut bytes);
    read.map_err(DiskError::at("read", path))?;
    if bytes.len() as u64 > MAX {
        return Err(no_archive(path, "a document in it is too large".into()));
    }
    Ok(bytes)
}

/// Passes on the bytes of a reader, piece by piece.
pub(super) fn pieces(
    reader: &mut impl Read,
    path: &Path,
    mut take: impl FnMut(&[u8]) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let mut buffer = vec![0; 256 << 10];
    loop {
        let read = reader
            .read(&mut buffer)
            .map_err(DiskError::at("read", path))?;
        if read == 0 {
            return Ok(());
        }
        take(&buffer[..read])?;
    }
}

pub(super) fn damaged(path: &Path, digest: Digest, actual: Digest) -> ArchiveError {
    ArchiveError::Damaged {
        path: path.to_owned(),
        digest,
        actual,
    }
}

pub(super) fn no_archive(path: &Path, problem: String) -> ArchiveError {
    ArchiveError::NoArchive {
        path: path.to_owned(),
        problem,
    }
}
