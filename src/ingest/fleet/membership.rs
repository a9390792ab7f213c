//! This replica's view of the fleet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::ingest::fleet::clock::Clock;
use crate::ingest::fleet::fleet_metrics;
use crate::ingest::fleet::silence::Silence;
use crate::ingest::fleet::standing::{Standing, TrackKey};
use crate::ingest::fleet::track_origin::track_origin;
use crate::ingest::fleet::track_state::{TrackState, Waiting};
use crate::ingest::fleet::verification::Verification;
use crate::ingest::followed::Followed;
use crate::ingest::images::options::ImageOptions;
use crate::name::CatalogName;
use crate::snapshot::FleetStatus;
use crate::store::fleet::{Beat, Fleet, FleetError, GenerationId, Lease, ReplicaId, Silences};
use crate::store::{NewRevisionNumber, Revision, RevisionId};

/// How long a new holder waits for what the one before has begun.
const INHERIT: Duration = Duration::from_mins(1);

/// This replica's place in a fleet. Cheap to clone.
#[derive(Clone)]
pub struct Membership(Arc<Inner>);

struct Inner {
    fleet: Fleet,
    tracks: Mutex<BTreeMap<TrackKey, watch::Sender<TrackState>>>,
    /// Asks for a beat now.
    nudged: Notify,
    clock: Mutex<Clock>,
    silence: Mutex<Silence>,
    /// This start, while the fleet knows it.
    me: watch::Sender<Option<ReplicaId>>,
    status: watch::Sender<FleetStatus>,
    verification: Verification,
    standing: Mutex<Standing>,
    /// Makes failing catalogs of this replica retry at once.
    retry_now: watch::Sender<()>,
    /// How many objects the bucket has lost.
    lost: watch::Sender<i64>,
    /// Whether the bucket takes no moments.
    lacks_moments: AtomicBool,
}

/// A catalog in the fleet. Cheap to clone.
#[derive(Clone)]
pub struct Track {
    membership: Membership,
    key: TrackKey,
    state: watch::Sender<TrackState>,
    image: Arc<ImageOptions>,
}

impl Membership {
    /// A place in a fleet, which `beat` takes. `owner` names the fleet of the data folder, and
    /// `is_verified` tells whether the database is known to be of it.
    pub fn new(
        fleet: Fleet,
        status: FleetStatus,
        (owner, is_verified): (String, bool),
        retry_now: watch::Sender<()>,
    ) -> Self {
        let verification = Verification::new(fleet.clone(), owner, is_verified);
        Self(Arc::new(Inner {
            fleet,
            tracks: Mutex::default(),
            nudged: Notify::new(),
            clock: Mutex::default(),
            silence: Mutex::default(),
            me: watch::Sender::new(None),
            status: watch::Sender::new(status),
            verification,
            standing: Mutex::default(),
            retry_now,
            lost: watch::Sender::new(0),
            lacks_moments: AtomicBool::new(false),
        }))
    }

    /// Follows a catalog in the fleet. Clients of this replica have `seen` a revision of it.
    pub fn open(
        &self,
        followed: &Followed,
        image: &ImageOptions,
        seen: Option<RevisionId>,
    ) -> Track {
        let key = (followed.name.clone(), track_origin(followed, image));
        let mut tracks = self.0.tracks.lock();
        let state = tracks.entry(key.clone()).or_default().clone();
        state.send_modify(|state| {
            state.source = Some(followed.source.clone());
            state.identity = Some(followed.identity());
            state.seen = seen;
        });
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
        let follows = self.tracks().into_iter();
        let follows = follows.filter(|(_, state)| state.borrow().lease.is_some());
        let follows = follows.map(|((catalog, _), _)| catalog).collect();
        // Somebody has to serve.
        let has_others = beat.as_ref().is_ok_and(|(beat, _)| beat.ready > 0);
        let now = Instant::now();
        // The rows of others may have expired in a silence of the database that has just
        // ended: until they beat again, they are as they were.
        let is_returning = self.0.silence.lock().has_just_ended(now);
        let told = beat.as_ref().is_ok_and(|(_, ready)| *ready);
        let (behind, lagging, counted) = {
            let mut standing = self.0.standing.lock();
            standing.look(self.unsettled(), self.missed(), now);
            let mut lagging = standing.lagging(now);
            lagging.retain(|_| has_others);
            let may_have_others = has_others || is_returning;
            let counted = beat.is_ok() && standing.is_counted(told, may_have_others, now);
            (standing.behind(), lagging, counted)
        };
        let waits = self.waits();
        let bucket_error = self.0.verification.bucket_problem();
        self.0.status.send_modify(|status| {
            status.follows = follows;
            status.waits = waits;
            status.bucket_error = bucket_error;
            status.counted |= counted;
            match beat {
                Ok((beat, _)) => {
                    self.0.lost.send_replace(beat.lost);
                    fleet_metrics::lost(beat.lost);
                    status.replicas = beat.live;
                    status.lost = u64::try_from(beat.lost).unwrap_or(0);
                    status.answered = Some(SystemTime::now());
                    status.heard = now;
                    if has_others || !is_returning {
                        status.lagging = lagging;
                    } else {
                        status.lagging.retain(|name| behind.contains(name));
                    }
                    status.error = None;
                }
                Err(error) => {
                    self.0.clock.lock().doubt();
                    // The others have it, whether the database answers or not.
                    status.lagging.retain(|name| behind.contains(name));
                    status.error = Some(error);
                }
            }
            status.behind = behind;
        });
    }

    /// Notes that the database has answered, before what the answer says is done.
    pub(super) fn heard(&self) {
        self.0.status.send_if_modified(|status| {
            status.heard = Instant::now();
            // The end of the beat tells.
            false
        });
    }

    /// Why clients do not see the newest revision yet.
    fn waits(&self) -> BTreeMap<CatalogName, String> {
        let tracks = self.0.tracks.lock();
        let waiting = tracks.iter().filter_map(|((catalog, _), state)| {
            let waiting = state.borrow().waiting()?;
            Some((catalog.clone(), waiting.to_string()))
        });
        waiting.collect()
    }

    /// The time since the database last answered.
    pub(super) fn silence(&self) -> Duration {
        self.0.status.borrow().heard.elapsed()
    }

    /// Notes that the database has not answered for so long that others follow the catalogs.
    pub(super) fn note_silence(&self) {
        self.0.status.send_if_modified(|status| {
            let is_new = status.replicas > 0 || !status.follows.is_empty();
            status.replicas = 0;
            status.follows.clear();
            is_new
        });
    }

    /// Notes that a task of the fleet has panicked.
    pub(in crate::ingest) fn panicked(&self, task: &str) {
        self.0.status.send_modify(|status| {
            *status.panics.entry(task.to_owned()).or_default() += 1;
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

    /// How many objects the bucket has lost, as of the last beat.
    pub(super) fn lost(&self) -> watch::Receiver<i64> {
        self.0.lost.subscribe()
    }

    /// Whether the database and the bucket are known to be the fleet's.
    pub(super) fn verification(&self) -> &Verification {
        &self.0.verification
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

    /// Whether this replica serves what the fleet shows, so that the others wait for it.
    pub(super) fn is_whole(&self) -> bool {
        let now = Instant::now();
        let mut standing = self.0.standing.lock();
        standing.look(self.unsettled(), self.missed(), now);
        standing.is_whole(now)
    }

    /// Those of them that the others turn to, while this replica has not opened them.
    fn missed(&self) -> Vec<TrackKey> {
        let mut tracks = self.tracks();
        tracks.retain(|(_, state)| state.borrow().is_missed());
        tracks.into_iter().map(|(key, _)| key).collect()
    }

    /// The tracks whose current generation clients do not see.
    fn unsettled(&self) -> Vec<TrackKey> {
        let mut tracks = self.tracks();
        tracks.retain(|(_, state)| !state.borrow().is_settled());
        tracks.into_iter().map(|(key, _)| key).collect()
    }

    /// Notes whether the bucket takes no moments, and returns whether that is new.
    pub(super) fn set_lacks_moments(&self, lacks: bool) -> bool {
        self.0.lacks_moments.swap(lacks, Ordering::Relaxed) != lacks
    }

    /// Those of some catalogs whose current revision has not come to this replica.
    pub(super) fn behind_with(&self, catalogs: &[CatalogName]) -> Vec<CatalogName> {
        let unsettled = self.unsettled().into_iter().map(|(catalog, _)| catalog);
        unsettled.filter(|name| catalogs.contains(name)).collect()
    }

    /// Whether passes failed here lately for reasons of this replica alone.
    pub(super) fn is_troubled(&self) -> bool {
        let tracks = self.0.tracks.lock();
        let mut states = tracks.values();
        states.any(|state| state.borrow().is_unfit())
    }

    /// Whether the fleet knows that this replica may have clients.
    pub(super) fn is_counted(&self) -> bool {
        self.0.status.borrow().counted
    }

    /// Whether the moment of a generation is not known yet.
    pub(super) fn has_pending(&self) -> bool {
        let tracks = self.0.tracks.lock();
        let mut states = tracks.values();
        states.any(|state| state.borrow().awaited().is_some())
    }

    /// Asks for a beat now.
    pub(super) fn nudge(&self) {
        self.0.nudged.notify_one();
    }

    pub(super) async fn nudged(&self) {
        self.0.nudged.notified().await;
    }

    pub(super) fn look(&self, before: Instant, shown: i64) {
        let now = Instant::now();
        self.0.clock.lock().look(before, now, shown);
        self.0.silence.lock().beat(now, shown);
    }

    /// The silences after which replicas may live though their rows have expired.
    pub(super) fn silences(&self) -> Silences {
        self.0.silence.lock().silences(Instant::now())
    }

    /// The moment of a time of the database's clock.
    pub(super) fn moment(&self, time: i64) -> Option<Instant> {
        self.0.clock.lock().moment(time)
    }

    /// The time of the database's clock at a moment.
    pub(super) fn time(&self, moment: Instant) -> Option<i64> {
        self.0.clock.lock().time(moment)
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

    /// The number of a revision that is being made, which is above the `last` one here.
    pub(in crate::ingest) async fn next_revision(
        &self,
        last: RevisionId,
    ) -> Result<NewRevisionNumber, FleetError> {
        self.membership
            .fleet()
            .next_revision(&self.key.0, last)
            .await
    }

    /// Whether the fleet shows a revision, so that a source with its digest brings nothing
    /// new. The track of a changed configuration shows nothing at first, and after a
    /// failover that lost commits, a number may mean another revision.
    pub(in crate::ingest) fn shows(&self, revision: &Revision) -> bool {
        let state = self.state.borrow();
        let turned = state.turned.as_ref();
        turned.is_some_and(|turned| {
            turned.revision == revision.id && turned.content == revision.content.to_string()
        })
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

    /// Notes that a generation is open here.
    pub(super) fn opened(&self, id: GenerationId) {
        self.state.send_if_modified(|state| {
            state.opened = Some(id);
            // It wakes nobody, as nothing is to be done about it.
            false
        });
    }

    /// Notes why clients do not see the newest revision yet.
    pub(super) fn wait_for(&self, waiting: Option<Waiting>) {
        self.state.send_if_modified(|state| {
            state.wait_for(waiting);
            // It wakes nobody, as nothing is to be done about it.
            false
        });
        let waits = self.membership.waits();
        self.membership.0.status.send_if_modified(|status| {
            let is_new = status.waits != waits;
            status.waits = waits;
            is_new
        });
    }

    /// Stops to follow the catalog in the fleet.
    pub(super) fn close(&self) {
        self.membership.0.tracks.lock().remove(&self.key);
        fleet_metrics::forget(&self.key.0);
        self.membership.nudge();
    }

    /// Waits for the right to follow the catalog. What the holder before has announced is
    /// served first, so that a pass compares with that. `rests` hears until when the source
    /// is left alone, and when another replica follows the catalog before that.
    pub(in crate::ingest) async fn until_held(&self, rests: impl Fn(Option<SystemTime>)) -> Lease {
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
            let mut resting = None;
            self.update(|state| resting = state.begin_rest());
            if let Some((rest, until)) = resting {
                rests(Some(until));
                tracing::debug!(?rest, "the mount of another replica may be newer");
                let _ = tokio::time::timeout(rest, self.lost(lease)).await;
            }
            if state.borrow().lease == Some(lease) {
                return lease;
            }
            if resting.is_some() {
                rests(None);
            }
        }
    }

    /// Waits until another replica may have the lease.
    pub(in crate::ingest) async fn lost(&self, lease: Lease) {
        let mut state = self.subscribe();
        let _ = state.wait_for(|state| state.lease != Some(lease)).await;
    }

    /// Has the current revision fetched again, as its files here are damaged.
    pub(in crate::ingest) fn fetch_again(&self) {
        self.update(|state| state.damages += 1);
    }

    /// Has the parts of the current image fetched that are damaged or missing.
    pub(in crate::ingest) fn check_image(&self) {
        self.update(|_| ());
    }

    /// Notes that no client sees a revision any more, as it is damaged.
    pub(in crate::ingest) fn withdrawn(&self) {
        self.update(|state| state.served = None);
        self.membership.nudge();
    }

    /// Notes whether a pass is running: the lease is not given back meanwhile.
    pub(in crate::ingest) fn set_passing(&self, passing: bool) {
        self.update(|state| {
            state.passing = passing;
            state.announcing = None;
        });
    }

    /// Whether this replica follows the catalog, and a generation has no moment yet.
    pub(super) fn awaits(&self, lease: Lease, id: GenerationId) -> bool {
        let state = self.state.borrow();
        let pending = state.pending.as_ref().map(|pending| pending.id);
        state.lease == Some(lease) && pending == Some(id)
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

#[cfg(test)]
mod tests;
