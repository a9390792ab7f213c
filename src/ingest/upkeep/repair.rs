//! Repairing stored files that are damaged, from what is whole: a revision from its
//! metas, other encodings from these, an image from its revision or its registry.
//! Damaged metas are read from the source again.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::fleet::{SharedTrack, Track};
use crate::ingest::catalog_metrics::{self, announce};
use crate::ingest::context::PassContext;
use crate::ingest::error::{Cause, PassError, Stage};
use crate::ingest::followed::{Followed, OnInvalid};
use crate::ingest::pass::make_revision::{Content, write_revision};
use crate::ingest::read::files::CatalogFiles;
use crate::ingest::stages::{StageTracker, blocking, blocking_with_permit};
use crate::snapshot::{Damaged, ImagePublisher, Publisher, Repair, Snapshot};
use crate::store::{Damage, Encoding, NewRevision, Revision, RevisionId, StoreError};

/// The time until a repair that failed for want of room, or the like, is tried again.
const RETRY: Duration = Duration::from_mins(1);
/// The time until files that could not be read are read again, while nothing is served.
const REREAD: Duration = Duration::from_secs(2);

/// How often they are read again before they are rebuilt from those that can be read.
const REREADS: u32 = 4;

/// What was tried to repair a stored revision that is not served.
#[derive(Default)]
pub(crate) struct Tries {
    /// The revision that cannot be repaired.
    given_up: Option<RevisionId>,
    /// How often in a row its files could not be read.
    unread: u32,
}

/// Repairs the stored files of a catalog.
pub(crate) struct Repairer {
    pub(crate) context: PassContext,
    pub(crate) followed: Followed,
    pub(crate) publisher: Publisher,
    pub(crate) images: ImagePublisher,
    /// In a fleet, from where damaged files are fetched again.
    pub(crate) track: Track,
}

impl Repairer {
    /// Repairs a stored revision that is not served for its damage, unless that was
    /// given up. One whose files are whole is served again. Returns the wait until the
    /// next try, if there is one.
    pub(crate) async fn repair_stored(&self, tries: &mut Tries) -> Option<Duration> {
        match self.context.store.current(&self.followed.name).await {
            Ok(Some(revision)) if tries.given_up != Some(revision.id) => {
                // A replica fetches its files, or finds that it has them.
                if self.track.shared().is_none() {
                    match self.serve_again(&revision).await {
                        Ok(()) => {
                            tries.unread = 0;
                            return None;
                        }
                        Err(error) if is_of_disk(&error.cause) => {
                            tracing::warn!(
                                catalog = %self.followed.name, %error,
                                "the stored files cannot be read; they are read again"
                            );
                            if tries.unread == 0 {
                                self.read_source();
                            }
                            tries.unread += 1;
                            // After so many tries, the repair uses the readable files.
                            if !tries.unread.is_multiple_of(REREADS) {
                                return Some(REREAD);
                            }
                        }
                        Err(_) => tries.unread = 0,
                    }
                }
                let again = self.repair(&revision).await;
                tries.given_up = (!again).then_some(revision.id);
                again.then_some(if tries.unread > 0 { REREAD } else { RETRY })
            }
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(%error, "cannot look up the stored revision");
                Some(REREAD)
            }
        }
    }

    /// Serves a revision again whose files are all whole: they could not be read for a
    /// while.
    async fn serve_again(&self, revision: &Revision) -> Result<(), PassError> {
        let (store, id) = (&self.context.store, revision.id);
        // Held to the end, so that no pass commits another revision meanwhile.
        let permit = self.context.read_permit().await;
        let failed = PassError::at(Stage::Read);
        let current = store.current(&self.followed.name).await.map_err(&failed)?;
        let is_current = current.is_some_and(|current| current.id == id);
        if !is_current || self.publisher.snapshot().is_some() {
            return Ok(());
        }
        if revision.files.is_empty() || !self.followed.may_serve(revision) {
            return Err(failed(StoreError::KnownDamage(id)));
        }
        let problems = store.problems(id).await.map_err(&failed)?;
        let (work, opening) = (store.clone(), revision.clone());
        let snapshot = blocking_with_permit(Stage::Read, &permit, move || {
            let verified = work.verify_all(&opening);
            let opened = verified.and_then(|()| Snapshot::open(&work, opening));
            opened.map_err(PassError::at(Stage::Read))
        })
        .await?;
        if revision.damaged
            && let Err(error) = store.record_damage(id, false).await
        {
            tracing::warn!(%error, "cannot record that the files are whole");
        }
        announce(
            &snapshot,
            &problems,
            None,
            "serving the stored revision: its files are whole",
        );
        self.publisher
            .update(|status| status.problems = problems.into());
        self.publisher.publish(snapshot);
        Ok(())
    }

    /// Has the source read again, whatever its digest is.
    fn read_source(&self) {
        self.publisher.set_repair(Repair::Reading);
        self.publisher.read_again.notify_one();
    }

    /// Takes an encoding with a damaged file from all clients. It is encoded again.
    pub(crate) async fn drop_encoding(
        &self,
        snapshot: &Snapshot,
        encoding: Encoding,
        name: &str,
        damage: &StoreError,
    ) {
        // Before clients lose it: the encoder makes what they do not have.
        self.drop_files(snapshot, encoding.files(), name, damage)
            .await;
        snapshot.set_encoded(encoding, None);
        if let Some(served) = self.publisher.snapshot() {
            served.give_back(encoding);
        }
        self.publisher.announce();
    }

    /// Takes a damaged encoding of an earlier revision from all clients. The own one is
    /// made meanwhile of verified bytes.
    pub(crate) fn drop_lent(&self, snapshot: &Snapshot, encoding: Encoding) {
        snapshot.give_back(encoding);
        let damage = Damage {
            path: encoding.file().into(),
            reason: "the bytes of the previous revision differ from those that were written".into(),
        };
        self.tell(encoding.file(), &damage.to_string());
        self.note(vec![damage.to_string()], Repair::Done);
    }

    /// Removes a damaged file that the revision does without.
    pub(crate) async fn drop_file(&self, snapshot: &Snapshot, name: &str, damage: &StoreError) {
        self.drop_files(snapshot, &[name], name, damage).await;
    }

    async fn drop_files(
        &self,
        snapshot: &Snapshot,
        files: &[&str],
        name: &str,
        damage: &StoreError,
    ) {
        self.tell(name, &damage.to_string());
        let store = &self.context.store;
        for file in files {
            let removed = store.remove_file(snapshot.revision().id, file);
            if let Err(error) = removed.await {
                tracing::warn!(%error, "cannot remove a damaged file");
            }
        }
        self.note(vec![damage.to_string()], Repair::Done);
    }

    /// Takes a revision with a damaged file, or one that cannot be read, from all clients.
    /// A replica fetches its files again. Otherwise the regular verification, which this
    /// wakes, repairs all of them.
    pub(crate) async fn withdraw(&self, revision: RevisionId, name: &str, damage: &StoreError) {
        self.note(vec![damage.to_string()], Repair::Rebuilding);
        self.publisher.withdraw();
        if let Some(track) = self.track.shared() {
            track.withdrawn();
        }
        if damage.is_of_disk() {
            tracing::error!(
                catalog = %self.followed.name, error = %damage,
                "a stored file cannot be read, so the catalog is not served"
            );
        } else {
            self.tell(name, &damage.to_string());
            if let Err(error) = self.context.store.record_damage(revision, true).await {
                tracing::warn!(%error, "cannot record the damage");
            }
        }
        // After the record, which counts for the number: the fetched files have the same.
        if let Some(track) = self.track.shared() {
            self.fetch_again(track);
        }
    }

    fn fetch_again(&self, track: &SharedTrack) {
        tracing::info!(catalog = %self.followed.name, "the stored files are fetched again");
        track.fetch_again();
    }

    /// Rebuilds a revision whose records are damaged, which writes new ones: the
    /// database does not have all that they say. The revision is served meanwhile.
    pub(crate) async fn repair_records(
        &self,
        revision: &Revision,
        damaged: &[(&'static str, Damage)],
    ) {
        let files = damaged.iter().map(|(_, damage)| damage.to_string());
        self.note(files.collect(), Repair::Rebuilding);
        for (name, damage) in damaged {
            self.tell(name, &damage.to_string());
        }
        self.repair(revision).await;
    }

    /// Rebuilds a revision from its metas, or has its source read again. Whether
    /// to try again later.
    pub(crate) async fn repair(&self, revision: &Revision) -> bool {
        let (name, source) = (&self.followed.name, &self.followed.source);
        if let Some(track) = self.track.shared() {
            self.fetch_again(track);
            return false;
        }
        let error = match self.rebuild(revision).await {
            Ok(true) => {
                tracing::info!(catalog = %name, "the stored files were rebuilt from the metas");
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
            tracing::warn!(catalog = %name, "the stored files cannot be rebuilt: {error}");
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
            "the stored files cannot be rebuilt, the source is read again: {error}"
        );
        self.read_source();
        !is_lost
    }

    /// Rebuilds a revision from its metas, if they are whole, and publishes it.
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
        let problems = store.problems(revision.id).await.map_err(&failed)?;
        let known = problems.clone();
        let (work, of, old) = (store.clone(), name.clone(), revision.clone());
        let written = blocking_with_permit(Stage::Read, &permit, move || {
            let metas = work
                .copy_of_metas(&old)
                .map_err(PassError::at(Stage::Read))?;
            let files = CatalogFiles::new(vec!["catalog.json".into()], vec![metas]);
            let stages = StageTracker::at(Stage::Read);
            let content = Content::Lines(files, known);
            let written = write_revision(&work, &stages, &of, content, OnInvalid::Quarantine)?;
            if written.finished.content == old.content {
                return Ok(written);
            }
            let damage = Damage {
                path: PathBuf::from("metas.jsonl"),
                reason: "its lines differ from those that were written".into(),
            };
            Err(PassError::at(Stage::Read)(StoreError::from(damage)))
        })
        .await?;
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
        let (work, opening, old) = (store.clone(), made.clone(), revision.clone());
        let snapshot = blocking(Stage::Publish, move || {
            let opened = Snapshot::open(&work, opening);
            let snapshot = opened.map_err(PassError::at(Stage::Publish))?;
            snapshot.copies_from_stored(&work, &old);
            Ok(snapshot)
        })
        .await?;
        announce(&snapshot, &problems, None, "serving the rebuilt revision");
        self.publisher
            .update(|status| status.problems = problems.into());
        self.publisher.publish(snapshot);
        if let Err(error) = store.retire(&made).await {
            tracing::warn!(%error, "cannot remove old revisions");
        }
        Ok(true)
    }

    /// Tells of damaged blobs, once each, and has their image rebuilt.
    pub(crate) async fn report_blobs(&self, reported: &mut HashSet<PathBuf>) {
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
                self.tell(catalog_metrics::BLOB, &text);
                told.push(text);
                // It is fetched or rebuilt.
                let (contents, digest) = (self.context.store.contents().clone(), blob.digest());
                let removing = tokio::task::spawn_blocking(move || contents.remove_blob(&digest));
                // A panic has been logged.
                let _ = removing.await;
            }
        }
        if !told.is_empty() {
            self.note(told, Repair::Rebuilding);
            match self.track.shared() {
                Some(track) => track.check_image(),
                None => self.images.rebuild.notify_one(),
            }
        }
        let whole = image.is_some_and(|image| image.parts().all(|blob| !blob.is_damaged()));
        if whole && self.publisher.snapshot().is_some() {
            // Other repairs end with a publication.
            if !reported.is_empty() && self.publisher.status().is_damaged() {
                self.publisher.set_repair(Repair::Done);
            }
            reported.clear();
        }
    }

    /// Logs and counts damage.
    pub(crate) fn tell(&self, file: &str, damage: &str) {
        let name = &self.followed.name;
        catalog_metrics::damage(name, file).increment(1);
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
}

/// Whether the disk refused to read, which says nothing about the files.
fn is_of_disk(cause: &Cause) -> bool {
    matches!(cause, Cause::Store(error) if error.is_of_disk())
}
