//! What a replica does about passes that fail for reasons of its own: it gives the catalog up,
//! and shows its failures until a pass succeeds at another replica. Until then nobody else may
//! show any, since a new holder begins to count at 0.

use std::time::Instant;

use crate::ingest::fleet::membership::Track;
use crate::ingest::fleet::track_state::{GivenUp, TrackState};
use crate::store::fleet::Lease;

impl Track {
    /// Lets another replica follow the catalog, if there is one: passes fail here, and not for
    /// the source.
    pub(in crate::ingest) fn give_up(&self) {
        self.update(|state| state.unfit = Some(Instant::now()));
        self.membership().nudge();
    }

    /// Whether a replica has given the catalog up since the last pass that succeeded.
    pub(in crate::ingest) fn is_given_up(&self) -> bool {
        self.subscribe().borrow().given_up != GivenUp::No
    }

    /// How often passes have succeeded at other replicas after failures here.
    pub(in crate::ingest) fn recoveries(&self) -> u64 {
        self.subscribe().borrow().recoveries
    }

    /// Waits until a pass has succeeded at another replica, more often than `before`, or until
    /// the catalog is not given up after all: the database may not have taken that. Whether a
    /// pass has succeeded.
    pub(in crate::ingest) async fn until_recovered(&self, before: u64) -> bool {
        let mut state = self.subscribe();
        let has_succeeded = |state: &TrackState| state.recoveries != before;
        let is_over = |state: &TrackState| has_succeeded(state) || state.given_up == GivenUp::No;
        // The sender lives as long as this track.
        let state = state.wait_for(is_over).await;
        state.is_ok_and(|state| has_succeeded(&state))
    }

    /// Notes that a pass has succeeded. The next beat tells those that gave the catalog up.
    pub(in crate::ingest) fn succeed(&self, lease: Lease) {
        // Once for each lease: a change wakes all that wait for others.
        let is_new = {
            let states = self.subscribe();
            let state = states.borrow();
            state.succeeded != Some(lease) || state.unfit.is_some()
        };
        if is_new {
            self.update(|state| {
                state.succeeded = Some(lease);
                state.unfit = None;
            });
        }
    }
}
