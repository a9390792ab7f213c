//! Importing an archive: all of it is verified before anything changes.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::time::SystemTime;

use crate::answers::index::SearchRow;
use crate::fleet;
use crate::ingest::archive::error::ArchiveError;
use crate::ingest::archive::metadata::{BLOBS, CarriedRevision, MAX_OUTLINE, Metadata};
use crate::ingest::archive::progress::Progress;
use crate::ingest::archive::scan::{
    Depth, damaged, digest_named, name_of, no_archive, open, pieces, scan,
};
use crate::ingest::error::{PassError, Stage};
use crate::ingest::followed::OnInvalid;
use crate::ingest::labels::catalog_path;
use crate::ingest::pass::make_revision::write_revision;
use crate::ingest::read::files::ImageLayers;
use crate::ingest::read::sqlite;
use crate::ingest::stages::StageTracker;
use crate::name::CatalogName;
use crate::store::{
    BlobPin, CacheLimits, Counts, DiskError, Finished, Image, ImageKind, Import, NewRevision,
    OutlineName, RevisionId, SourceIdentity, Store, time_of_unix,
};
use ::images::digest::{Digest, Hasher};
use ::images::layers::Limits;
use ::images::{ImageConfig, ImageManifest, Manifest, Platform};

/// A catalog of an imported archive.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The catalog.
    pub catalog: CatalogName,
    /// Its revision here.
    pub revision: RevisionId,
    /// Its number on the other side.
    pub there: RevisionId,
    /// Its source and variant.
    pub identity: SourceIdentity,
    /// The number on the other side after which its history goes on, if that revision is
    /// not known here: archives in between were not imported.
    pub gap: Option<RevisionId>,
    /// The outcome.
    pub outcome: ImportOutcome,
}

/// The outcome of an import for one catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportOutcome {
    /// The revision is new here.
    Taken,
    /// The revision was here already.
    Unchanged,
}

/// Imports the catalogs of an archive into a data folder, all of them or none.
/// No almanac may be using the folder. `older` allows an older revision to replace
/// a newer one.
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
    if fleet::owner(&store).is_some() {
        store.close().await;
        let path = data.to_owned();
        return Err(ArchiveError::Replica { path });
    }
    let taken = match fresh(archive, &store, scanned.metadata, older).await {
        Ok(fresh) => take(archive, &store, fresh, scanned.blobs, limits, progress).await,
        Err(error) => Err(error),
    };
    // Blobs that no revision needs are removed.
    let swept = store.tidy_blobs().await;
    store.close().await;
    let imported = taken?;
    swept?;
    Ok(imported)
}

/// Separates the catalogs that are here already from new ones.
async fn fresh(
    archive: &Path,
    store: &Store,
    metadata: Metadata,
    older: bool,
) -> Result<(Vec<Imported>, Vec<CarriedRevision>), ArchiveError> {
    let (mut here, mut new) = (Vec::new(), Vec::new());
    for carried in metadata.catalogs {
        let committed = time_of_unix(carried.committed);
        let is_in_its_past = |content| {
            let mut past = carried.history.iter().map(|one| &one.past.published);
            past.any(|past| past.content == content)
        };
        let is_older = |date, id, content| {
            // Numbers of both sides may differ, the order of the archive's history does not.
            let is_after = committed == date && is_in_its_past(content);
            !is_after && is_before((committed, carried.id), (date, id))
        };
        let refused = |ours| ArchiveError::Older {
            path: archive.to_owned(),
            catalog: carried.catalog.clone(),
            theirs: date(committed),
            ours: date(ours),
        };
        let Some(current) = store.current(&carried.catalog).await? else {
            // Its files may be lost, or of another version.
            let last = store.history().latest(&carried.catalog, 1).await?;
            if let Some(last) = last.first()
                && is_older(last.committed, last.revision, last.content)
                && last.content != carried.content
                && !older
            {
                return Err(refused(last.committed));
            }
            new.push(carried);
            continue;
        };
        let is_same = current.content == carried.content && current.identity == carried.source;
        let is_whole = current.digest == carried.digest
            && current.modified >= time_of_unix(carried.modified)
            && current.committed >= committed
            && store.image(current.id).await?.as_ref() == Some(&carried.image);
        // An older one brings nothing new.
        if is_same && (is_whole || (committed < current.committed && !older)) {
            here.push(Imported {
                catalog: carried.catalog,
                revision: current.id,
                there: carried.id,
                identity: current.identity,
                gap: None,
                outcome: ImportOutcome::Unchanged,
            });
            continue;
        }
        // Only other content could be lost.
        if is_older(current.committed, current.id, current.content)
            && current.content != carried.content
            && !older
        {
            return Err(refused(current.committed));
        }
        new.push(carried);
    }
    Ok((here, new))
}

/// Whether a revision is older than another. Dates have whole seconds, so numbers decide
/// within one.
fn is_before(one: (SystemTime, RevisionId), other: (SystemTime, RevisionId)) -> bool {
    one < other
}

async fn take(
    archive: &Path,
    store: &Store,
    (mut imported, new): (Vec<Imported>, Vec<CarriedRevision>),
    blobs: BTreeMap<Digest, u64>,
    limits: &Limits,
    progress: &Progress,
) -> Result<Vec<Imported>, ArchiveError> {
    let (work, at) = (store.clone(), archive.to_owned());
    let (limits, progress) = (limits.clone(), progress.clone());
    let (new, written, pins) = blocking(move || {
        let pins = bring(&at, &work, &new, &blobs, &progress)?;
        let mut written = Vec::with_capacity(new.len());
        let sizes = || new.iter().map(|carried| size(&carried.image));
        let (mut done, total) = (0, sizes().sum());
        for (carried, size) in new.iter().zip(sizes()) {
            progress.at("reading", done, total)?;
            // About half of the time goes into each of the two.
            let unpacked = || progress.at("reading", done + size / 2, total);
            written.push(read(&work, carried, &limits, unpacked)?);
            done += size;
        }
        progress.at("reading", total, total)?;
        Ok((new, written, pins))
    })
    .await?;
    let mut gaps = Vec::with_capacity(new.len());
    for carried in &new {
        gaps.push(gap(store, carried).await?);
    }
    let (finished, rest): (Vec<_>, Vec<_>) = written.into_iter().unzip();
    let past = |carried: &CarriedRevision| {
        let past = carried.history.iter().map(|one| one.past.clone());
        past.collect::<Vec<_>>()
    };
    let past: Vec<_> = new.iter().map(past).collect();
    let imports = new.iter().zip(finished).zip(rest.iter().zip(&past));
    let imports = imports.map(|((carried, finished), (rest, past))| Import {
        finished,
        new: NewRevision {
            catalog: &carried.catalog,
            identity: carried.source.clone(),
            digest: carried.digest,
            counts: rest.0,
            blobs: &[],
            problems: &carried.problems,
            search: &rest.1,
        },
        id: carried.id,
        modified: time_of_unix(carried.modified),
        committed: time_of_unix(carried.committed),
        image: &carried.image,
        past,
    });
    let revisions = store.import(imports.collect()).await?;
    drop(pins);
    for ((revision, carried), gap) in revisions.into_iter().zip(&new).zip(gaps) {
        // The revision is committed; old files only take space.
        if let Err(error) = store.retire(&revision).await {
            tracing::warn!(%error, "cannot remove old revisions");
        }
        imported.push(Imported {
            catalog: revision.catalog,
            revision: revision.id,
            there: carried.id,
            identity: revision.identity,
            gap,
            outcome: ImportOutcome::Taken,
        });
    }
    imported.sort_by(|a, b| a.catalog.cmp(&b.catalog));
    Ok(imported)
}

/// The revision after which the history of an archive goes on, if it is not known here.
async fn gap(store: &Store, carried: &CarriedRevision) -> Result<Option<RevisionId>, ArchiveError> {
    let Some(after) = &carried.after else {
        return Ok(None);
    };
    let entries = store.history().list(&carried.catalog).await?;
    // Dates differ where a catalog went back, or was made again.
    let is_known = entries.iter().any(|entry| {
        let after = &after.published;
        (&entry.source, entry.digest, entry.content) == (&after.source, after.digest, after.content)
    });
    Ok((!is_known).then_some(after.id))
}

/// Brings the blobs of revisions into the store, unless it has them, and the outlines of
/// those before them. The blobs stay as long as the pins live.
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
            pins.push(store.contents().pin(part.digest));
            let missing = || ArchiveError::Missing {
                path: archive.to_owned(),
                digest: part.digest,
                catalog: carried.catalog.clone(),
            };
            // Files on a disk can rot.
            if store.contents().is_whole(&part.digest) {
                continue;
            }
            match blobs.get(&part.digest) {
                Some(size) if *size == part.size => wanted.insert(part.digest, part.size),
                _ => return Err(missing()),
            };
        }
    }
    let mut outlines = outlines(archive, new, blobs)?;
    let total: u64 = wanted.values().sum();
    let mut done = 0;
    let mut reader = open(archive)?;
    for entry in reader.entries().map_err(DiskError::at("read", archive))? {
        let mut entry = entry.map_err(DiskError::at("read", archive))?;
        let name = name_of(&entry);
        let Some(digest) = name.strip_prefix(BLOBS).and_then(digest_named) else {
            continue;
        };
        if let Some(names) = outlines.remove(&digest) {
            let bytes = outline(&mut entry, archive, digest)?;
            for name in names {
                store.keep_outline(&name, &bytes)?;
            }
        }
        if wanted.remove(&digest).is_none() {
            continue;
        }
        let mut writer = store.contents().write_blob(digest)?;
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
        writer.finish_blocking()?;
    }
    let mut missing = wanted.keys().chain(outlines.keys());
    if let Some(digest) = missing.next() {
        return Err(no_archive(archive, format!("{digest} is gone from it")));
    }
    Ok(pins)
}

/// The blobs that are outlines, each with its names.
fn outlines(
    archive: &Path,
    new: &[CarriedRevision],
    blobs: &BTreeMap<Digest, u64>,
) -> Result<BTreeMap<Digest, Vec<OutlineName>>, ArchiveError> {
    let mut outlines: BTreeMap<Digest, Vec<OutlineName>> = BTreeMap::new();
    for carried in new {
        for one in &carried.history {
            let Some(outline) = &one.outline else {
                continue;
            };
            if blobs.get(&outline.digest) != Some(&outline.size) {
                return Err(ArchiveError::Missing {
                    path: archive.to_owned(),
                    digest: outline.digest,
                    catalog: carried.catalog.clone(),
                });
            }
            let names = outlines.entry(outline.digest).or_default();
            names.push(one.past.published.outline());
        }
    }
    Ok(outlines)
}

/// The bytes of an outline. Its size was compared with the metadata, which have a limit.
fn outline(entry: &mut impl Read, archive: &Path, digest: Digest) -> Result<Vec<u8>, ArchiveError> {
    let mut bytes = Vec::new();
    let read = entry.take(MAX_OUTLINE).read_to_end(&mut bytes);
    read.map_err(DiskError::at("read", archive))?;
    // It may have been changed since it was verified.
    let actual = Digest::of(&bytes);
    if actual == digest {
        Ok(bytes)
    } else {
        Err(damaged(archive, digest, actual))
    }
}

/// The bytes of an image.
fn size(image: &Image) -> u64 {
    image.parts().map(|part| part.size).sum()
}

fn refused(carried: &CarriedRevision, problem: String) -> ArchiveError {
    ArchiveError::Catalog {
        catalog: carried.catalog.clone(),
        problem,
    }
}

/// A document of the image of a revision.
fn document(
    store: &Store,
    carried: &CarriedRevision,
    digest: &Digest,
) -> Result<Vec<u8>, ArchiveError> {
    let path = store.contents().blob(digest);
    let bytes = path.and_then(|path| std::fs::read(path).ok());
    bytes.ok_or_else(|| refused(carried, format!("{digest} cannot be read")))
}

/// The image of a revision, of a list that of the revision's platform.
fn image(store: &Store, carried: &CarriedRevision) -> Result<ImageManifest, ArchiveError> {
    let refused = |problem: String| refused(carried, problem);
    let top = match carried.image.kind {
        ImageKind::Full => carried.digest,
        ImageKind::Slim => {
            // The others are signatures.
            let mut manifests = carried.image.manifests.iter().filter(|one| !one.attached);
            let first = manifests.next().map(|manifest| manifest.digest);
            first.ok_or_else(|| refused("its image has no manifest".into()))?
        }
    };
    let parse = |digest: &Digest| {
        let bytes = document(store, carried, digest)?;
        Manifest::parse(&bytes, None).map_err(|error| refused(format!("{digest}: {error}")))
    };
    let index = match parse(&top)? {
        Manifest::Image(image) => return Ok(image),
        Manifest::Index(index) => index,
    };
    let variant = carried.source.variant.as_deref();
    let platform: Option<Platform> = variant.and_then(|text| text.parse().ok());
    let chosen = index
        // An older export has no platform: then it was the default.
        .select(&platform.unwrap_or_default())
        .map_err(|error| refused(error.to_string()))?;
    match parse(&chosen.digest)? {
        Manifest::Image(image) => Ok(image),
        Manifest::Index(_) => Err(refused("an index lies in an index".into())),
    }
}

/// Reads a catalog whose blobs are in the store, and verifies that it is the one
/// that was exported. `unpacked` is called once its files are unpacked.
fn read(
    store: &Store,
    carried: &CarriedRevision,
    limits: &Limits,
    unpacked: impl FnOnce() -> Result<(), ArchiveError>,
) -> Result<(Finished, (Counts, Vec<SearchRow>)), ArchiveError> {
    let refused = |problem: String| refused(carried, problem);
    let failed = |source: PassError| ArchiveError::Pass {
        catalog: carried.catalog.clone(),
        source: Box::new(source),
    };
    let image = image(store, carried)?;
    let config = ImageConfig::parse(&document(store, carried, &image.config.digest)?)
        .map_err(|error| refused(error.to_string()))?;
    let folder = catalog_path(&config)
        .ok_or_else(|| refused("its image does not say where the catalog lies".into()))?;
    let mut layers = Vec::with_capacity(image.layers.len());
    for layer in image.layers {
        let path = store.contents().blob(&layer.digest);
        let path = path.ok_or_else(|| refused(format!("{} is missing", layer.digest)))?;
        layers.push((layer, path));
    }
    let no_files = |error| failed(PassError::at(Stage::Unpack)(error));
    let temporary = store.temporary();
    let layers = ImageLayers {
        layers: &layers,
        covered: 0,
    };
    let files = layers.files(folder, limits, &temporary).map_err(no_files)?;
    let files = sqlite::migrated(files, &temporary, limits).map_err(no_files)?;
    unpacked()?;
    let stages = StageTracker::at(Stage::Read);
    let written = write_revision(
        store,
        &stages,
        &carried.catalog,
        files,
        OnInvalid::Quarantine,
    );
    let written = written.map_err(failed)?;
    let (actual, content) = (written.finished.content, carried.content);
    if actual != content {
        let problem = format!("its content has the digest {actual} and not {content}");
        return Err(refused(problem));
    }
    Ok((written.finished, (written.counts, written.search)))
}

/// A date as RFC 3339 has it.
fn date(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

/// Runs work on a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ArchiveError> + Send + 'static,
) -> Result<T, ArchiveError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| DiskError::at("read", Path::new("an archive"))(error.into()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_of_the_same_second_is_older_by_its_number() {
        let revision = |second, number: &str| (time_of_unix(second), number.parse().unwrap());
        for (one, other, expected) in [
            ((10, "5"), (11, "4"), true),
            ((11, "4"), (10, "5"), false),
            ((10, "4"), (10, "5"), true),
            ((10, "5"), (10, "5"), false),
            ((10, "6"), (10, "5"), false),
        ] {
            let (one, other) = (revision(one.0, one.1), revision(other.0, other.1));
            assert_eq!(is_before(one, other), expected, "{one:?} {other:?}");
        }
    }
}
