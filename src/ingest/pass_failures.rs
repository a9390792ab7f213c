//! Failed passes of a catalog in a row. After three of its own, a replica lets another one follow.

use std::time::Duration;

use crate::ingest::catalog_metrics::{set_due, set_failures};
use crate::ingest::fleet::Track;
use crate::ingest::followed::Followed;
use crate::snapshot::Publisher;
use crate::store::fleet::Lease;

/// After so many failures in a row of its own, a replica lets another one follow the
/// catalog.
const OWN_FAILURES: u32 = 3;

/// What a failed pass means for the next one.
pub(super) struct Failure {
    /// The time that the registry asked to wait.
    pub(super) retry_after: Option<Duration>,
    /// Whether another replica would probably not fail.
    pub(super) is_of_replica: bool,
}

/// The passes of a catalog that failed here, in a row.
#[derive(Default)]
pub(super) struct Failures {
    pub(super) in_row: u32,
    /// Those in a row for which this replica is the cause.
    own: u32,
    /// Whether another replica may follow the catalog now, and they are still shown here.
    pub(super) are_left: bool,
    /// How often passes had succeeded elsewhere by then.
    pub(super) recoveries: u64,
}

impl Failures {
    /// Counts the result of a pass. Too many of its own, and the replica gives the catalog up.
    pub(super) fn count(&mut self, result: &Result<(), Failure>, holding: Option<(&Track, Lease)>) {
        self.in_row = if result.is_ok() { 0 } else { self.in_row + 1 };
        let is_own = result.as_ref().is_err_and(|failure| failure.is_of_replica);
        self.own = if is_own { self.own + 1 } else { 0 };
        let Some((track, lease)) = holding else {
            return;
        };
        if self.own >= OWN_FAILURES {
            track.give_up();
            self.own = 0;
        } else if result.is_ok() {
            track.succeed(lease);
        }
    }

    /// Another replica has the passes of the catalog now. The time of the next one stays in
    /// the metrics: if no replica follows the catalog, it is past on all of them. Failures stay
    /// if the catalog was given up: the others may fail for the same reason, and show it only
    /// after a while.
    pub(super) fn leave(
        &mut self,
        followed: &Followed,
        publisher: &Publisher,
        track: Option<&Track>,
    ) {
        self.own = 0;
        publisher.update(|status| status.next_pass = None);
        if followed.source.is_fixed() {
            set_due(&followed.name, None);
        }
        self.are_left = self.in_row > 0 && track.is_some_and(Track::is_given_up);
        self.recoveries = track.map_or(0, Track::recoveries);
        if !self.are_left {
            self.forget(followed, publisher);
        }
    }

    /// Shows no failures any more.
    pub(super) fn forget(&mut self, followed: &Followed, publisher: &Publisher) {
        *self = Self::default();
        set_failures(&followed.name, 0);
        publisher.update(|status| {
            status.failures = 0;
            status.failure = None;
        });
    }
}
