//! Reading an archive: all of it is verified before anything is taken.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::check::check;
use super::export::index;
use super::{
    ArchiveError, BLOBS, CarriedRevision, FORMAT, INDEX, LAYOUT, LAYOUT_TEXT, MARKER, MAX_DOCUMENT,
    Marker, Metadata, Progress,
};
use crate::digest::{Digest, Hasher};
use crate::ingest::files;
use crate::ingest::legacy;
use crate::ingest::pass::{Written, write_revision};
use crate::ingest::{OnInvalid, PassError, Stage};
use crate::name::CatalogName;
use crate::oci::{ImageConfig, Manifest, Platform};
use crate::store::{
    BlobPin, CacheLimits, Counts, Finished, Image, ImageKind, Import, LAST_SECOND, NewRevision,
    RevisionId, SearchRow, Store,
};
use crate::unpack::Limits;

/// What became of a catalog of an archive.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The catalog.
    pub catalog: CatalogName,
    /// Its revision here.
    pub revision: RevisionId,
    /// The number that this had where it comes from.
    pub there: RevisionId,
    /// What was done.
    pub outcome: Outcome,
}

/// What was done with a catalog of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was not here before, or something else was.
    Taken,
    /// It was here already.
    Unchanged,
}

/// What is read of an archive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// As far as the metadata.
    Metadata,
    /// All of it.
    Whole,
}

/// An archive that was read.
struct Scanned {
    metadata: Metadata,
    /// The blobs, all good, with their sizes.
    blobs: BTreeMap<Digest, u64>,
}

/// Takes the catalogs of an archive into a data folder, all of them or none.
/// No almanac may run on it. `older` says that a catalog may go back to what
/// it was before what is there now.
pub async fn import(
    archive: &Path,
    data: &Path,
    limits: &Limits,
    older: bool,
    progress: &Progress,
) -> Result<Vec<Imported>, ArchiveError> {
    let scanned = {
        let (archive, progress) = (archive.to_owned(), progress.clone());
        blocking(move || scan(&archive, Depth::Whole, &progress)).await?
    };
    let store = Store::open_with(data, CacheLimits::NOTHING).await?;
    let taken = match fresh(archive, &store, scanned.metadata, older).await {
        Ok(fresh) => take(archive, &store, fresh, scanned.blobs, limits, progress).await,
        Err(error) => Err(error),
    };
    // What was brought and is not named goes.
    let swept = store.tidy_blobs().await;
    store.close().await;
    let imported = taken?;
    swept?;
    Ok(imported)
}

/// The catalogs of an archive: those that are here already, and the others.
struct Fresh {
    here: Vec<Imported>,
    new: Vec<CarriedRevision>,
}

/// Tells what is here already from what is not.
async fn fresh(
    archive: &Path,
    store: &Store,
    metadata: Metadata,
    older: bool,
) -> Result<Fresh, ArchiveError> {
    let (mut here, mut new) = (Vec::new(), Vec::new());
    for carried in metadata.catalogs {
        let Some(current) = store.current(&carried.catalog).await? else {
            new.push(carried);
            continue;
        };
        let committed = time(carried.committed);
        if current.digest == carried.digest
            && current.content == carried.content
            && current.source == carried.source
            && current.modified == time(carried.modified)
            && current.committed == committed
            && store.image(current.id).await?.as_ref() == Some(&carried.image)
        {
            here.push(Imported {
                catalog: carried.catalog,
                revision: current.id,
                there: carried.id,
                outcome: Outcome::Unchanged,
            });
            continue;
        }
        // What a catalog holds is all that could be lost.
        if committed < current.committed && current.content != carried.content && !older {
            return Err(ArchiveError::Older {
                path: archive.to_owned(),
                catalog: carried.catalog,
                theirs: date(committed),
                ours: date(current.committed),
            });
        }
        new.push(carried);
    }
    Ok(Fresh { here, new })
}

async fn take(
    archive: &Path,
    store: &Store,
    fresh: Fresh,
    blobs: BTreeMap<Digest, u64>,
    limits: &Limits,
    progress: &Progress,
) -> Result<Vec<Imported>, ArchiveError> {
    let Fresh {
        here: mut imported,
        new,
    } = fresh;
    let (work, at) = (store.clone(), archive.to_owned());
    let (limits, told) = (limits.clone(), progress.clone());
    let (new, written, pins) = blocking(move || {
        let pins = bring(&at, &work, &new, &blobs, &told)?;
        let mut written = Vec::with_capacity(new.len());
        let sizes = || new.iter().map(|carried| size(&carried.image));
        let (mut done, total) = (0, sizes().sum());
        for (carried, size) in new.iter().zip(sizes()) {
            told.at("reading", done, total)?;
            // About half of the time goes into each of the two.
            let unpacked = || told.at("reading", done + size / 2, total);
            written.push(read(&work, carried, &limits, unpacked)?);
            done += size;
        }
        told.at("reading", total, total)?;
        Ok((new, written, pins))
    })
    .await?;
    let (finished, rest): (Vec<_>, Vec<_>) = written.into_iter().unzip();
    let imports = new.iter().zip(finished).zip(&rest);
    let imports = imports.map(|((carried, finished), rest)| Import {
        finished,
        new: NewRevision {
            catalog: &carried.catalog,
            source: carried.source.clone(),
            digest: carried.digest,
            counts: rest.0,
            blobs: &[],
            problems: &carried.problems,
            search: &rest.1,
        },
        id: carried.id,
        modified: time(carried.modified),
        committed: time(carried.committed),
        image: &carried.image,
    });
    let revisions = store.import(imports.collect()).await?;
    drop(pins);
    for (revision, carried) in revisions.into_iter().zip(&new) {
        store.retire(&revision).await?;
        imported.push(Imported {
            catalog: revision.catalog,
            revision: revision.id,
            there: carried.id,
            outcome: Outcome::Taken,
        });
    }
    imported.sort_by(|a, b| a.catalog.cmp(&b.catalog));
    Ok(imported)
}

/// Brings the blobs of revisions from the archive, or sees to it that the
/// store has them. They stay as long as the pins live.
fn bring(
    archive: &Path,
    store: &Store,
    new: &[CarriedRevision],
    blobs: &BTreeMap<Digest, u64>,
    progress: &Progress,
) -> Result<Vec<BlobPin>, ArchiveError> {
    let mut pins = Vec::new();
    let mut wanted = BTreeMap::new();
    for carried in new {
        for part in carried.image.parts() {
            pins.push(store.pin(part.digest));
            let missing = || ArchiveError::Missing {
                path: archive.to_owned(),
                digest: part.digest,
                catalog: carried.catalog.clone(),
            };
            if store.blob(&part.digest).is_some_and(|path| {
                // What lies on a disk for months can rot.
                File::open(path).is_ok_and(|file| digest_of(file).ok() == Some(part.digest))
            }) {
                continue;
            }
            match blobs.get(&part.digest) {
                Some(size) if *size == part.size => wanted.insert(part.digest, part.size),
                _ => return Err(missing()),
            };
        }
    }
    let total: u64 = wanted.values().sum();
    let mut done = 0;
    let mut reader = open(archive)?;
    for entry in reader
        .entries()
        .map_err(ArchiveError::io("read", archive))?
    {
        let mut entry = entry.map_err(ArchiveError::io("read", archive))?;
        let name = name_of(&entry);
        let digest = name.strip_prefix(BLOBS).and_then(digest_named);
        let Some(digest) = digest.filter(|digest| wanted.contains_key(digest)) else {
            continue;
        };
        wanted.remove(&digest);
        let mut writer = store.write_blob(digest)?;
        let mut hasher = Hasher::default();
        pieces(&mut entry, archive, |piece| {
            hasher.update(piece);
            done += piece.len() as u64;
            progress.at("importing", done, total)?;
            Ok(writer.write(piece)?)
        })?;
        // It may have been changed since it was verified.
        let actual = hasher.finish();
        if actual != digest {
            return Err(damaged(archive, digest, actual));
        }
        writer.finish()?;
    }
    if let Some((digest, _)) = wanted.first_key_value() {
        return Err(no_archive(archive, format!("{digest} is gone from it")));
    }
    Ok(pins)
}

/// The bytes of an image.
fn size(image: &Image) -> u64 {
    image.parts().map(|part| part.size).sum()
}

/// Reads a catalog whose blobs are in the store, and sees to it that it is the
/// one that was exported. `unpacked` is told when its files are there.
fn read(
    store: &Store,
    carried: &CarriedRevision,
    limits: &Limits,
    unpacked: impl FnOnce() -> Result<(), ArchiveError>,
) -> Result<(Finished, (Counts, Vec<SearchRow>)), ArchiveError> {
    let refused = |problem: String| ArchiveError::Catalog {
        catalog: carried.catalog.clone(),
        problem,
    };
    let failed = |source: PassError| ArchiveError::Pass {
        catalog: carried.catalog.clone(),
        source: Box::new(source),
    };
    let document = |digest: &Digest| {
        let path = store.blob(digest);
        let bytes = path.and_then(|path| std::fs::read(path).ok());
        bytes.ok_or_else(|| refused(format!("{digest} cannot be read")))
    };
    let top = match carried.image.kind {
        ImageKind::Full => carried.digest,
        ImageKind::Slim => {
            let mut tags = carried.image.tags.values();
            let first = tags.next().copied();
            first.ok_or_else(|| refused("its image has no tag".into()))?
        }
    };
    let parse = |digest: &Digest| {
        let bytes = document(digest)?;
        Manifest::parse(&bytes, None).map_err(|error| refused(format!("{digest}: {error}")))
    };
    let image = match parse(&top)? {
        Manifest::Image(image) => image,
        Manifest::Index(index) => {
            let platform = carried.source.rsplit_once(' ').map(|(_, text)| text);
            let platform: Option<Platform> = platform.and_then(|text| text.parse().ok());
            let chosen = index
                .select(&platform.unwrap_or_default())
                .map_err(|error| refused(error.to_string()))?;
            match parse(&chosen.digest)? {
                Manifest::Image(image) => image,
                Manifest::Index(_) => return Err(refused("an index lies in an index".into())),
            }
        }
    };
    let config = ImageConfig::parse(&document(&image.config.digest)?)
        .map_err(|error| refused(error.to_string()))?;
    let folder = config
        .catalog_label()
        .ok_or_else(|| refused("its image does not say where the catalog lies".into()))?;
    let mut layers = Vec::with_capacity(image.layers.len());
    for layer in image.layers {
        let path = store.blob(&layer.digest);
        let path = path.ok_or_else(|| refused(format!("{} is missing", layer.digest)))?;
        layers.push((layer, path));
    }
    let no_files = |error| failed(PassError::at(Stage::Unpack)(error));
    let temporary = store.temporary();
    let files = files::of_image(&layers, 0, folder, limits, &temporary).map_err(no_files)?;
    // This runs on a thread that may wait.
    let migrated = legacy::migrated(files, &temporary, limits);
    let files = tokio::runtime::Handle::current()
        .block_on(migrated)
        .map_err(no_files)?;
    unpacked()?;
    let written = write_revision(store, &carried.catalog, files, OnInvalid::Quarantine);
    let Written {
        finished,
        counts,
        search,
        ..
    } = written.map_err(failed)?;
    if finished.content != carried.content {
        return Err(refused(format!(
            "its content has the digest {} and not {}",
            finished.content, carried.content
        )));
    }
    Ok((finished, (counts, search)))
}

/// The metadata of an archive, verified.
pub(super) fn read_metadata(path: &Path, progress: &Progress) -> Result<Metadata, ArchiveError> {
    Ok(scan(path, Depth::Metadata, progress)?.metadata)
}

/// Goes through an archive and verifies what is in it.
fn scan(path: &Path, depth: Depth, progress: &Progress) -> Result<Scanned, ArchiveError> {
    let read = || ArchiveError::io("read", path);
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
            return Err(no_archive(path, "it has something else than files".into()));
        }
        let name = name_of(&entry);
        let size = entry.size();
        let Some(known) = &marker else {
            match name.as_str() {
                LAYOUT if is_file => {
                    let text = small(&mut entry, path)?;
                    if text != LAYOUT_TEXT.as_bytes() {
                        return Err(foreign(path));
                    }
                }
                MARKER if is_file => {
                    marker = Some(read_marker(&small(&mut entry, path)?, path)?);
                }
                _ => return Err(foreign(path)),
            }
            continue;
        };
        if name == INDEX {
            listed = Some(small(&mut entry, path)?);
            continue;
        }
        let digest = name.strip_prefix(BLOBS).and_then(digest_named);
        let digest = digest.ok_or_else(|| {
            let shown: String = name.chars().take(200).collect();
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
            let parsed = serde_json::from_slice(&kept);
            let parsed: Metadata =
                parsed.map_err(|error| no_archive(path, format!("its metadata: {error}")))?;
            check(&parsed).map_err(|problem| no_archive(path, problem))?;
            let index = index(&parsed).to_string().into_bytes();
            if listed.as_ref() != Some(&index) {
                return Err(no_archive(path, format!("{INDEX} is damaged")));
            }
            metadata = Some(parsed);
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

fn read_marker(bytes: &[u8], path: &Path) -> Result<Marker, ArchiveError> {
    /// What every format has.
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
            version: any.version.chars().take(100).collect(),
        });
    }
    serde_json::from_slice(bytes).map_err(broken)
}

/// Sees to it that a file is a tar, which says so in its first block.
fn check_kind(path: &Path) -> Result<(), ArchiveError> {
    const MAGIC: std::ops::Range<usize> = 257..262;
    let read = || ArchiveError::io("read", path);
    let file = File::open(path).map_err(ArchiveError::io("open", path))?;
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
        let problem = "it is no tar, or cut or damaged at its beginning";
        return Err(no_archive(path, problem.into()));
    }
    Ok(())
}

/// A tar that something else has written.
fn foreign(path: &Path) -> ArchiveError {
    let problem = "it is a tar, but not what `almanac export` writes; an image in an archive is no \
                   import but a source of a catalog, as in source = \"oci-archive:FILE\"";
    no_archive(path, problem.into())
}

fn open(path: &Path) -> Result<tar::Archive<BufReader<File>>, ArchiveError> {
    let file = File::open(path).map_err(ArchiveError::io("open", path))?;
    Ok(tar::Archive::new(BufReader::with_capacity(1 << 20, file)))
}

/// The name of an entry; nothing is made of it but a comparison.
fn name_of<R: Read>(entry: &tar::Entry<'_, R>) -> String {
    String::from_utf8_lossy(&entry.path_bytes()).into_owned()
}

fn digest_named(hex: &str) -> Option<Digest> {
    format!("sha256:{hex}").parse().ok()
}

/// A document of at most 4 MiB, and more only for the index of many images.
fn small(reader: &mut impl Read, path: &Path) -> Result<Vec<u8>, ArchiveError> {
    const MAX: u64 = 64 << 20;
    let mut bytes = Vec::new();
    let read = reader.take(MAX + 1).read_to_end(&mut bytes);
    read.map_err(ArchiveError::io("read", path))?;
    if bytes.len() as u64 > MAX {
        return Err(no_archive(path, "a document in it is too large".into()));
    }
    Ok(bytes)
}

/// Hands on what a reader gives, piece by piece.
fn pieces(
    reader: &mut impl Read,
    path: &Path,
    mut take: impl FnMut(&[u8]) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let mut buffer = vec![0; 256 << 10];
    loop {
        let read = reader
            .read(&mut buffer)
            .map_err(ArchiveError::io("read", path))?;
        if read == 0 {
            return Ok(());
        }
        take(buffer.get(..read).unwrap_or_default())?;
    }
}

fn digest_of(mut file: File) -> io::Result<Digest> {
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; 256 << 10];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(hasher.finish());
        }
        hasher.update(buffer.get(..read).unwrap_or_default());
    }
}

fn damaged(path: &Path, digest: Digest, actual: Digest) -> ArchiveError {
    ArchiveError::Damaged {
        path: path.to_owned(),
        digest,
        actual,
    }
}

fn no_archive(path: &Path, problem: String) -> ArchiveError {
    ArchiveError::NoArchive {
        path: path.to_owned(),
        problem,
    }
}

fn time(seconds: u64) -> SystemTime {
    // What was read is no date that is too far.
    UNIX_EPOCH + Duration::from_secs(seconds.min(LAST_SECOND))
}

/// A date as RFC 3339 has it.
fn date(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

/// Runs work that takes the processor and the disk on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ArchiveError> + Send + 'static,
) -> Result<T, ArchiveError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| {
        ArchiveError::io("read", &PathBuf::from("an archive"))(io::Error::other(error))
    })?
}
