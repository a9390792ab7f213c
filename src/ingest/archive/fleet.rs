//! Archives of a fleet: what all replicas serve, without the folder of one.
//!
//! Both ways go through a folder of their own, which is a node alone: what the fleet
//! serves is fetched into it, and exported from there or imported into. An import then
//! publishes the new revisions, as a pass does. Catalogs of which the archive has nothing
//! new stay with whoever follows them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use futures_util::future::join_all;
use tempfile::TempDir;

use crate::ingest::archive::error::ArchiveError;
use crate::ingest::archive::fleet_folder::{fetch, workspace};
use crate::ingest::archive::gather::Export;
use crate::ingest::archive::import::{ImportOutcome, Imported, import};
use crate::ingest::archive::metadata::Metadata;
use crate::ingest::archive::progress::Progress;
use crate::ingest::archive::scan::read_metadata;
use crate::ingest::archive::write::Exported;
use crate::ingest::fleet::{Visit, encode};
use crate::ingest::followed::has_origin_of;
use crate::ingest::source::Source;
use crate::name::CatalogName;
use crate::store::fleet::{
    FileLimit, Fleet, FleetError, Generation, Lease, Publication, Shared, TrackId,
};
use crate::store::{
    CacheLimits, DiskError, HistoryEntry, Image, PastRevision, Revision, RevisionId, Store,
    StoreError,
};
use ::images::layers::Limits;

/// A catalog as the configuration of a fleet has it.
#[derive(Clone, Debug)]
pub struct FleetCatalog {
    /// Its source.
    pub source: Source,
    /// Identifies its configuration, as [`track_origin`](crate::ingest::track_origin).
    pub origin: String,
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
/// on meanwhile, and all turn to them at once.
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
    let mut tracks = BTreeMap::new();
    for carried in &metadata.catalogs {
        if let Some(configured) = requested.catalogs.get(&carried.catalog) {
            let track = fleet.track(&carried.catalog, &configured.origin);
            tracks.insert(track.await?, carried.catalog.clone());
        }
    }
    let work = FleetWork {
        fleet,
        requested,
        tracks,
        progress,
    };
    // Boxed: their states are large.
    let compared = Box::pin(work.compare()).await?;
    if compared.new_catalogs().next().is_none() {
        return Ok(compared.imported);
    }
    let visit = Visit::begin(fleet).await?;
    let imported = Box::pin(work.take_over(&visit, compared)).await;
    let left = visit.end().await;
    let imported = imported?;
    if let Err(error) = left {
        tracing::warn!(%error, "cannot leave the fleet: the others notice within seconds");
    }
    Ok(imported)
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

/// A revision whose files are in the bucket.
struct Ready {
    lease: Lease,
    revision: Revision,
    files: Shared,
    image: Option<(Image, Shared)>,
    past: Vec<PastRevision>,
    outlines: Shared,
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
        for lost in fetch(self.fleet, folder.path(), limits, &served, self.progress).await? {
            if let ArchiveError::Unfetched { catalog, cause } = lost {
                tracing::warn!(
                    %catalog, %cause,
                    "the bucket has lost what the fleet serves: compared by its dates alone"
                );
            }
        }
        let imported = import(archive, folder.path(), limits, *older, self.progress).await?;
        Ok(Compared {
            folder,
            served,
            imported,
        })
    }

    /// What the fleet serves of the catalogs.
    async fn served(&self) -> Result<Vec<(CatalogName, Generation)>, ArchiveError> {
        let ids: Vec<TrackId> = self.tracks.keys().copied().collect();
        let generations = self.fleet.generations(&ids).await?;
        let turned = generations.into_iter().filter(|one| one.flips.is_some());
        let named = turned.filter_map(|one| Some((self.tracks.get(&one.id.track)?.clone(), one)));
        Ok(named.collect())
    }

    /// Takes the leases of the catalogs with something new, and publishes it.
    async fn take_over(
        &self,
        visit: &Visit,
        mut compared: Compared,
    ) -> Result<Vec<Imported>, ArchiveError> {
        let mut leases: BTreeMap<CatalogName, Lease> = BTreeMap::new();
        loop {
            let new: Vec<&CatalogName> = compared.new_catalogs().collect();
            let wanted = self
                .tracks
                .iter()
                .filter(|(_, catalog)| new.contains(catalog) && !leases.contains_key(*catalog));
            let wanted: Vec<TrackId> = wanted.map(|(track, _)| *track).collect();
            let seized = visit.seize(&wanted).await?;
            if seized.is_empty() {
                break;
            }
            let of_name = |lease: Lease| Some((self.tracks.get(&lease.track)?.clone(), lease));
            leases.extend(seized.into_iter().filter_map(of_name));
            // From here on nobody else publishes these: the comparison stays true.
            let served = self.served().await?;
            let held = |served: &[(CatalogName, Generation)]| {
                let held = served.iter().filter(|(name, _)| leases.contains_key(name));
                held.map(|(_, one)| (one.id, one.revision))
                    .collect::<Vec<_>>()
            };
            if held(&served) == held(&compared.served) {
                break;
            }
            compared = self.compare().await?;
        }
        let store = Store::open_with(compared.folder.path(), CacheLimits::NOTHING).await?;
        let (served, imported) = (&compared.served, &mut compared.imported);
        let published = self.publish(&store, visit, &leases, served, imported).await;
        store.close().await;
        published.map(|()| compared.imported)
    }

    /// Publishes the new revisions of the folder, under numbers of the fleet.
    async fn publish(
        &self,
        store: &Store,
        visit: &Visit,
        leases: &BTreeMap<CatalogName, Lease>,
        served: &[(CatalogName, Generation)],
        imported: &mut [Imported],
    ) -> Result<(), ArchiveError> {
        let is_new = |one: &&mut Imported| one.outcome == ImportOutcome::Taken;
        let mut new: Vec<&mut Imported> = imported.iter_mut().filter(is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        let mut ready = Vec::with_capacity(new.len());
        for one in &new {
            let mut served = served.iter();
            let served = served.find(|(catalog, _)| *catalog == one.catalog);
            let known = served.map(|(_, generation)| generation.revision);
            ready.push(self.share(store, leases, one, known).await?);
        }
        let wanted = new.iter().zip(&ready).map(|(one, ready)| {
            let past = ready.past.iter().map(|past| past.id);
            past.chain([one.there]).collect()
        });
        let wanted: Vec<Vec<_>> = wanted.collect();
        let claimed = self.fleet.claim_revisions(&wanted).await?;
        for ((one, ready), mut numbers) in new.iter_mut().zip(&mut ready).zip(claimed) {
            if let Some(number) = numbers.pop() {
                one.revision = number;
                ready.revision.id = number;
            }
            for (past, number) in ready.past.iter_mut().zip(numbers) {
                past.id = number;
            }
        }
        let publications = ready.iter().map(|ready| Publication {
            lease: ready.lease,
            revision: &ready.revision,
            // The sources in the archive are not those of the fleet.
            sources: &[],
            files: &ready.files,
            image: ready.image.as_ref().map(|(image, parts)| (image, parts)),
            past: Some((&ready.past, &ready.outlines)),
            resolved: None,
            untold: true,
        });
        let publications: Vec<_> = publications.collect();
        let ids = self.fleet.prepare_revisions(&publications).await?;
        // Side by side: each waits for all replicas.
        let is_stopped = || self.progress.at("waiting", 0, 0).is_err();
        let turns = ready.iter().zip(ids);
        let turns = turns.map(|(ready, id)| visit.turn(ready.lease, id, is_stopped));
        // All of them, as each is announced: the first failure keeps no other waiting.
        let turned = join_all(turns).await;
        Ok(turned.into_iter().collect::<Result<(), _>>()?)
    }

    /// Puts a revision of the folder into the bucket, with the history after the `known` one.
    async fn share(
        &self,
        store: &Store,
        leases: &BTreeMap<CatalogName, Lease>,
        imported: &Imported,
        known: Option<RevisionId>,
    ) -> Result<Ready, ArchiveError> {
        let catalog = &imported.catalog;
        // The archive was replaced since its metadata were read.
        let lease = leases
            .get(catalog)
            .ok_or_else(|| ArchiveError::NotConfigured {
                catalog: catalog.clone(),
            })?;
        let find = || async {
            let kept = store.kept(catalog, imported.revision).await?;
            kept.ok_or(StoreError::KnownDamage(imported.revision))
        };
        let failed = |source| ArchiveError::Pass {
            catalog: catalog.clone(),
            source: Box::new(source),
        };
        encode(store, &find().await?, None).await.map_err(failed)?;
        // With the sums of its encodings.
        let revision = find().await?;
        self.progress.at("uploading", 0, 0)?;
        let limit = Some(FileLimit::of(&self.requested.limits));
        let files = || self.fleet.share_revision(store, limit, &revision);
        let files = self.upload(files).await?;
        let image = match store.image(revision.id).await? {
            Some(image) => {
                let of = (revision.id, &image);
                let parts = || self.fleet.share_image(store, limit, of);
                let parts = self.upload(parts).await?;
                Some((image, parts))
            }
            None => None,
        };
        let mut entries = store.history().list(catalog).await?;
        entries.reverse();
        let past = entries.iter().map(HistoryEntry::past);
        let past = past.filter(|past| Some(past.id) > known && past.id < revision.id);
        let past: Vec<_> = past.collect();
        let names = past.iter().map(|past| past.published.outline());
        let names: Vec<_> = names.collect();
        let outlines = || self.fleet.share_outlines(store, names.clone());
        let outlines = self.upload(outlines).await?;
        Ok(Ready {
            lease: *lease,
            revision,
            files,
            image,
            past,
            outlines,
        })
    }

    /// Puts objects into the bucket, and looks for those that the database lists already: the
    /// bucket may have lost them, and no replica has the bytes of an archive.
    async fn upload<F: Future<Output = Result<Shared, FleetError>>>(
        &self,
        share: impl Fn() -> F,
    ) -> Result<Shared, ArchiveError> {
        let uploading = async {
            let shared = share().await?;
            if self.fleet.note_lost(&shared).await? {
                return share().await;
            }
            Ok::<_, FleetError>(shared)
        };
        self.progress.unless_stopped(uploading).await
    }
}
