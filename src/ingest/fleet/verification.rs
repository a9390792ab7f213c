//! Whether the database and the bucket are known to be those of the fleet of the data folder.
//! Without the database a replica does not live in the fleet; without the bucket it lives,
//! and neither follows catalogs nor removes anything.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::store::fleet::{Fleet, FleetError};

/// A bucket that has not answered for so long is told of. A request goes on for longer.
const LATE: Duration = Duration::from_secs(10);

/// What is known.
pub(super) struct Verification {
    fleet: Fleet,
    /// The fleet whose numbers the data folder has.
    owner: String,
    /// Whether the database is of it.
    is_database_known: AtomicBool,
    /// Why the bucket is not known to be of it.
    bucket_problem: Mutex<Option<String>>,
}

impl Verification {
    /// Of a start that has found the database to be of the owner's fleet, or not.
    pub(super) fn new(fleet: Fleet, owner: String, is_database_known: bool) -> Self {
        // Should it become another one's.
        fleet.expect(&owner);
        Self {
            fleet,
            owner,
            is_database_known: AtomicBool::new(is_database_known),
            bucket_problem: Mutex::default(),
        }
    }

    /// Fails while it is not known that the database is of the fleet of the data folder.
    pub(super) async fn check_database(&self) -> Result<(), FleetError> {
        if self.is_database_known.load(Ordering::Relaxed) {
            return Ok(());
        }
        if self.fleet.check_database().await? != self.owner {
            return Err(FleetError::OtherFleet);
        }
        self.is_database_known.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Notes that another fleet's database has answered: the next answer is checked.
    pub(super) fn doubt_database(&self) {
        self.is_database_known.store(false, Ordering::Relaxed);
    }

    /// Checks whether the bucket is of the fleet, once the database is known to be.
    pub(super) async fn check_bucket(&self) -> Result<(), FleetError> {
        self.check_database().await?;
        let mut checking = pin!(self.fleet.check_bucket(&self.owner));
        let checked = if let Ok(checked) = tokio::time::timeout(LATE, &mut checking).await {
            checked
        } else {
            let late = FleetError::NoAnswer {
                of: "the bucket",
                after: LATE,
            };
            tracing::warn!(error = %late, "the bucket is not checked yet: passes wait");
            self.bucket_problem.lock().get_or_insert(late.to_string());
            checking.await
        };
        let problem = checked.as_ref().err().map(ToString::to_string);
        *self.bucket_problem.lock() = problem;
        checked
    }

    /// Why the bucket is not known to be of the fleet, if that is so.
    pub(super) fn bucket_problem(&self) -> Option<String> {
        self.bucket_problem.lock().clone()
    }

    /// Whether both are known, so that something may be removed or called lost.
    pub(super) fn is_complete(&self) -> bool {
        self.is_database_known.load(Ordering::Relaxed) && self.fleet.owns_bucket()
    }
}
