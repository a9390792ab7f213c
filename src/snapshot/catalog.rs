//! One catalog, between ingest and serve: a slot that holds its latest snapshot
//! and its status. Ingest has the writing end ([`Publisher`]), serve the reading
//! end ([`Catalog`]). A reader keeps the snapshot that it took.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::name::CatalogName;
use crate::snapshot::Snapshot;
use crate::snapshot::announced::AnnouncedBy;
use crate::snapshot::attempt::AttemptFailure;
use crate::snapshot::pass_hours::PassHours;
use crate::store::Pass;
use ::images::digest::Digest;
use fbc::problem::Problem;

/// The reading end of one catalog. Cheap to clone.
#[derive(Clone)]
pub struct Catalog {
    /// Its name.
    pub name: CatalogName,
    /// Whether and how clients find it.
    pub routing: Routing,
    snapshot: watch::Receiver<Option<Arc<Snapshot>>>,
    status: watch::Receiver<Status>,
}

/// Whether and how clients find a catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// Authorities (hosts without port, lower case) that select it.
    pub authorities: Vec<String>,
    /// Whether clients get "not found" although the catalog is followed.
    pub withheld: bool,
    /// The party that announces its digests in the cluster.
    pub announced: AnnouncedBy,
}

/// The writing end of one catalog. Cheap to clone; published snapshots stay
/// readable after the last clone is dropped.
#[derive(Clone)]
pub struct Publisher {
    /// Its name.
    pub name: CatalogName,
    snapshot: watch::Sender<Option<Arc<Snapshot>>>,
    status: watch::Sender<Status>,
    publications: watch::Sender<u64>,
    /// Asks for a pass that reads the source, whatever its digest is.
    pub read_again: Arc<Notify>,
    /// Held while a revision is committed and published.
    pub committing: Arc<tokio::sync::Mutex<()>>,
}

/// The state of following a catalog.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Its source, as it was configured.
    pub source: String,
    /// The repository that answered the last request for the source; it may be
    /// a mirror's.
    pub served_by: Option<String>,
    /// The scope and the requirements of the policy by which the last pulled
    /// image came in.
    pub admitted_by: Option<String>,
    /// Whether the first pass since the start has ended, or a stored revision is
    /// served: until then almanac is not ready.
    pub first_attempt_done: bool,
    /// When the last successful attempt to read the source began; `None` before it,
    /// since the start or since the source changed.
    pub resolved: Option<Instant>,
    /// Why the last attempt to read the source failed, if it did.
    pub failure: Option<AttemptFailure>,
    /// When the last pass ended, with or without success.
    pub last_pass: Option<SystemTime>,
    /// When the next pass is due; `None` if the source is not polled.
    pub next_pass: Option<SystemTime>,
    /// The source of the stored revision, which is another one and not served.
    pub other_source: Option<String>,
    /// Why no revision is served, and no pass will change that: almanac is offline.
    pub blocked: Option<String>,
    /// How many passes in a row failed.
    pub failures: u32,
    /// The passes of the last day since the start.
    pub passes: PassHours,
    /// The last pass that changed something or failed.
    pub pass: Option<Pass>,
    /// The problems of the served revision.
    pub problems: Arc<[Problem]>,
    /// The problems of the catalog that the last pass refused, if it did.
    pub refused: Arc<[Problem]>,
    /// Whether the policy refused the image of the last pass.
    pub image_refused: bool,
    /// Why the image for clients cannot be made of the served revision, as of the last try.
    pub image_error: Option<String>,
    /// Attestations and signatures of the served image that its source does not have.
    pub image_left_out: Vec<Digest>,
    /// When all stored files were last found whole.
    pub verified: Option<SystemTime>,
    /// The last damage of stored files.
    pub damage: Option<Arc<Damaged>>,
}

impl Status {
    /// Takes a source. What was found out about another one no longer counts.
    pub fn set_source(&mut self, source: String) {
        if self.source != source {
            self.source = source;
            self.resolved = None;
            self.failure = None;
        }
    }

    /// Notes an attempt to read the source that succeeded, and when it began.
    pub fn set_resolved(&mut self, began: Instant) {
        self.resolved = Some(began);
        self.failure = None;
    }

    /// Whether stored files are damaged and not repaired yet.
    pub fn is_damaged(&self) -> bool {
        let damage = self.damage.as_ref();
        damage.is_some_and(|damage| damage.repair != Repair::Done)
    }
}

/// Whether a catalog is served, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = CatalogState)]
pub enum State {
    /// Set unavailable.
    Unavailable,
    /// A revision is served.
    Serving,
    /// The stored files are damaged, and no others are made yet.
    Damaged,
    /// There is nothing yet.
    Loading,
    /// There is nothing yet, and the last pass failed or there will be none.
    Failing,
}

/// Why the last pass brought no content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stale {
    /// The source could not be read.
    Unread,
    /// The image of the source, or its content, was refused.
    Refused,
}

/// Damage of the stored files of a catalog.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Damaged {
    /// When it was found.
    #[serde(skip)]
    pub found: SystemTime,
    /// The files, and what is wrong with each.
    pub files: Vec<String>,
    /// The repair.
    pub repair: Repair,
}

/// The treatment of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Repair {
    /// The files are rebuilt from other stored files.
    Rebuilding,
    /// The source is read again.
    Reading,
    /// The files are whole again.
    Done,
}

/// A slot for a catalog: its reading and its writing ends.
pub(super) fn slot(
    name: CatalogName,
    routing: Routing,
    publications: watch::Sender<u64>,
) -> (Catalog, Publisher) {
    let (snapshot_sender, snapshot) = watch::channel(None);
    let (status_sender, status) = watch::channel(Status::default());
    let publisher = Publisher {
        name: name.clone(),
        snapshot: snapshot_sender,
        status: status_sender,
        publications,
        read_again: Arc::default(),
        committing: Arc::default(),
    };
    let catalog = Catalog {
        name,
        routing,
        snapshot,
        status,
    };
    (catalog, publisher)
}

impl Catalog {
    /// The same catalog with other routing.
    #[must_use]
    pub fn routed(&self, routing: Routing) -> Self {
        Self {
            routing,
            ..self.clone()
        }
    }

    /// The snapshot that is served now, or else after the first attempt; `None`
    /// when that fails.
    pub async fn after_first_attempt(&self) -> Option<Arc<Snapshot>> {
        let snapshot = self.snapshot();
        if snapshot.is_some() {
            return snapshot;
        }
        let mut status = self.status.clone();
        // An error means that there are no writers any more.
        let _ = status.wait_for(|status| status.first_attempt_done).await;
        self.snapshot()
    }

    /// Whether the first attempt is done.
    pub(super) fn first_attempt_done(&self) -> bool {
        self.status.borrow().first_attempt_done
    }

    /// Whether both read the same slot. A catalog gets another one when its source
    /// changes.
    pub fn has_slot_of(&self, other: &Self) -> bool {
        self.snapshot.same_channel(&other.snapshot)
    }

    /// The snapshot that is served now; `None` before the first revision, and while a file
    /// of it is damaged.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        let snapshot = self.snapshot.borrow().clone();
        snapshot.filter(|snapshot| !snapshot.is_damaged())
    }

    /// Whether the served revision is what its source had after this moment.
    pub fn was_resolved_after(&self, moment: Instant) -> bool {
        let status = self.status.borrow();
        let is_later = status.resolved.is_some_and(|began| began >= moment);
        let snapshot = self.snapshot.borrow();
        let revision = snapshot.as_ref().map(|snapshot| snapshot.revision());
        is_later && revision.is_some_and(|revision| revision.identity.source == status.source)
    }

    /// Whether it is served, and if not, why.
    pub fn state(&self) -> State {
        let status = self.status.borrow();
        let serving = self.snapshot.borrow().is_some();
        match status.failures {
            _ if self.routing.withheld => State::Unavailable,
            _ if serving => State::Serving,
            _ if status.is_damaged() => State::Damaged,
            0 if status.blocked.is_none() => State::Loading,
            _ => State::Failing,
        }
    }

    /// The state of following it.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// The problems of the content that the last pass refused, if it did.
    pub fn refused(&self) -> Arc<[Problem]> {
        Arc::clone(&self.status.borrow().refused)
    }

    /// Why a served revision may be older than the source, if the last pass failed.
    pub fn stale(&self) -> Option<Stale> {
        let status = self.status.borrow();
        let is_refused = status.image_refused || !status.refused.is_empty();
        match (status.failures, is_refused) {
            (0, _) => None,
            (_, false) => Some(Stale::Unread),
            (_, true) => Some(Stale::Refused),
        }
    }

    /// How many problems the served revision has.
    pub fn problems(&self) -> usize {
        self.status.borrow().problems.len()
    }
}

impl Publisher {
    /// Replaces the snapshot for all readers. The first attempt is done.
    pub fn publish(&self, snapshot: Snapshot) {
        self.replace(snapshot);
        self.update(|status| status.first_attempt_done = true);
    }

    /// Replaces the snapshot for all readers.
    pub fn replace(&self, snapshot: Snapshot) {
        if let Some(before) = self.snapshot() {
            snapshot.follow(&before);
            snapshot.copies_from(&before);
            before.end_encodings();
        }
        self.snapshot.send_replace(Some(Arc::new(snapshot)));
        self.set_repair(Repair::Done);
        self.announce();
    }

    /// Takes a damaged snapshot from all readers.
    pub fn withdraw(&self) {
        if let Some(snapshot) = self.snapshot.send_replace(None) {
            snapshot.mark_damaged();
            snapshot.end_encodings();
        }
        self.announce();
    }

    /// Tells readers to look at the snapshot again.
    pub fn announce(&self) {
        self.publications.send_modify(|count| *count += 1);
    }

    /// Notes what is done about the last damage.
    pub fn set_repair(&self, repair: Repair) {
        self.update(|status| {
            if let Some(damage) = &mut status.damage {
                Arc::make_mut(damage).repair = repair;
            }
        });
    }

    /// The snapshot that is served now.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.borrow().clone()
    }

    /// Changes the state of following the catalog.
    pub fn update(&self, change: impl FnOnce(&mut Status)) {
        self.status.send_modify(change);
    }

    /// The state of following the catalog.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }
}
