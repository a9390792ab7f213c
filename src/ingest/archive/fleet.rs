//! Archives of a fleet: what all replicas serve, without the folder of one.
//!
//! Both ways go through a folder of their own, which is a node alone: what the fleet
//! serves is fetched into it, and exported from there or imported into. An import then
//! publishes the new revisions, as a pass does. Catalogs of which the archive has nothing
//! new stay with whoever follows them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::fleet::{
    FileLimit, Fleet, Generation, Known, Object, Publication, TrackId, Visit, encode,
};
use crate::ingest::archive::error::ArchiveError;
use crate::ingest::archive::fleet_folder::{fetch, workspace};
use crate::ingest::archive::gather::Export;
use crate::ingest::archive::import::{ImportOutcome, Imported, import};
use crate::ingest::archive::metadata::Metadata;
use crate::ingest::archive::progress::Progress;
use crate::ingest::archive::scan::read_metadata;
use crate::ingest::archive::write::Exported;
use crate::ingest::followed::has_origin_of;
use crate::ingest::source::Source;
use crate::name::CatalogName;
use crate::store::{
    CacheLimits, DiskError, HistoryEntry, PastRevision, RevisionId, Store, StoreError,
};
use ::images::layers::Limits;

/// A command has no revisions whose numbers the database may have lost.
const NONE: RevisionId = RevisionId::from_number(0);

/// A catalog as the configuration of a fleet has it.
#[derive(Clone, Debug)]
pub struct FleetCatalog {
    /// Its source.
    pub source: Source,
    /// Identifies its configuration, as [`track_identity`](fn@crate::ingest::track_identity).
    pub identity: String,
}

/// An import into a fleet.
pub struct FleetImport<'a> {
    /// The archive.
    pub archive: &'a Path,
    /// Where a folder for the work is made. It need not exist.
    pub data: PathBuf,
    /// The catalogs of the configuration.
    pub catalogs: BTreeMap<CatalogName, FleetCatalog>,
    /// Limits of the unpacked files.
    pub limits: Limits,
    /// Whether an older revision may replace a newer one.
    pub older: bool,
}

/// Exports what a fleet serves, if it is within the limits.
pub async fn export_of_fleet(
    fleet: &Fleet,
    requested: &Export,
    limits: &Limits,
    progress: &Progress,
) -> Result<Exported, ArchiveError> {
    progress.unless_stopped(fleet.check_to_read()).await?;
    let mut served = progress.unless_stopped(fleet.served()).await?;
    let known: Vec<&str> = served.iter().map(|(name, _)| name.as_str()).collect();
    let is_served = |name: &&CatalogName| !known.contains(&name.as_str());
    if let Some(name) = requested.catalogs.iter().find(is_served) {
        return Err(ArchiveError::UnknownCatalog {
            name: name.clone(),
            known: known.join(", "),
        });
    }
    let wanted = if requested.catalogs.is_empty() {
        &requested.configured
    } else {
        &requested.catalogs
    };
    let mut others = Vec::new();
    if !wanted.is_empty() {
        let is_other = |(name, _): &mut (CatalogName, Generation)| !wanted.contains(name);
        let left = served.extract_if(.., is_other);
        let left = left.map(|(name, _)| name);
        // Those beside named ones are left out on purpose.
        others.extend(left.filter(|_| requested.catalogs.is_empty()));
    }
    if served.is_empty() {
        return Err(ArchiveError::EmptyFleet);
    }
    let folder = workspace(&requested.data)?;
    let lost = fetch(fleet, folder.path(), limits, &served, progress).await?;
    if let Some(lost) = lost.into_iter().next() {
        return Err(lost);
    }
    let own = Export {
        data: folder.path().to_owned(),
        ..requested.clone()
    };
    let mut exported = crate::ingest::archive::export::export(&own, progress).await?;
    exported.others = others;
    Ok(exported)
}

/// Imports the catalogs of an archive into a fleet, all of them or none. Its replicas go
/// on meanwhile, and show them once they have fetched them.
pub async fn import_into_fleet(
    fleet: &Fleet,
    requested: &FleetImport<'_>,
    progress: &Progress,
) -> Result<Vec<Imported>, ArchiveError> {
    // It writes into the bucket, so that one has to be the fleet's, too.
    let id = progress.unless_stopped(fleet.check()).await?;
    fleet.expect(&id);
    let metadata = {
        let (archive, progress) = (requested.archive.to_owned(), progress.clone());
        let reading = tokio::task::spawn_blocking(move || read_metadata(&archive, &progress));
        let failed =
            |error: tokio::task::JoinError| DiskError::at("read", requested.archive)(error.into());
        reading.await.map_err(failed)??
    };
    check_catalogs(requested, &metadata)?;
    let configured = metadata.catalogs.iter().filter_map(|carried| {
        let configured = requested.catalogs.get(&carried.catalog)?;
        Some((carried.catalog.clone(), configured.identity.clone()))
    });
    let configured: Vec<_> = configured.collect();
    let names = configured.iter().map(|(name, _)| name.clone());
    let names: Vec<CatalogName> = names.collect();
    let tracks = fleet.tracks(configured).await?;
    let work = FleetWork {
        fleet,
        requested,
        tracks: tracks.into_iter().zip(names).collect(),
        progress,
    };
    // Boxed: their states are large.
    let compared = Box::pin(work.compare()).await?;
    if compared.new_catalogs().next().is_none() {
        return Ok(compared.imported);
    }
    Box::pin(work.take_over(compared)).await
}

/// Refuses catalogs that no replica would serve.
fn check_catalogs(requested: &FleetImport<'_>, metadata: &Metadata) -> Result<(), ArchiveError> {
    for carried in &metadata.catalogs {
        let catalog = carried.catalog.clone();
        let Some(configured) = requested.catalogs.get(&catalog) else {
            return Err(ArchiveError::NotConfigured { catalog });
        };
        if !has_origin_of(&configured.source, &carried.source) {
            return Err(ArchiveError::OtherSource {
                catalog,
                theirs: carried.source.source.clone(),
                ours: configured.source.to_string(),
            });
        }
    }
    Ok(())
}

/// An import that is running.
struct FleetWork<'a> {
    fleet: &'a Fleet,
    requested: &'a FleetImport<'a>,
    /// The catalogs of the archive.
    tracks: BTreeMap<TrackId, CatalogName>,
    progress: &'a Progress,
}

/// Leaves out what the fleet serves already, though the archive has a later date: the same
/// content keeps its date in a fleet.
async fn leave_served(
    folder: &Path,
    served: &[(CatalogName, Generation)],
    imported: &mut [Imported],
) -> Result<(), ArchiveError> {
    let store = Store::open_with(folder, CacheLimits::NOTHING).await?;
    for one in imported {
        let mut served = served.iter();
        let served = served.find(|(catalog, _)| *catalog == one.catalog);
        let (Some((_, served)), ImportOutcome::Taken) = (served, one.outcome) else {
            continue;
        };
        let kept = store.kept(&one.catalog, one.revision).await?;
        let image = store.image(one.revision).await?;
        if kept.is_some_and(|kept| kept.content.to_string() == served.content)
            && image.as_ref() == served.image.as_ref().map(|(_, image)| image)
        {
            one.outcome = ImportOutcome::Unchanged;
            one.revision = served.revision;
        }
    }
    store.close().await;
    Ok(())
}

/// An archive that was imported into a folder beside what the fleet serves.
struct Compared {
    folder: TempDir,
    served: Vec<(CatalogName, Generation)>,
    imported: Vec<Imported>,
}

impl Compared {
    /// The catalogs that the archive has something new of.
    fn new_catalogs(&self) -> impl Iterator<Item = &CatalogName> {
        let imported = self.imported.iter();
        let new = imported.filter(|one| one.outcome == ImportOutcome::Taken);
        new.map(|one| &one.catalog)
    }
}

impl FleetWork<'_> {
    /// Imports the archive into a folder that has what the fleet serves.
    async fn compare(&self) -> Result<Compared, ArchiveError> {
        let folder = workspace(&self.requested.data)?;
        let served = self.served().await?;
        let FleetImport {
            archive,
            limits,
            older,
            ..
        } = self.requested;
        // What the bucket has lost of the fleet's revisions stands back behind the archive.
        let mut whole = served.clone();
        for lost in fetch(self.fleet, folder.path(), limits, &served, self.progress).await? {
            if let ArchiveError::Unfetched { catalog, cause } = lost {
                tracing::warn!(
                    %catalog, %cause,
                    "the bucket has lost what the fleet serves: compared by its dates alone"
                );
                whole.retain(|(name, _)| *name != catalog);
            }
        }
        let mut imported = import(archive, folder.path(), limits, *older, self.progress).await?;
        leave_served(folder.path(), &whole, &mut imported).await?;
        Ok(Compared {
            folder,
            served,
            imported,
        })
    }

    /// What the fleet serves of the catalogs.
    async fn served(&self) -> Result<Vec<(CatalogName, Generation)>, ArchiveError> {
        let newest = self
            .fleet
            .newest(self.tracks.keys().copied().collect())
            .await?;
        let named = newest.into_iter();
        let named = named.filter_map(|one| Some((self.tracks.get(&one.track)?.clone(), one)));
        Ok(named.collect())
    }

    /// Locks the catalogs with something new, and publishes it.
    async fn take_over(&self, mut compared: Compared) -> Result<Vec<Imported>, ArchiveError> {
        let is_new = |catalog: &CatalogName| compared.new_catalogs().any(|new| new == catalog);
        let new = self.tracks.iter().filter(|(_, catalog)| is_new(catalog));
        let new: Vec<TrackId> = new.map(|(track, _)| *track).collect();
        self.progress.at("waiting", 0, 0)?;
        let visit = self.progress.unless_stopped(self.fleet.visit(&new)).await?;
        // From here on nobody else publishes these: the comparison stays true.
        let numbers = |served: &[(CatalogName, Generation)]| {
            let served = served.iter().filter(|(_, one)| new.contains(&one.track));
            served.map(|(_, one)| one.number).collect::<Vec<_>>()
        };
        if numbers(&self.served().await?) != numbers(&compared.served) {
            compared = self.compare().await?;
        }
        let store = Store::open_with(compared.folder.path(), CacheLimits::NOTHING).await?;
        let (served, imported) = (&compared.served, &mut compared.imported);
        let published = self.publish(&store, &visit, &new, served, imported).await;
        store.close().await;
        published.map(|()| compared.imported)
    }

    /// Publishes the new revisions of the folder, under numbers of the fleet.
    async fn publish(
        &self,
        store: &Store,
        visit: &Visit,
        locked: &[TrackId],
        served: &[(CatalogName, Generation)],
        imported: &mut [Imported],
    ) -> Result<(), ArchiveError> {
        let _uploading = visit.begin_upload().await?;
        let mut publications = Vec::new();
        for one in imported {
            let track = self
                .tracks
                .iter()
                .find(|(_, catalog)| **catalog == one.catalog);
            let track = track
                .map(|(track, _)| *track)
                .filter(|track| locked.contains(track));
            let (Some(track), ImportOutcome::Taken) = (track, one.outcome) else {
                continue;
            };
            let mut served = served.iter();
            let served = served.find(|(catalog, _)| *catalog == one.catalog);
            let known = served.map(|(_, generation)| generation.revision);
            let publication = self.share(store, track, one, known).await?;
            one.revision = publication.revision;
            publications.push(publication);
        }
        if !publications.is_empty() {
            visit.publish(publications).await?;
        }
        Ok(())
    }

    /// Puts a revision of the folder into the bucket, with the history after the `known` one.
    async fn share(
        &self,
        store: &Store,
        track: TrackId,
        imported: &Imported,
        known: Option<RevisionId>,
    ) -> Result<Publication, ArchiveError> {
        let catalog = &imported.catalog;
        let kept = store.kept(catalog, imported.revision).await?;
        let kept = kept.ok_or(StoreError::KnownDamage(imported.revision))?;
        let revision = encode(store, &kept, None).await?;
        self.progress.at("uploading", 0, 0)?;
        let limit = FileLimit::of(&self.requested.limits);
        // No replica has the bytes of an archive, so nothing is taken for known.
        let known_objects = Known::new();
        let files = self
            .fleet
            .upload_revision(store, limit, &revision, &known_objects);
        let files = self.progress.unless_stopped(files).await?;
        let image = match store.image(revision.id).await? {
            Some(image) => {
                let of = (revision.id, &image);
                let parts = self.fleet.upload_image(store, limit, of, &known_objects);
                let parts = self.progress.unless_stopped(parts).await?;
                Some((image, parts))
            }
            None => None,
        };
        let mut entries = store.history().list(catalog).await?;
        entries.reverse();
        let past = entries.iter().map(HistoryEntry::past);
        let past = past.filter(|past| Some(past.id) > known && past.id < revision.id);
        let mut numbered: Vec<(PastRevision, Option<Object>)> = Vec::new();
        for mut one in past {
            let outline = self.fleet.upload_outline(store, one.published.outline());
            let outline = self.progress.unless_stopped(outline).await?;
            // The numbers of the fleet are one sequence, and replicas go on from theirs.
            one.id = self.fleet.next_revision(NONE).await?;
            numbered.push((one, outline));
        }
        Ok(Publication {
            track,
            catalog: catalog.clone(),
            revision: self.fleet.next_revision(NONE).await?,
            content: revision.content.to_string(),
            published: serde_json::to_string(&revision.published())
                .map_err(StoreError::encode("a revision"))?,
            files,
            image,
            past: numbered,
            resolved: None,
        })
    }
}
