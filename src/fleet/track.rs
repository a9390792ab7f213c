//! Catalogs of a fleet as passes see them: who may begin work, what is the newest revision, and
//! what this replica shows. A node alone may always, and publishes for itself.

use crate::fleet::error::FleetError;
use crate::fleet::numbers::GenerationNumber;
use crate::fleet::numbers::TrackId;
use crate::fleet::replica::Replica;
use crate::fleet::replica::TrackKey;
use crate::fleet::replica::with_format;
use crate::fleet::session::SessionNumber;
use crate::fleet::track_state::Role;
use crate::fleet::track_state::TrackState;
use crate::name::CatalogName;
use crate::store::Revision;
use crate::store::RevisionId;
use std::time::Duration;
use std::time::Instant;
use tokio::sync::watch;

/// The longest time that a new holder waits for the newest generation before its first pass.
const INHERIT: Duration = Duration::from_mins(1);
/// How long a pass of a curated catalog waits for what it is made of.
const SOURCES: Duration = Duration::from_mins(1);

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
    /// A catalog of a replica. `identity` is that of its configuration.
    pub(super) fn new(replica: &Replica, catalog: &CatalogName, identity: &str) -> Self {
        let key = (catalog.clone(), with_format(identity));
        Self {
            state: replica.state_of(&key),
            replica: replica.clone(),
            key,
        }
    }

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
        let kept = self.replica.last_number().await?;
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
        self.replica.forget(&self.key);
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
