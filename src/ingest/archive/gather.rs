//! The options of an export, and its content in the store.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::ingest::archive::error::ArchiveError;
use crate::ingest::archive::metadata::{
    CarriedPast, CarriedRevision, Held, MAX_HISTORY, MAX_OUTLINE, Metadata,
};
use crate::name::CatalogName;
use crate::store::{
    DiskError, HistoryEntry, Image, ImageBlob, PastRevision, RevisionId, Store, unix_of_time,
};
use ::images::Manifest;
use ::images::digest::Digest;

/// The selection to export.
#[derive(Clone, Debug)]
pub struct Export {
    /// The data folder.
    pub data: PathBuf,
    /// The catalogs; with none, all configured ones.
    pub catalogs: Vec<CatalogName>,
    /// The configured catalogs; with none, all stored ones.
    pub configured: Vec<CatalogName>,
    /// The content that the other side holds.
    pub since: Option<Since>,
    /// Whether signatures and other attachments of mirrored images are included.
    pub signatures: bool,
    /// The catalogs that not everybody may read. An archive with one of them is for its
    /// owner only.
    pub restricted: Vec<CatalogName>,
    /// The file to write.
    pub output: PathBuf,
}

/// The content that the other side holds.
#[derive(Clone, Debug)]
pub enum Since {
    /// Everything after the import of an archive: its catalogs, and those that it
    /// left out.
    Archive(PathBuf),
    /// Everything up to a revision of the same store.
    Revision(RevisionId),
}

/// The blobs of the archive, open, so that a store which removes them meanwhile
/// does no harm.
pub(super) type OpenBlobs = BTreeMap<Digest, (File, ImageBlob, CatalogName)>;

/// The content of an archive.
pub(super) struct Gathered {
    pub(super) metadata: Metadata,
    pub(super) open: OpenBlobs,
    /// How many blobs the other side holds.
    pub(super) held: usize,
    /// Stored catalogs that are not configured.
    pub(super) others: Vec<CatalogName>,
    /// Configured catalogs that are not stored.
    pub(super) missing: Vec<CatalogName>,
}

/// The stored catalogs that an archive gets, and which it does not.
struct ChosenCatalogs {
    wanted: Vec<CatalogName>,
    /// Stored, and not configured.
    others: Vec<CatalogName>,
    /// Configured, and not stored.
    missing: Vec<CatalogName>,
}

impl ChosenCatalogs {
    /// The named ones of the stored catalogs, else the configured ones, else all.
    fn new(export: &Export, known: Vec<CatalogName>) -> Result<Self, ArchiveError> {
        let (mut others, mut missing) = (Vec::new(), Vec::new());
        let wanted: Vec<CatalogName> = if !export.catalogs.is_empty() {
            let wanted = known.iter().filter(|name| export.catalogs.contains(name));
            wanted.cloned().collect()
        } else if export.configured.is_empty() {
            known
        } else {
            let is_configured = |name: &CatalogName| export.configured.contains(name);
            let (wanted, rest): (Vec<_>, Vec<_>) = known.into_iter().partition(is_configured);
            let configured = export.configured.iter();
            missing.extend(configured.filter(|name| !wanted.contains(name)).cloned());
            others = rest;
            wanted
        };
        if wanted.is_empty() && !others.is_empty() {
            return Err(ArchiveError::NoneConfigured {
                known: joined(&others),
            });
        }
        Ok(Self {
            wanted,
            others,
            missing,
        })
    }
}

/// Opens the blobs of revisions that the other side does not hold.
fn open_blobs(
    store: &Store,
    catalogs: &mut [CarriedRevision],
    held: &BTreeSet<Digest>,
) -> Result<OpenBlobs, ArchiveError> {
    let mut open = OpenBlobs::new();
    for carried in catalogs {
        for part in carried.image.parts() {
            if held.contains(&part.digest) || open.contains_key(&part.digest) {
                continue;
            }
            let missing = || ArchiveError::StoredBlob {
                digest: part.digest,
                catalog: carried.catalog.clone(),
            };
            let path = store.contents().blob(&part.digest).ok_or_else(missing)?;
            let file = File::open(path).map_err(|_| missing())?;
            open.insert(part.digest, (file, part, carried.catalog.clone()));
        }
        open_outlines(store, carried, &mut open);
    }
    Ok(open)
}

/// Chooses the revisions, and opens their blobs. `there` has what the other side
/// holds of each catalog.
pub(super) async fn gather(
    store: &Store,
    export: &Export,
    mut there: BTreeMap<CatalogName, Held>,
) -> Result<Gathered, ArchiveError> {
    let known = store.catalogs().await?;
    if let Some(name) = export.catalogs.iter().find(|name| !known.contains(name)) {
        return Err(ArchiveError::UnknownCatalog {
            name: name.clone(),
            known: joined(&known),
        });
    }
    if let Some(Since::Revision(since)) = &export.since {
        check_revision(store, &known, *since).await?;
    }
    let ChosenCatalogs {
        wanted,
        others,
        missing,
    } = ChosenCatalogs::new(export, known)?;
    let mut catalogs = Vec::new();
    for name in wanted {
        let Some(revision) = store.current(&name).await? else {
            continue;
        };
        let image = store.image(revision.id).await?;
        let image = image.ok_or_else(|| ArchiveError::NoImage {
            catalog: name.clone(),
        })?;
        let image = if export.signatures {
            image
        } else {
            without_attached(store, image, &name)?
        };
        if let Some(Since::Revision(since)) = &export.since
            && revision.id <= *since
        {
            there.insert(name, Held::new(revision.id, &image));
            continue;
        }
        // The other side has those up to what it holds.
        let known = there.get(&name).map(|held| held.revision);
        let (history, after) = history(store, &name, known, revision.id).await?;
        catalogs.push(CarriedRevision {
            catalog: name,
            id: revision.id,
            source: revision.identity,
            digest: revision.digest,
            content: revision.content,
            modified: unix_of_time(revision.modified),
            committed: unix_of_time(revision.committed),
            counts: revision.counts,
            problems: store.problems(revision.id).await?,
            image,
            history,
            after,
        });
    }
    let held = there.values().flat_map(|catalog| &catalog.blobs);
    let held: BTreeSet<Digest> = held.copied().collect();
    let open = open_blobs(store, &mut catalogs, &held)?;
    let mut left_out = there;
    left_out.retain(|name, _| catalogs.iter().all(|carried| carried.catalog != *name));
    Ok(Gathered {
        metadata: Metadata { catalogs, left_out },
        open,
        held: held.len(),
        others,
        missing,
    })
}

/// The history of a catalog after a revision and before another, the oldest first, and that
/// revision.
async fn history(
    store: &Store,
    catalog: &CatalogName,
    after: Option<RevisionId>,
    before: RevisionId,
) -> Result<(Vec<CarriedPast>, Option<PastRevision>), ArchiveError> {
    let history = store.history();
    let mut entries = history.list(catalog).await?;
    let begin = entries.iter().find(|entry| Some(entry.revision) == after);
    let begin = begin.map(HistoryEntry::past);
    entries.retain(|entry| Some(entry.revision) > after && entry.revision < before);
    entries.truncate(MAX_HISTORY);
    let reading = tokio::task::spawn_blocking(move || {
        let carried = entries.iter().rev().map(|entry| CarriedPast {
            past: entry.past(),
            outline: outline(&history.path(&entry.outline())),
        });
        carried.collect()
    });
    let failed =
        |error: tokio::task::JoinError| DiskError::at("read", Path::new("outlines"))(error.into());
    Ok((reading.await.map_err(failed)?, begin))
}

/// The blob that the file of an outline becomes. One that cannot be read is left out: only
/// the comparison with it is lost.
fn outline(path: &Path) -> Option<ImageBlob> {
    let bytes = std::fs::read(path).ok()?;
    let size = bytes.len() as u64;
    let digest = Digest::of(&bytes);
    (size <= MAX_OUTLINE).then_some(ImageBlob { digest, size })
}

/// Opens the outlines of a catalog's history. One that was removed meanwhile is left out.
fn open_outlines(store: &Store, carried: &mut CarriedRevision, open: &mut OpenBlobs) {
    let history = store.history();
    for one in &mut carried.history {
        let Some(blob) = &one.outline else {
            continue;
        };
        match File::open(history.path(&one.past.published.outline())) {
            Ok(file) => {
                let part = (file, blob.clone(), carried.catalog.clone());
                open.entry(blob.digest).or_insert(part);
            }
            Err(_) => one.outline = None,
        }
    }
}

fn joined(names: &[CatalogName]) -> String {
    let names: Vec<&str> = names.iter().map(CatalogName::as_str).collect();
    names.join(", ")
}

/// Checks that the number is of a revision that this store has or had.
async fn check_revision(
    store: &Store,
    catalogs: &[CatalogName],
    revision: RevisionId,
) -> Result<(), ArchiveError> {
    let mut known = Vec::new();
    let mut newest = None;
    for name in catalogs {
        if let Some(current) = store.current(name).await? {
            known.push(format!("{name} at {}", current.id));
            newest = newest.max(Some(current.id));
        }
    }
    if newest.is_none_or(|newest| revision <= newest) {
        return Ok(());
    }
    Err(ArchiveError::UnknownRevision {
        revision,
        known: known.join(", "),
    })
}

/// The image without its attachments.
fn without_attached(
    store: &Store,
    mut image: Image,
    catalog: &CatalogName,
) -> Result<Image, ArchiveError> {
    image.manifests.retain(|manifest| !manifest.attached);
    image.signed = None;
    let left: BTreeSet<Digest> = image.manifests.iter().map(|m| m.digest).collect();
    let mut named = BTreeSet::new();
    for digest in &left {
        let missing = || ArchiveError::StoredBlob {
            digest: *digest,
            catalog: catalog.clone(),
        };
        let path = store.contents().blob(digest).ok_or_else(missing)?;
        let bytes = std::fs::read(path).map_err(|_| missing())?;
        if let Ok(Manifest::Image(found)) = Manifest::parse(&bytes, None) {
            named.insert(found.config.digest);
            named.extend(found.layers.iter().map(|layer| layer.digest));
        }
    }
    image.blobs.retain(|blob| named.contains(&blob.digest));
    image.tags.retain(|_, digest| left.contains(digest));
    if let Some(origin) = &mut image.origin {
        origin.tags.retain(|_, digest| left.contains(digest));
    }
    Ok(image)
}
