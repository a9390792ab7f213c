//! This replica's view of the fleet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::ingest::fleet::clock::Clock;
use crate::ingest::followed::{Followed, OnInvalid};
use crate::ingest::images::options::{ImageOptions, Mirror};
use crate::name::CatalogName;
use crate::snapshot::FleetStatus;
use crate::store::RevisionId;
use crate::store::fleet::{
    Beat, Fleet, FleetError, Generation, GenerationId, Lease, ReplicaId, TrackId,
};

/// A replica that lacks for so long what others show should get no clients.
const LAG: Duration = Duration::from_secs(10);
/// How long a new holder waits for what the one before has begun.
const INHERIT: Duration = Duration::from_secs(60);

/// This replica's place in a fleet. Cheap to clone.
#[derive(Clone)]
pub struct Membership(Arc<Inner>);

struct Inner {
    fleet: Fleet,
    tracks: Mutex<BTreeMap<TrackKey, watch::Sender<TrackState>>>,
    /// Asks for a beat now.
    nudged: Notify,
    clock: Mutex<Clock>,
    /// This start, while the fleet knows it.
    me: watch::Sender<Option<ReplicaId>>,
    status: watch::Sender<FleetStatus>,
    /// The fleet whose numbers the data folder has, while it is not known whether the
    /// database is of the same.
    unverified: Mutex<Option<String>>,
    /// Whether clients have seen the current generation of every catalog.
    was_settled: AtomicBool,
    /// Since when clients do not see what they should.
    behind: Mutex<BTreeMap<TrackKey, Instant>>,
    /// Makes failing catalogs of this replica retry at once.
    retry_now: watch::Sender<()>,
}

/// A catalog and what makes its configuration differ from others of its name.
pub(super) type TrackKey = (CatalogName, String);

/// A catalog in the fleet. Cheap to clone.
#[derive(Clone)]
pub struct Track {
    membership: Membership,
    key: TrackKey,
    state: watch::Sender<TrackState>,
    image: Arc<ImageOptions>,
}

/// What this replica knows of a track.
#[derive(Clone, Debug, Default)]
pub(super) struct TrackState {
    /// Its row, once it is known.
    pub(super) id: Option<TrackId>,
    /// Whether its generations were read from the database.
    pub(super) known: bool,
    /// The right to follow it.
    pub(super) lease: Option<Lease>,
    /// The last generation with a moment at which all turn to it.
    pub(super) turned: Option<Generation>,
    /// The last one without, which the replicas fetch.
    pub(super) pending: Option<Generation>,
    /// The generation that clients of this replica see.
    pub(super) served: Option<GenerationId>,
    /// Whether a pass is running.
    pub(super) passing: bool,
    /// Counts how often damage of stored files was found.
    pub(super) damages: u64,
}

impl TrackState {
    /// Whether clients see what they should, as far as this replica knows.
    fn is_settled(&self) -> bool {
        let turned = self.turned.as_ref().map(|turned| turned.id);
        self.known && turned == self.served
    }
}

impl Membership {
    /// A place in a fleet, which [`beat`](crate::ingest::fleet::beat()) takes. `unverified`
    /// names the fleet of the data folder when the database did not answer.
    pub fn new(
        fleet: Fleet,
        status: FleetStatus,
        unverified: Option<String>,
        retry_now: watch::Sender<()>,
    ) -> Self {
        Self(Arc::new(Inner {
            fleet,
            tracks: Mutex::default(),
            nudged: Notify::new(),
            clock: Mutex::default(),
            me: watch::Sender::new(None),
            status: watch::Sender::new(status),
            unverified: Mutex::new(unverified),
            was_settled: AtomicBool::new(false),
            behind: Mutex::default(),
            retry_now,
        }))
    }

    /// Follows a catalog in the fleet.
    pub fn open(&self, followed: &Followed, image: &ImageOptions) -> Track {
        let on_invalid = match followed.on_invalid {
            OnInvalid::Quarantine => "quarantine",
            OnInvalid::Reject => "reject",
        };
        let kind = match image.mirror {
            Mirror::Slim => "slim",
            Mirror::Full => "full",
        };
        let signed = image.signed_name.as_deref().unwrap_or("-");
        let identity = followed.identity();
        let origin = format!("{identity} {on_invalid} {kind} {signed}");
        let key = (followed.name.clone(), origin);
        let mut tracks = self.0.tracks.lock();
        let state = tracks.entry(key.clone()).or_default().clone();
        drop(tracks);
        self.nudge();
        Track {
            membership: self.clone(),
            key,
            state,
            image: Arc::new(image.clone()),
        }
    }

    /// What this replica tells of itself.
    pub fn status(&self) -> watch::Receiver<FleetStatus> {
        self.0.status.subscribe()
    }

    /// Notes what a beat has shown, or why it failed.
    pub(super) fn note(&self, beat: Result<(&Beat, bool), String>) {
        let mut follows = Vec::new();
        let mut since = BTreeMap::new();
        let mut before = self.0.behind.lock();
        for (key, state) in self.tracks() {
            let state = state.borrow();
            if state.lease.is_some() {
                follows.push(key.0.clone());
            }
            if !state.is_settled() {
                let begun = before.get(&key).copied();
                since.insert(key, begun.unwrap_or_else(Instant::now));
            }
        }
        // Somebody has to serve.
        let has_others = beat.as_ref().is_ok_and(|(beat, _)| beat.ready > 0);
        let lagging = since.iter();
        let lagging = lagging.filter(|(_, since)| has_others && since.elapsed() >= LAG);
        let lagging = lagging.map(|((catalog, _), _)| catalog.clone()).collect();
        let behind = since.keys().map(|(catalog, _)| catalog.clone()).collect();
        *before = since;
        drop(before);
        self.0.status.send_modify(|status| {
            status.follows = follows;
            status.behind = behind;
            status.lagging = lagging;
            match beat {
                Ok((beat, ready)) => {
                    status.replicas = beat.live;
                    status.counted |= ready;
                    status.answered = Some(SystemTime::now());
                    status.heard = Instant::now();
                    status.error = None;
                }
                Err(error) => status.error = Some(error),
            }
        });
    }

    /// Makes the replicas that follow failing catalogs retry at once. Some may not hear
    /// of it.
    pub async fn ask_for_retries(&self) {
        if let Err(error) = self.0.fleet.ask_for_retries().await {
            tracing::warn!(%error, "the other replicas do not hear of the wanted retry");
        }
    }

    /// Makes failing catalogs of this replica retry at once.
    pub(super) fn retry(&self) {
        self.0.retry_now.send_replace(());
    }

    pub(super) fn fleet(&self) -> &Fleet {
        &self.0.fleet
    }

    /// All tracks, and where their states are noted.
    pub(super) fn tracks(&self) -> Vec<(TrackKey, watch::Sender<TrackState>)> {
        let tracks = self.0.tracks.lock();
        let tracks = tracks.iter();
        tracks
            .map(|(key, state)| (key.clone(), state.clone()))
            .collect()
    }

    /// Whether this replica may have clients, so that the others wait for it: it has shown
    /// the current generation of every catalog once, and does not lag.
    pub(super) fn may_serve(&self) -> bool {
        let tracks = self.0.tracks.lock();
        if tracks.is_empty() {
            return true;
        }
        if tracks.values().all(|state| state.borrow().is_settled()) {
            self.0.was_settled.store(true, Ordering::Relaxed);
            return true;
        }
        drop(tracks);
        let behind = self.0.behind.lock();
        let lags = behind.values().any(|since| since.elapsed() >= LAG);
        self.0.was_settled.load(Ordering::Relaxed) && !lags
    }

    /// Whether the fleet knows that this replica may have clients.
    pub(super) fn is_counted(&self) -> bool {
        self.0.status.borrow().counted
    }

    /// Whether the moment of a generation is still to be set.
    pub(super) fn has_pending(&self) -> bool {
        let tracks = self.0.tracks.lock();
        let mut states = tracks.values();
        states.any(|state| state.borrow().pending.is_some())
    }

    /// Fails while it is not known that the database is of the fleet of the data folder.
    pub(super) async fn verify(&self) -> Result<(), FleetError> {
        let unverified = self.0.unverified.lock().clone();
        let Some(owner) = unverified else {
            return Ok(());
        };
        let found = self.0.fleet.check_database().await?;
        if found != owner {
            return Err(FleetError::Refused(
                "the data folder is of another fleet: give each replica an empty one".into(),
            ));
        }
        *self.0.unverified.lock() = None;
        Ok(())
    }

    /// Asks for a beat now.
    pub(super) fn nudge(&self) {
        self.0.nudged.notify_one();
    }

    pub(super) async fn nudged(&self) {
        self.0.nudged.notified().await;
    }

    pub(super) fn look(&self, before: Instant, shown: i64) {
        self.0.clock.lock().look(before, Instant::now(), shown);
    }

    /// The moment of a time of the database's clock.
    pub(super) fn moment(&self, time: i64) -> Instant {
        self.0.clock.lock().moment(time)
    }

    pub(super) fn me(&self) -> Option<ReplicaId> {
        *self.0.me.borrow()
    }

    pub(super) fn set_me(&self, me: Option<ReplicaId>) {
        self.0.me.send_replace(me);
    }
}

impl Track {
    pub(super) fn membership(&self) -> &Membership {
        &self.membership
    }

    /// The number of a revision that is being made.
    pub(in crate::ingest) async fn next_revision(&self) -> Result<RevisionId, FleetError> {
        self.membership.fleet().next_revision().await
    }

    /// How its images are made.
    pub(super) fn image(&self) -> &ImageOptions {
        &self.image
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<TrackState> {
        self.state.subscribe()
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut TrackState)) {
        self.state.send_modify(change);
    }

    /// Stops to follow the catalog in the fleet.
    pub(super) fn close(&self) {
        self.membership.0.tracks.lock().remove(&self.key);
        self.membership.nudge();
    }

    /// Waits for the right to follow the catalog. What the holder before has announced is
    /// served first, so that a pass compares with that.
    pub(in crate::ingest) async fn until_held(&self) -> Lease {
        let mut state = self.subscribe();
        loop {
            // The sender lives as long as this track.
            let held = state.wait_for(|state| state.lease.is_some()).await;
            let Some(lease) = held.ok().and_then(|state| state.lease) else {
                std::future::pending::<()>().await;
                continue;
            };
            let quiet = state.wait_for(|state| {
                state.lease != Some(lease) || (state.pending.is_none() && state.is_settled())
            });
            let _ = tokio::time::timeout(INHERIT, quiet).await;
            if state.borrow().lease == Some(lease) {
                return lease;
            }
        }
    }

    /// Waits until another replica may have the lease.
    pub(in crate::ingest) async fn lost(&self, lease: Lease) {
        let mut state = self.subscribe();
        let _ = state.wait_for(|state| state.lease != Some(lease)).await;
    }

    /// Has what is served fetched again, as its files here are damaged.
    pub(in crate::ingest) fn fetch_again(&self) {
        self.update(|state| state.damages += 1);
    }

    /// Notes whether a pass is running: the lease is not given back meanwhile.
    pub(in crate::ingest) fn set_passing(&self, passing: bool) {
        self.update(|state| state.passing = passing);
    }

    /// Waits until clients of this replica see a generation, or a later one.
    pub(super) async fn until_served(&self, id: GenerationId) {
        let mut state = self.subscribe();
        let served = |state: &TrackState| {
            let served = state.served.filter(|served| served.track == id.track);
            served.is_some_and(|served| served.number >= id.number)
        };
        let _ = state.wait_for(served).await;
    }
}
