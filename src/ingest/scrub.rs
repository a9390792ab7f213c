//! Verifying stored files: after each publication, whenever their size or date
//! changes, and then at intervals. Damaged files are withdrawn, and made again from
//! what is whole: a revision from its metas, other encodings from these, an image
//! from its revision or its registry. Damaged metas are read from the source again.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use metrics::{counter, gauge};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::ingest::catalog_metrics::{announce, unix};
use crate::ingest::context::PassContext;
use crate::ingest::error::{Cause, PassError, Stage};
use crate::ingest::files::CatalogFiles;
use crate::ingest::followed::{Followed, OnInvalid};
use crate::ingest::make_revision::write_revision;
use crate::ingest::retry::sleep;
use crate::ingest::stages::{StageTracker, blocking, blocking_with_permit};
use crate::snapshot::{Damaged, ImagePublisher, Publisher, Repair, Snapshot};
use crate::store::content::OpenBlob;
use crate::store::{
    Damage, Encoding, FileSum, NewRevision, Revision, RevisionId, Stamps, StoreError,
};
use ::images::digest::Hasher;

/// The time between two looks at sizes and dates.
const LOOK: Duration = Duration::from_secs(2);
/// The time until a repair that failed for want of room, or the like, is tried again.
const RETRY: Duration = Duration::from_mins(1);

/// Verifies the stored files of a catalog until it is stopped.
pub async fn scrub(
    context: PassContext,
    followed: Followed,
    publisher: Publisher,
    images: ImagePublisher,
    stop: CancellationToken,
) {
    let span = tracing::info_span!("scrub", catalog = %followed.name);
    let scrubber = Scrubber {
        context,
        followed,
        publisher,
        images,
    };
    let scrubbing = Box::pin(scrubber.run().instrument(span));
    stop.run_until_cancelled(scrubbing).await;
}

struct Scrubber {
    context: PassContext,
    followed: Followed,
    publisher: Publisher,
    images: ImagePublisher,
}

impl Scrubber {
    async fn run(&self) {
        tokio::join!(self.verify_regularly(), self.look());
    }

    /// Verifies each revision after its publication, and then at intervals.
    async fn verify_regularly(&self) {
        let mut publications = self.context.catalogs.publications();
        let mut settings = self.context.scrub.subscribe();
        let mut last: Option<(RevisionId, Instant)> = None;
        let mut given_up = None;
        loop {
            publications.mark_unchanged();
            let mut wait = settings.borrow_and_update().interval;
            if let Some(snapshot) = self.publisher.snapshot() {
                let id = snapshot.revision().id;
                let age = last.filter(|(of, _)| *of == id).map(|(_, at)| at.elapsed());
                let is_due = |age| wait.is_some_and(|interval| age >= interval);
                if age.is_none_or(is_due) {
                    self.verify(&snapshot, false).await;
                    last = Some((id, Instant::now()));
                } else {
                    wait = wait.map(|interval| interval.saturating_sub(age.unwrap_or_default()));
                }
            } else if self.publisher.status().is_damaged()
                && self.repair_stored(&mut given_up).await
            {
                wait = Some(RETRY);
            }
            tokio::select! {
                () = sleep(wait) => {}
                Ok(()) = publications.changed() => {}
                Ok(()) = settings.changed() => {}
            }
        }
    }

    /// Watches sizes and dates of files, and for damaged blobs.
    async fn look(&self) {
        let mut publications = self.context.catalogs.publications();
        let mut last = None;
        let mut reported = HashSet::new();
        loop {
            publications.mark_unchanged();
            if let Some(snapshot) = self.publisher.snapshot() {
                let revision = snapshot.revision();
                let now = (revision.id, self.stamps(revision).await);
                let changed = |(id, stamps)| id == now.0 && stamps != now.1;
                if last.take().is_some_and(changed) {
                    self.verify(&snapshot, true).await;
                }
                last = Some(now);
            }
            self.report_blobs(&mut reported);
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                Ok(()) = publications.changed() => {}
                () = self.images.damaged() => {}
            }
        }
    }

    async fn stamps(&self, revision: &Revision) -> Option<Stamps> {
        let (store, revision) = (self.context.store.clone(), revision.clone());
        let looking = tokio::task::spawn_blocking(move || store.stamps(&revision));
        looking.await.ok()
    }

    /// Repairs a stored revision that is not served for its damage, unless that was
    /// given up. Whether to try again later.
    async fn repair_stored(&self, given_up: &mut Option<RevisionId>) -> bool {
        match self.context.store.current(&self.followed.name).await {
            Ok(Some(revision)) if *given_up != Some(revision.id) => {
                let again = self.repair(&revision).await;
                *given_up = (!again).then_some(revision.id);
                again
            }
            Ok(_) => false,
            Err(error) => {
                tracing::warn!(%error, "cannot look up the stored revision");
                true
            }
        }
    }

    /// Compares all files of a snapshot with their sums, and acts on damage.
    /// `at_once` means without waiting for other catalogs and at full speed.
    async fn verify(&self, snapshot: &Arc<Snapshot>, at_once: bool) {
        let (store, revision) = (&self.context.store, snapshot.revision());
        if revision.files.is_empty() {
            // Of a version without sums. Rebuilding compares the digest of its lines.
            tracing::info!(revision = %revision.id, "the stored revision gets sums");
            self.repair(revision).await;
            return;
        }
        let turn = async {
            // Never closed.
            self.context.scrubbing.acquire().await.ok()
        };
        let turn = if at_once { None } else { turn.await };
        let sums = match store.sums(revision.id).await {
            Ok(sums) => sums,
            Err(error) => return tracing::warn!(%error, "cannot verify the stored files"),
        };
        let (mut lost, mut encodings) = (Vec::new(), Vec::new());
        for (name, sum) in sums {
            let encoding = Encoding::ALL.into_iter().find(|one| one.file() == name);
            if encoding.is_some_and(|encoding| snapshot.encoded(encoding).is_none()) {
                // It was not whole at the start, and is being made again.
                continue;
            }
            let Err(damage) = self.compare(revision.id, &name, sum, at_once).await else {
                continue;
            };
            if !self.is_served(snapshot) {
                // The files of a replaced revision are gone.
                return;
            }
            self.tell(&name, &damage.to_string());
            match encoding {
                Some(encoding) => encodings.push((encoding, damage)),
                None => lost.push(damage),
            }
        }
        for (encoding, damage) in &encodings {
            snapshot.set_encoded(*encoding, None);
            if let Err(error) = store.remove_file(revision.id, encoding.file()).await {
                tracing::warn!(%error, "cannot remove a damaged file");
            }
            self.note(vec![damage.to_string()], Repair::Done);
        }
        if !lost.is_empty() {
            drop(turn);
            self.note(
                lost.iter().map(ToString::to_string).collect(),
                Repair::Rebuilding,
            );
            self.publisher.withdraw();
            if let Err(error) = store.record_damage(revision.id).await {
                tracing::warn!(%error, "cannot record the damage");
            }
            // The regular verification, which this wakes, repairs it.
            return;
        }
        if !encodings.is_empty() {
            // They are encoded again.
            self.publisher.announce();
        }
        for image in self.images.images() {
            for blob in image.parts().filter(|blob| !blob.is_damaged()) {
                self.hash(blob, at_once).await;
            }
        }
        let now = SystemTime::now();
        self.publisher.update(|status| status.verified = Some(now));
        gauge!(
            "almanac_last_verification_timestamp_seconds",
            "catalog" => self.followed.name.to_string()
        )
        .set(unix(now));
    }

    fn is_served(&self, snapshot: &Arc<Snapshot>) -> bool {
        let served = self.publisher.snapshot();
        served.is_some_and(|served| Arc::ptr_eq(&served, snapshot))
    }

    /// Compares a file with its sums, a block at a time.
    async fn compare(
        &self,
        revision: RevisionId,
        name: &str,
        sum: FileSum,
        at_once: bool,
    ) -> Result<(), Damage> {
        let (store, of) = (self.context.store.clone(), name.to_owned());
        let opening = tokio::task::spawn_blocking(move || store.verify(revision, &of, &sum));
        let Ok(opened) = opening.await else {
            return Ok(());
        };
        let mut verification = opened?;
        loop {
            let reading = tokio::task::spawn_blocking(move || {
                let read = verification
                    .next_block()
                    .map(|block| block.map(<[u8]>::len));
                (verification, read)
            });
            // A panic, which the hook has logged, says nothing about the file.
            let Ok((next, Some(read))) = reading.await else {
                return Ok(());
            };
            verification = next;
            let read = read?;
            if !at_once {
                self.pause(read as u64).await;
            }
        }
    }

    /// Compares a blob with its digest.
    async fn hash(&self, blob: &Arc<OpenBlob>, at_once: bool) {
        let mut hasher = Hasher::default();
        loop {
            let before = hasher.size();
            let Ok(next) = blob.hash_piece(hasher).await else {
                return blob.mark_damaged();
            };
            hasher = next;
            if hasher.size() == before {
                if hasher.finish() != blob.digest() {
                    blob.mark_damaged();
                }
                return;
            }
            if !at_once {
                self.pause(hasher.size() - before).await;
            }
        }
    }

    /// Waits as long as reading these bytes is to take.
    async fn pause(&self, bytes: u64) {
        let rate = self.context.scrub.borrow().rate;
        let seconds = bytes as f64 / rate.get() as f64;
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    }

    /// Logs and counts damage.
    fn tell(&self, file: &str, damage: &str) {
        let name = &self.followed.name;
        counter!(
            "almanac_stored_damage_total",
            "catalog" => name.to_string(), "file" => file.to_owned()
        )
        .increment(1);
        tracing::error!(catalog = %name, error = damage, "a stored file is damaged");
    }

    /// Shows damage and its repair.
    fn note(&self, files: Vec<String>, repair: Repair) {
        let found = SystemTime::now();
        let damaged = Arc::new(Damaged {
            found,
            files,
            repair,
        });
        self.publisher
            .update(|status| status.damage = Some(damaged));
    }

    /// Makes a revision again from its metas, or has its source read again. Whether
    /// to try again later.
    async fn repair(&self, revision: &Revision) -> bool {
        let (name, source) = (&self.followed.name, &self.followed.source);
        let error = match self.rebuild(revision).await {
            Ok(true) => {
                tracing::info!(catalog = %name, "the stored files were made again from the metas");
                return false;
            }
            // Another revision came meanwhile.
            Ok(false) => return false,
            Err(error) => error,
        };
        // Not for want of room, or the like.
        let is_lost = matches!(
            error.cause,
            Cause::Store(StoreError::Damaged(_)) | Cause::Refused(_) | Cause::Panicked(_)
        );
        let is_served = self.publisher.snapshot().is_some();
        if is_served && !is_lost {
            tracing::warn!(catalog = %name, "the stored files cannot be made again: {error}");
            return true;
        }
        if is_served {
            let damage = format!("metas.jsonl: {error}");
            self.tell("metas.jsonl", &damage);
            self.note(vec![damage], Repair::Reading);
            self.publisher.withdraw();
        }
        tracing::warn!(
            catalog = %name, %source,
            "the stored files cannot be made again, the source is read again: {error}"
        );
        self.publisher.set_repair(Repair::Reading);
        self.publisher.read_again.notify_one();
        !is_lost
    }

    /// Makes a revision again from its metas, if they are whole, and publishes it.
    /// `false` when it is not the current one any more.
    async fn rebuild(&self, revision: &Revision) -> Result<bool, PassError> {
        let (store, name) = (&self.context.store, &self.followed.name);
        // Held to the end, so that no pass commits another revision meanwhile.
        let permit = self.context.read_permit().await;
        let failed = PassError::at(Stage::Read);
        let current = store.current(name).await.map_err(&failed)?;
        if current.is_none_or(|current| current.id != revision.id) {
            return Ok(false);
        }
        let (work, of, old) = (store.clone(), name.clone(), revision.clone());
        let written = blocking_with_permit(Stage::Read, &permit, move || {
            let metas = work
                .copy_of_metas(&old)
                .map_err(PassError::at(Stage::Read))?;
            let files = CatalogFiles {
                paths: vec!["catalog.json".into()],
                contents: vec![metas],
            };
            let stages = StageTracker::at(Stage::Read);
            let written = write_revision(&work, &stages, &of, files, OnInvalid::Quarantine)?;
            if written.finished.content == old.content {
                return Ok(written);
            }
            let damage = Damage {
                path: PathBuf::from("metas.jsonl"),
                reason: "its lines are not those that were written".into(),
            };
            Err(PassError::at(Stage::Read)(StoreError::from(damage)))
        })
        .await?;
        let problems = store.problems(revision.id).await.map_err(&failed)?;
        let blobs = store.blobs_of(revision.id).await.map_err(&failed)?;
        let image = store.image(revision.id).await.map_err(&failed)?;
        let new = NewRevision {
            catalog: name,
            identity: revision.identity.clone(),
            digest: revision.digest,
            counts: written.counts,
            blobs: &blobs,
            problems: &problems,
            search: &written.search,
        };
        let made = store.commit(written.finished, new).await.map_err(&failed)?;
        if let Some(image) = &image {
            store.record_image(made.id, image).await.map_err(&failed)?;
        }
        let (work, opening) = (store.clone(), made.clone());
        let snapshot = blocking(Stage::Publish, move || {
            Snapshot::open(&work, opening).map_err(PassError::at(Stage::Publish))
        })
        .await?;
        announce(
            &snapshot,
            &problems,
            "serving the stored revision, made again",
        );
        self.publisher
            .update(|status| status.problems = problems.into());
        self.publisher.publish(snapshot);
        if let Err(error) = store.retire(&made).await {
            tracing::warn!(%error, "cannot remove old revisions");
        }
        Ok(true)
    }

    /// Tells of damaged blobs, once each, and has their image made again.
    fn report_blobs(&self, reported: &mut HashSet<PathBuf>) {
        let image = self.images.image();
        let mut damaged = Vec::new();
        for image in self.images.images() {
            let parts = image.parts().filter(|blob| blob.is_damaged());
            damaged.extend(parts.map(Arc::clone));
        }
        let mut told = Vec::new();
        for blob in &damaged {
            if reported.insert(blob.path().to_owned()) {
                let text = format!("{} does not have its digest", blob.path().display());
                self.tell("blob", &text);
                told.push(text);
                // It is fetched or made again.
                self.context.store.contents().remove_blob(&blob.digest());
            }
        }
        if !told.is_empty() {
            self.note(told, Repair::Rebuilding);
            self.images.make_again.notify_one();
        }
        let whole = image.is_some_and(|image| image.parts().all(|blob| !blob.is_damaged()));
        if whole && self.publisher.snapshot().is_some() {
            reported.clear();
            if self.publisher.status().is_damaged() {
                self.publisher.set_repair(Repair::Done);
            }
        }
    }
}
