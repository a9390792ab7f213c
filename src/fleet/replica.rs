//! The place of this process in a fleet: its tracks, its row, and what it reports.

use crate::answers::index::FORMAT;
use crate::fleet::error::FleetError;
use crate::fleet::fetch::Reader;
use crate::fleet::fleet_metrics;
use crate::fleet::missing::Missing;
use crate::fleet::numbers::TrackId;
use crate::fleet::shared::Fleet;
use crate::fleet::track_state::Role;
use crate::fleet::track_state::TrackState;
use crate::name::CatalogName;
use crate::snapshot::FleetStatus;
use crate::store::RevisionId;
use crate::store::Store;
use ::images::digest::Digest;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use std::time::SystemTime;
use tokio::sync::Notify;
use tokio::sync::watch;

/// A catalog and what makes its configuration differ from others of its name.
pub(super) type TrackKey = (CatalogName, String);

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
    /// The fleet of the data folder.
    owner: String,
    /// Makes failing catalogs of this replica retry at once.
    retry_now: watch::Sender<()>,
}

/// The identity of a track. Another version may have another format of files.
pub(super) fn with_format(identity: &str) -> String {
    format!("{identity} format {FORMAT}")
}

impl Replica {
    /// A place in a fleet, which `keep_place` takes. `owner` is the fleet of the data folder.
    pub fn new(
        fleet: Fleet,
        store: Store,
        status: FleetStatus,
        owner: String,
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
            retry_now,
        }))
    }

    /// The state of a track, which is made with its first use.
    pub(super) fn state_of(&self, key: &TrackKey) -> watch::Sender<TrackState> {
        let state = self.0.tracks.lock().entry(key.clone()).or_default().clone();
        self.nudge();
        state
    }

    /// Follows and shows a track no more.
    pub(super) fn forget(&self, key: &TrackKey) {
        self.0.tracks.lock().remove(key);
        fleet_metrics::forget(&key.0);
        self.nudge();
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

    /// Checks whether the bucket is of the fleet.
    pub(super) async fn verify_bucket(&self) -> Result<(), FleetError> {
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
