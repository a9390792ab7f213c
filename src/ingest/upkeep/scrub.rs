//! Verifying stored files: after each publication, whenever their size or date
//! changes, and then at intervals. `repair` withdraws and rebuilds damaged ones.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use metrics::gauge;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::fleet::Track;
use crate::ingest::catalog_metrics::{begin_damage, unix};
use crate::ingest::context::PassContext;
use crate::ingest::followed::Followed;
use crate::ingest::retry::sleep;
use crate::ingest::upkeep::repair::{Repairer, Tries};
use crate::snapshot::{ImagePublisher, Publisher, Snapshot};
use crate::store::content::OpenBlob;
use crate::store::{
    Damage, Encoding, FileSum, PIECES, RevisionId, Stamps, StoreError, until_damaged_use,
};
use ::images::digest::Hasher;

/// The time between two looks at sizes and dates.
const LOOK: Duration = Duration::from_secs(2);

/// Verifies the stored files of a catalog until it is stopped.
pub async fn scrub(
    context: PassContext,
    followed: Followed,
    publisher: Publisher,
    images: ImagePublisher,
    track: Track,
    stop: CancellationToken,
) {
    begin_damage(&followed.name);
    let span = tracing::info_span!("scrub", catalog = %followed.name);
    let scrubber = Scrubber {
        context: context.clone(),
        publisher: publisher.clone(),
        images: images.clone(),
        repairer: Repairer {
            context,
            followed,
            publisher,
            images,
            track,
        },
        removing: Mutex::default(),
    };
    let scrubbing = Box::pin(scrubber.run().instrument(span));
    stop.run_until_cancelled(scrubbing).await;
}

struct Scrubber {
    context: PassContext,
    publisher: Publisher,
    images: ImagePublisher,
    repairer: Repairer,
    /// Held while files are removed: two verifications may find the same damage.
    removing: Mutex<()>,
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
        let mut tries = Tries::default();
        let mut has_served = false;
        loop {
            publications.mark_unchanged();
            let mut wait = settings.borrow_and_update().interval;
            if let Some(snapshot) = self.publisher.snapshot() {
                has_served = true;
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
                // A replica fetches it again as soon as it withdraws it, also one that the
                // next start would not serve yet.
                && !(has_served && self.repairer.track.shared().is_some())
                && let Some(again) = self.repairer.repair_stored(&mut tries).await
            {
                wait = Some(again);
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
        let (mut files, mut records, mut last) = (None, None, None);
        let mut reported = HashSet::new();
        loop {
            publications.mark_unchanged();
            if let Some(snapshot) = self.publisher.snapshot() {
                let revision = snapshot.revision();
                if last.replace(revision.id) != Some(revision.id) {
                    self.verify_lent(&snapshot).await;
                }
                let (files_now, records_now) = self.stamps(&snapshot).await.unzip();
                let is_written = |last: &mut Option<(RevisionId, Stamps)>, now| {
                    let Some(now): Option<Stamps> = now else {
                        return false;
                    };
                    let before = last.replace((revision.id, now.clone()));
                    before.is_some_and(|(id, before)| id == revision.id && now.differ(&before))
                };
                let are_records_written = is_written(&mut records, records_now);
                if is_written(&mut files, files_now) || snapshot.has_damage() {
                    self.verify(&snapshot, true).await;
                    if snapshot.has_damage() && self.is_served(&snapshot) {
                        self.verify_lent(&snapshot).await;
                        self.drop_unsendable(&snapshot).await;
                    }
                    if snapshot.is_damaged() && self.is_served(&snapshot) {
                        // The files are whole by now. They are opened again.
                        let error = StoreError::KnownDamage(revision.id);
                        self.repairer
                            .withdraw(revision.id, "metas.jsonl", &error)
                            .await;
                    }
                } else if are_records_written {
                    self.verify_records(&snapshot).await;
                }
            }
            self.repairer.report_blobs(&mut reported).await;
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                Ok(()) = publications.changed() => {}
                () = self.images.damaged() => {}
                () = until_damaged_use() => {}
            }
        }
    }

    /// The stamps of a snapshot's files, also those in the encodings that it has, and
    /// those of its records.
    async fn stamps(&self, snapshot: &Arc<Snapshot>) -> Option<(Stamps, Stamps)> {
        let (store, snapshot) = (self.context.store.clone(), Arc::clone(snapshot));
        let looking = tokio::task::spawn_blocking(move || {
            let revision = snapshot.revision();
            let mut encodings = Encoding::ALL.to_vec();
            encodings.retain(|encoding| snapshot.encoded(*encoding).is_some());
            let stamps = store.stamps(revision, &encodings);
            (stamps, store.record_stamps(revision.id))
        });
        looking.await.ok()
    }

    /// Compares all files of a snapshot with their sums, and acts on damage.
    /// `at_once` means without waiting for other catalogs and at full speed.
    async fn verify(&self, snapshot: &Arc<Snapshot>, at_once: bool) {
        let (store, revision) = (&self.context.store, snapshot.revision());
        if revision.files.is_empty() {
            // Of a version without sums. Rebuilding compares the digest of its lines.
            tracing::info!(revision = %revision.id, "adding checksums to the stored revision");
            self.repairer.repair(revision).await;
            return;
        }
        let turn = async {
            // Never closed.
            self.context.scrubbing.acquire().await.ok()
        };
        let turn = tokio::select! {
            turn = turn, if !at_once => turn,
            () = self.until_not_served(snapshot), if !at_once => return,
            else => None,
        };
        let sums = match store.sums(revision.id).await {
            Ok(sums) => sums,
            Err(error) => return tracing::warn!(%error, "cannot verify the stored files"),
        };
        for (name, sum) in sums {
            let encoding = Encoding::from_file_name(&name);
            if encoding.is_some_and(|encoding| snapshot.encoded(encoding).is_none()) {
                // It was not whole at the start, and is being encoded again.
                continue;
            }
            let compared = self.compare(snapshot, &name, sum, at_once).await;
            let is_served = self.is_served(snapshot);
            if is_served && compared.is_ok() {
                continue;
            }
            let (true, Err(error)) = (is_served, compared) else {
                // The files of a replaced revision are gone. If not, the next one with the
                // same content must not send them.
                if let Some(served) = self.publisher.snapshot() {
                    self.verify_lent(&served).await;
                }
                return;
            };
            let is_needed = encoding.is_none() && name != PIECES;
            if error.is_of_disk() && !is_needed {
                // Not damage: it is compared again.
                tracing::warn!(%error, "cannot verify a stored file");
                continue;
            }
            // At once: comparing the other files takes time.
            if is_needed {
                return self.repairer.withdraw(revision.id, &name, &error).await;
            }
            self.remove(snapshot, encoding, &name).await;
        }
        for image in self.images.images() {
            for blob in image.parts().filter(|blob| !blob.is_damaged()) {
                self.hash(blob, snapshot, at_once).await;
            }
        }
        if !self.is_served(snapshot) {
            return;
        }
        let now = SystemTime::now();
        self.publisher.update(|status| status.verified = Some(now));
        gauge!(
            "almanac_last_verification_timestamp_seconds",
            "catalog" => self.publisher.name.to_string()
        )
        .set(unix(now));
        drop(turn);
        self.verify_records(snapshot).await;
    }

    /// Compares the encodings that a snapshot sends of an earlier one with their sums. The
    /// files are gone, so their maps are compared.
    async fn verify_lent(&self, snapshot: &Arc<Snapshot>) {
        let _removing = self.removing.lock().await;
        let lent = snapshot.lent();
        let comparing = tokio::task::spawn_blocking(move || {
            let damaged = lent.into_iter().filter(|(_, file)| !file.is_undamaged());
            damaged.map(|(encoding, _)| encoding).collect::<Vec<_>>()
        });
        // A panic, which the hook has logged, says nothing about the files.
        for encoding in comparing.await.unwrap_or_default() {
            self.repairer.drop_lent(snapshot, encoding);
        }
    }

    /// Drops the encodings whose maps were found damaged and whose files are whole by now:
    /// the maps may be of other files. They are made again.
    async fn drop_unsendable(&self, snapshot: &Arc<Snapshot>) {
        let _removing = self.removing.lock().await;
        for (encoding, is_own) in snapshot.damaged_encodings() {
            if !is_own {
                self.repairer.drop_lent(snapshot, encoding);
                continue;
            }
            let name = encoding.file();
            let damage = Damage {
                path: name.into(),
                reason: "the bytes to send differ from those that were written".into(),
            };
            self.repairer
                .drop_encoding(snapshot, encoding, name, &damage.into())
                .await;
        }
    }

    /// Removes a damaged file that the revision does without, unless it was removed and
    /// made again since it was compared.
    async fn remove(&self, snapshot: &Arc<Snapshot>, encoding: Option<Encoding>, name: &str) {
        let _removing = self.removing.lock().await;
        let (store, revision) = (&self.context.store, snapshot.revision());
        let mut sums = match store.sums(revision.id).await {
            Ok(sums) => sums,
            Err(error) => return tracing::warn!(%error, "cannot verify the stored files"),
        };
        if encoding.is_some_and(|encoding| snapshot.encoded(encoding).is_none()) {
            return;
        }
        let Some(sum) = sums.remove(name) else {
            return;
        };
        let Err(error) = self.compare(snapshot, name, sum, true).await else {
            return;
        };
        let repairer = &self.repairer;
        match encoding {
            Some(encoding) => {
                repairer
                    .drop_encoding(snapshot, encoding, name, &error)
                    .await;
            }
            // No client waits for it: it is left out, and answers go on.
            None => repairer.drop_file(snapshot, name, &error).await,
        }
    }

    /// Compares the records of a snapshot with their sums, and acts on damage.
    async fn verify_records(&self, snapshot: &Arc<Snapshot>) {
        let revision = snapshot.revision();
        let damaged = match self.context.store.damaged_records(revision.id).await {
            Ok(damaged) => damaged,
            Err(error) => return tracing::warn!(%error, "cannot verify the records"),
        };
        // The folder of a replaced revision is gone.
        if !damaged.is_empty() && self.is_served(snapshot) {
            self.repairer.repair_records(revision, &damaged).await;
        }
    }

    fn is_served(&self, snapshot: &Arc<Snapshot>) -> bool {
        let served = self.publisher.snapshot();
        served.is_some_and(|served| Arc::ptr_eq(&served, snapshot))
    }

    /// Compares a file with its sums, a block at a time. Ends early once the snapshot is not
    /// served any more.
    ///
    /// # Errors
    /// When the file is damaged, or cannot be read after several tries.
    async fn compare(
        &self,
        snapshot: &Arc<Snapshot>,
        name: &str,
        sum: FileSum,
        at_once: bool,
    ) -> Result<(), StoreError> {
        let (store, of) = (self.context.store.clone(), name.to_owned());
        let revision = snapshot.revision().id;
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
            if !at_once && !self.pause(read as u64, snapshot).await {
                return Ok(());
            }
        }
    }

    /// Compares a blob with its digest.
    async fn hash(&self, blob: &Arc<OpenBlob>, snapshot: &Arc<Snapshot>, at_once: bool) {
        let mut hasher = Hasher::default();
        loop {
            let before = hasher.size();
            // Not damage: it is read again before it is sent, and at the next verification.
            hasher = match blob.hash_piece(hasher).await {
                Ok(next) => next,
                Err(error) => return tracing::warn!(%error, "cannot verify a blob"),
            };
            if hasher.size() == before {
                if hasher.finish() != blob.digest() {
                    blob.mark_damaged();
                }
                return;
            }
            if !at_once && !self.pause(hasher.size() - before, snapshot).await {
                return;
            }
        }
    }

    /// Waits as long as reading these bytes is to take. `false` once the snapshot is not
    /// served any more: a repair does not wait for its verification.
    async fn pause(&self, bytes: u64, snapshot: &Arc<Snapshot>) -> bool {
        let rate = self.context.scrub.borrow().rate;
        let seconds = bytes as f64 / rate.get() as f64;
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs_f64(seconds)) => true,
            () = self.until_not_served(snapshot) => false,
        }
    }

    /// Waits until a snapshot is withdrawn or replaced.
    async fn until_not_served(&self, snapshot: &Arc<Snapshot>) {
        let mut publications = self.context.catalogs.publications();
        while self.is_served(snapshot) {
            // Never closed: the context has the catalogs.
            let _ = publications.changed().await;
        }
    }
}
