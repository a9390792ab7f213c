//! Failed passes of a catalog in a row. After three of its own, a replica lets another one follow.

use std::time::Duration;

use crate::fleet::Track;
use crate::ingest::catalog_metrics::{set_due, set_failures};
use crate::ingest::followed::Followed;
use crate::snapshot::Publisher;

/// After so many failures in a row of its own, a replica lets another one follow the
/// catalog.
const OWN_FAILURES: u32 = 3;

/// What a failed pass means for the next one.
pub(crate) struct Failure {
    /// The time that the registry asked to wait.
    pub(crate) retry_after: Option<Duration>,
    /// Whether another replica would probably not fail.
    pub(crate) is_of_replica: bool,
}

/// The passes of a catalog that failed here, in a row.
#[derive(Default)]
pub(crate) struct Failures {
    pub(crate) in_row: u32,
    /// Those in a row for which this replica is the cause.
    own: u32,
}

impl Failures {
    /// Counts the result of a pass. After too many of its own, the replica leaves the catalog
    /// to others for a while.
    pub(crate) fn count(&mut self, result: &Result<(), Failure>, track: &Track) {
        self.in_row = if result.is_ok() { 0 } else { self.in_row + 1 };
        let is_own = result.as_ref().is_err_and(|failure| failure.is_of_replica);
        self.own = if is_own { self.own + 1 } else { 0 };
        if self.own >= OWN_FAILURES {
            track.mark_unfit();
            self.own = 0;
        }
    }

    /// Another replica has the passes of the catalog now, and shows their failures. The time of
    /// the next one stays in the metrics: if no replica follows the catalog, it is past on all of
    /// them.
    pub(crate) fn leave(&mut self, followed: &Followed, publisher: &Publisher) {
        *self = Self::default();
        if followed.source.is_fixed() {
            set_due(&followed.name, None);
        }
        set_failures(&followed.name, 0);
        publisher.update(|status| {
            status.next_pass = None;
            status.failures = 0;
            status.failure = None;
        });
    }
}
