//! What the rest of almanac sees of a fleet: who may begin a pass, how a revision is published,
//! and whether it is the newest. A node alone may always, and publishes for itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::answers::index::FORMAT;
use crate::fleet::error::FleetError;
use crate::fleet::fetch::Reader;
use crate::fleet::fleet_metrics;
use crate::fleet::missing::Missing;
use crate::fleet::numbers::{GenerationNumber, TrackId};
use crate::fleet::session::SessionNumber;
use crate::fleet::shared::Fleet;
use crate::fleet::track_state::{Role, TrackState};
use crate::name::CatalogName;
use crate::snapshot::FleetStatus;
use crate::store::{Revision, RevisionId, Store};
use ::images::digest::Digest;

/// The longest time that a new holder waits for the newest generation before its first pass.
const INHERIT: Duration = Duration::from_mins(1);
/// How long a pass of a curated catalog waits for what it is made of.
const SOURCES: Duration = Duration::from_mins(1);

/// A catalog and what makes its configuration differ from others of its name.
pub(super) type TrackKey = (CatalogName, String);

/// The fleet of this process, if it is a replica of one. Cheap to clone.
#[derive(Clone, Default)]
pub enum Coordinator {
    /// A node alone.
    #[default]
    Alone,
    /// A replica of a fleet.
    Fleet(Replica),
}

/// The place of a process in a fleet. Cheap to clone.
#[derive(Clone)]
pub struct Replica(Arc<Inner>);

struct Inner {
    fleet: Fleet,
    store: Store,
    tracks: Mutex<BTreeMap<TrackKey, watch::Sender<TrackState>>>,
    nudged: Notify,
    status: watch::Sender<FleetStatus>,
    missing: Missing,
    /// What all replicas report as missing, and the order in which they upload.
    to_restore: watch::Sender<(Vec<Digest>, Vec<i32>)>,
    /// The row of this replica.
    me: watch::Sender<Option<i32>>,
    /// The fleet of the data folder, and whether the database is known to be of it.
    owner: String,
    is_database_known: AtomicBool,
    /// Makes failing catalogs of this replica retry at once.
    retry_now: watch::Sender<()>,
}

/// A catalog in a fleet, or of a node alone. Cheap to clone.
#[derive(Clone)]
pub enum Track {
    /// Of a node alone.
    Alone,
    /// Of a replica.
    Shared(SharedTrack),
}

/// A catalog in a fleet. Cheap to clone.
#[derive(Clone)]
pub struct SharedTrack {
    replica: Replica,
    key: TrackKey,
    state: watch::Sender<TrackState>,
}

/// The right to follow a track.
#[derive(Clone)]
pub enum Permit {
    /// Of a node alone: it never ends.
    Alone,
    /// Of the holder of the track's lock.
    Holder(SharedTrack, SessionNumber),
}

/// Work on a track that is running. Its lock is not released meanwhile.
pub struct Work(Option<(SharedTrack, SessionNumber)>);

/// The identity of a track. Another version may have another format of files.
pub(super) fn with_format(identity: &str) -> String {
    format!("{identity} format {FORMAT}")
}

impl Coordinator {
    /// A catalog of this process. `identity` is that of its configuration.
    pub fn open(&self, catalog: &CatalogName, identity: &str) -> Track {
        match self {
            Self::Alone => Track::Alone,
            Self::Fleet(replica) => Track::Shared(replica.open(catalog, identity)),
        }
    }

    /// The replica, if this process is one.
    pub fn replica(&self) -> Option<&Replica> {
        match self {
            Self::Alone => None,
            Self::Fleet(replica) => Some(replica),
        }
    }
}

impl Replica {
    /// A place in a fleet, which `keep_place` takes. `owner` is the fleet of the data folder;
    /// `is_known` says that the database is of it.
    pub fn new(
        fleet: Fleet,
        store: Store,
        status: FleetStatus,
        (owner, is_known): (String, bool),
        retry_now: watch::Sender<()>,
    ) -> Self {
        // Should the database become another fleet's.
        fleet.expect(&owner);
        Self(Arc::new(Inner {
            fleet,
            store,
            tracks: Mutex::default(),
            nudged: Notify::new(),
            status: watch::Sender::new(status),
            missing: Missing::default(),
            to_restore: watch::Sender::default(),
            me: watch::Sender::new(None),
            owner,
            is_database_known: AtomicBool::new(is_known),
            retry_now,
        }))
    }

    fn open(&self, catalog: &CatalogName, identity: &str) -> SharedTrack {
        let key = (catalog.clone(), with_format(identity));
        let state = self.0.tracks.lock().entry(key.clone()).or_default().clone();
        self.nudge();
        SharedTrack {
            replica: self.clone(),
            key,
            state,
        }
    }

    /// What this replica reports.
    pub fn status(&self) -> watch::Receiver<FleetStatus> {
        self.0.status.subscribe()
    }

    /// Records that a task of the fleet has panicked.
    pub fn panicked(&self, task: &str) {
        self.0.status.send_modify(|status| {
            *status.panics.entry(task.to_owned()).or_default() += 1;
        });
    }

    /// Makes the replicas that follow failing catalogs retry at once. Some may not hear of it.
    pub async fn ask_for_retries(&self) {
        if let Err(error) = self.0.fleet.ask_for_retries().await {
            tracing::warn!(%error, "the other replicas do not hear of the wanted retry");
        }
    }

    pub(super) fn fleet(&self) -> &Fleet {
        &self.0.fleet
    }

    pub(super) fn store(&self) -> &Store {
        &self.0.store
    }

    pub(super) fn missing(&self) -> &Missing {
        &self.0.missing
    }

    /// Reads objects, and reports those that the bucket has lost.
    pub(super) fn reader(&self) -> Reader {
        Reader {
            fleet: self.0.fleet.clone(),
            missing: self.0.missing.clone(),
        }
    }

    /// The states of all tracks, and their rows.
    pub(super) fn tracks(&self) -> Vec<(watch::Sender<TrackState>, Option<TrackId>)> {
        let tracks = self.0.tracks.lock();
        let states = tracks.values().cloned();
        states
            .map(|state| {
                let id = state.borrow().id;
                (state, id)
            })
            .collect()
    }

    /// Those whose rows are not known, or `all`.
    pub(super) fn named_tracks(&self, all: bool) -> Vec<(TrackKey, watch::Sender<TrackState>)> {
        let tracks = self.0.tracks.lock();
        let wanted = tracks.iter();
        let wanted = wanted.filter(|(_, state)| all || state.borrow().id.is_none());
        wanted
            .map(|(key, state)| (key.clone(), state.clone()))
            .collect()
    }

    /// Fails while it is not known that the database is of the fleet of the data folder.
    pub(super) async fn verify_database(&self) -> Result<(), FleetError> {
        if self.0.is_database_known.load(Ordering::Relaxed) {
            return Ok(());
        }
        if self.0.fleet.check_database().await? != self.0.owner {
            return Err(FleetError::OtherFleet);
        }
        self.0.is_database_known.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Checks whether the bucket is of the fleet, once the database is known to be.
    pub(super) async fn verify_bucket(&self) -> Result<(), FleetError> {
        self.verify_database().await?;
        let checked = if self.0.fleet.owns_bucket() {
            self.0.fleet.keep_bucket(&self.0.owner).await
        } else {
            self.0.fleet.check_bucket(&self.0.owner).await
        };
        // Errors of the database are reported by beats.
        let of_bucket =
            |error: &&FleetError| matches!(error, FleetError::Objects(_) | FleetError::Refused(_));
        let problem = checked.as_ref().err().filter(of_bucket);
        let problem = problem.map(ToString::to_string);
        self.0.status.send_if_modified(|status| {
            let is_new = status.bucket_error != problem;
            status.bucket_error = problem;
            is_new
        });
        checked
    }

    /// Records that another fleet's database has answered: the next answer is checked.
    pub(super) fn doubt_database(&self) {
        self.0.is_database_known.store(false, Ordering::Relaxed);
    }

    /// The largest number of a revision here.
    pub(super) async fn last_number(&self) -> Result<RevisionId, FleetError> {
        Ok(self.0.store.last_number().await?)
    }

    pub(super) fn joined(&self, me: i32) {
        self.0.me.send_replace(Some(me));
    }

    /// The row of this replica, once it has joined.
    pub(super) fn me(&self) -> Option<i32> {
        *self.0.me.borrow()
    }

    /// What all replicas report as missing, and those that live.
    pub(super) fn to_restore(&self) -> watch::Receiver<(Vec<Digest>, Vec<i32>)> {
        self.0.to_restore.subscribe()
    }

    /// Records the answer to a beat: the replicas that live, and the objects that they miss.
    pub(super) fn heard(&self, live: Vec<i32>, missing: Vec<Digest>) {
        fleet_metrics::heard(live.len(), missing.len());
        self.0.status.send_modify(|status| {
            status.replicas = live.len();
            status.lost = missing.len() as u64;
            status.answered = Some(SystemTime::now());
            status.heard = Instant::now();
            status.error = None;
        });
        self.0.to_restore.send_if_modified(|now| {
            let is_new = now.0 != missing || now.1 != live;
            *now = (missing, live);
            is_new
        });
        self.describe();
    }

    /// Records that a beat has failed.
    pub(super) fn failed(&self, error: String) {
        self.0.status.send_modify(|status| {
            status.replicas = 0;
            status.error = Some(error);
        });
        self.describe();
    }

    /// Records what this replica follows and what it lacks.
    pub(super) fn describe(&self) {
        let (mut follows, mut waits, mut have_begun) = (Vec::new(), BTreeMap::new(), true);
        {
            let tracks = self.0.tracks.lock();
            for ((catalog, _), state) in tracks.iter() {
                let state = state.borrow();
                if state.role != Role::Shows {
                    follows.push(catalog.clone());
                }
                have_begun &= state.has_begun;
                let behind = state.behind().map(|behind| behind.to_string());
                fleet_metrics::behind(catalog, behind.is_some());
                waits.extend(behind.map(|behind| (catalog.clone(), behind)));
            }
        }
        fleet_metrics::followed(follows.len(), self.0.status.borrow().heard.elapsed());
        self.0.status.send_if_modified(|status| {
            let has_started = status.has_started || have_begun;
            let is_new = status.follows != follows
                || status.waits != waits
                || status.has_started != has_started;
            (status.follows, status.waits) = (follows, waits);
            status.has_started = has_started;
            is_new
        });
    }

    /// Ends the right to follow any track.
    pub(super) fn lost_session(&self) {
        for (state, _) in self.tracks() {
            state.send_if_modified(|state| {
                let before = std::mem::take(&mut state.role);
                before != state.role
            });
        }
    }

    /// Makes failing catalogs of this replica retry at once.
    pub(super) fn retry(&self) {
        self.0.retry_now.send_replace(());
    }

    /// Asks for a beat now.
    pub(super) fn nudge(&self) {
        self.0.nudged.notify_one();
    }

    pub(super) async fn nudged(&self) {
        self.0.nudged.notified().await;
    }
}

impl Track {
    /// Waits for the right to follow the catalog.
    pub async fn permit(&self) -> Permit {
        match self {
            Self::Alone => Permit::Alone,
            Self::Shared(track) => track.permit().await,
        }
    }

    /// Whether the catalog is one of a fleet.
    pub fn shared(&self) -> Option<&SharedTrack> {
        match self {
            Self::Alone => None,
            Self::Shared(track) => Some(track),
        }
    }

    /// Whether a revision of this source is the newest one of its catalog, so that a source
    /// with its digest brings nothing new.
    pub fn has(&self, revision: &Revision) -> bool {
        match self {
            Self::Alone => true,
            Self::Shared(track) => track.state.borrow().has_revision(revision),
        }
    }

    /// Whether the first pass decides when this process is ready: there is nothing to fetch.
    pub fn is_new(&self) -> bool {
        match self {
            Self::Alone => true,
            Self::Shared(track) => track.state.borrow().newest.is_none(),
        }
    }

    /// Waits until the newest generation has to be published again, if it has a date before
    /// one that clients may have seen, or if the database has lost later ones.
    pub async fn outdated(&self) {
        if let Self::Shared(track) = self {
            let mut state = track.state.subscribe();
            let is_outdated = |state: &TrackState| state.is_outdated();
            // The sender lives as long as this track.
            if state.wait_for(is_outdated).await.is_ok() {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    /// Waits until the newest generations of these catalogs are shown here: made of older ones,
    /// a curated catalog would go back. Returns the first that is not in time.
    pub async fn until_sources(&self, sources: &[CatalogName]) -> Result<(), CatalogName> {
        let Self::Shared(track) = self else {
            return Ok(());
        };
        let mut states = track.replica.named_tracks(true);
        states.retain(|((catalog, _), _)| sources.contains(catalog));
        let is_there = |state: &TrackState| state.is_current() && state.current().is_some();
        let waiting = async {
            // Until all are at once: the first may change while the next one is awaited.
            while !states.iter().all(|(_, state)| is_there(&state.borrow())) {
                for (_, state) in &states {
                    let _ = state.subscribe().wait_for(is_there).await;
                }
            }
        };
        let _ = tokio::time::timeout(SOURCES, waiting).await;
        let mut behind = states
            .iter()
            .filter(|(_, state)| !is_there(&state.borrow()));
        match behind.next() {
            Some(((catalog, _), _)) => Err(catalog.clone()),
            None => Ok(()),
        }
    }

    /// The number of a revision that is being made; a node alone numbers it later.
    pub async fn next_revision(&self) -> Result<Option<RevisionId>, FleetError> {
        match self {
            Self::Alone => Ok(None),
            Self::Shared(track) => track.next_revision().await.map(Some),
        }
    }

    /// Leaves the catalog to other replicas for a while: passes fail here.
    pub fn mark_unfit(&self) {
        if let Self::Shared(track) = self {
            track
                .state
                .send_modify(|state| state.mark_unfit(Instant::now()));
            track.replica.nudge();
        }
    }
}

impl SharedTrack {
    async fn permit(&self) -> Permit {
        let mut state = self.state.subscribe();
        loop {
            // The sender lives as long as this track.
            let held = state.wait_for(|state| state.role.held().is_some()).await;
            let Some(session) = held.ok().and_then(|state| state.role.held()) else {
                return std::future::pending().await;
            };
            // A pass compares with what clients see.
            let settled =
                state.wait_for(|state| state.role.held() != Some(session) || state.is_settled());
            let _ = tokio::time::timeout(INHERIT, settled).await;
            if state.borrow().role.held() == Some(session) {
                return Permit::Holder(self.clone(), session);
            }
        }
    }

    async fn next_revision(&self) -> Result<RevisionId, FleetError> {
        let kept = self.replica.0.store.last_number().await?;
        let states = self.replica.tracks().into_iter();
        let shown = states.filter_map(|(state, _)| state.borrow().shown);
        let shown = shown.map(|number| RevisionId::from_number(number.0)).max();
        let last = shown.map_or(kept, |shown| shown.max(kept));
        self.replica.fleet().next_revision(last).await
    }

    pub(super) fn replica(&self) -> &Replica {
        &self.replica
    }

    pub(super) fn catalog(&self) -> &CatalogName {
        &self.key.0
    }

    pub(super) fn state(&self) -> watch::Receiver<TrackState> {
        self.state.subscribe()
    }

    pub(super) fn id(&self) -> Option<TrackId> {
        self.state.borrow().id
    }

    /// Begins work; `None` where another replica may follow the catalog.
    pub(super) fn begin_work(&self) -> Option<Work> {
        let session = self.state.borrow().role.held()?;
        Permit::Holder(self.clone(), session).begin()
    }

    /// Has the current revision fetched again, as its files here are damaged.
    pub fn fetch_again(&self) {
        self.state.send_modify(|state| state.damages += 1);
    }

    /// Has the parts of the current image fetched that are damaged or missing.
    pub fn check_image(&self) {
        self.state.send_modify(|_| ());
    }

    /// Records that no client sees a revision any more, as it is damaged.
    pub fn withdrawn(&self) {
        self.set_shown(None);
    }

    /// Records the generation that clients see.
    pub(super) fn set_shown(&self, shown: Option<GenerationNumber>) {
        let is_new = self.state.send_if_modified(|state| {
            let is_new = state.shown != shown;
            state.shown = shown;
            is_new
        });
        if is_new {
            self.replica.describe();
        }
    }

    /// Records that clients may be sent here for the catalog.
    pub(super) fn begin(&self) {
        let is_new = self
            .state
            .send_if_modified(|state| !std::mem::replace(&mut state.has_begun, true));
        if is_new {
            self.replica.describe();
        }
    }

    /// Records why clients do not see the newest generation.
    pub(super) fn set_problem(&self, problem: Option<String>) {
        let mut is_new = false;
        self.state.send_if_modified(|state| {
            let was_settled = state.is_settled();
            is_new = state.set_problem(problem);
            // Nothing else is to be done about it.
            state.is_settled() != was_settled
        });
        if is_new {
            self.replica.describe();
        }
    }

    /// Reads what was just published, and waits until clients see it here, or a later one.
    pub(super) async fn until_shown(&self, number: GenerationNumber) {
        let Some(id) = self.id() else { return };
        // The next beat reads it otherwise: it is published.
        if let Ok(mut found) = self.replica.fleet().newest(vec![id]).await {
            self.state.send_if_modified(|state| {
                let not_before = state.not_before;
                state.learn(found.pop(), not_before)
            });
        }
        let mut state = self.state.subscribe();
        let shown = state.wait_for(|state| state.shown.is_some_and(|shown| shown >= number));
        // It is published, whether it can be shown here or not.
        let _ = tokio::time::timeout(INHERIT, shown).await;
    }

    /// Stops to serve the catalog in the fleet.
    pub(super) fn close(&self) {
        self.replica.0.tracks.lock().remove(&self.key);
        fleet_metrics::forget(&self.key.0);
        self.replica.nudge();
    }
}

impl Permit {
    /// Begins work; `None` when the right has ended.
    pub fn begin(&self) -> Option<Work> {
        let Self::Holder(track, session) = self else {
            return Some(Work(None));
        };
        let mut is_begun = false;
        track.state.send_if_modified(|state| {
            let begun = state.role.begin();
            if let Some(role) = begun.filter(|role| role.held() == Some(*session)) {
                state.role = role;
                is_begun = true;
            }
            // Nobody waits for the end of work but the next beat.
            false
        });
        is_begun.then(|| Work(Some((track.clone(), *session))))
    }

    /// Waits until nothing more may be begun: another replica should follow the catalog.
    pub async fn ended(&self) {
        if let Self::Holder(track, session) = self {
            let mut state = track.state.subscribe();
            let _ = state
                .wait_for(|state| state.role.held() != Some(*session))
                .await;
        } else {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until what is running can publish nothing any more: the lock is lost.
    pub async fn revoked(&self) {
        if let Self::Holder(track, session) = self {
            track.replica.fleet().session().ended(*session).await;
        } else {
            std::future::pending::<()>().await;
        }
    }

    /// Whether both are of one session.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Alone, Self::Alone) => true,
            (Self::Holder(_, one), Self::Holder(_, other)) => one == other,
            _ => false,
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some((track, session)) = self.0.take() {
            let mut may_unlock = false;
            track.state.send_if_modified(|state| {
                state.role = state.role.end(session);
                may_unlock = matches!(state.role, Role::Leaves { working: 0, .. });
                false
            });
            // Another replica waits for the lock.
            if may_unlock {
                track.replica.nudge();
            }
        }
    }
}
