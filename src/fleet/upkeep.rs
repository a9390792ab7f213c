//! The tasks of a replica that belong to no single catalog.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::fleet::beat::{beat, listen};
use crate::fleet::collect::collect;
use crate::fleet::fleet_metrics;
use crate::fleet::replica::Replica;
use crate::fleet::restore::restore;

/// The time between two checks of a bucket that cannot be used.
const CHECK_AGAIN: Duration = Duration::from_secs(1);
/// The same where another try soon brings nothing, or passes tell first.
const CHECK_RARELY: Duration = Duration::from_secs(10);
/// The same of a bucket that can be used.
const CHECK_LATER: Duration = Duration::from_secs(30);

/// A task of a replica, which works until it is stopped.
type Task = fn(Replica, CancellationToken) -> BoxFuture<'static, ()>;

/// What keeps the place of a replica in its fleet: tasks by name. They are started together.
pub fn keep_place() -> [(&'static str, Task); 5] {
    fleet_metrics::begin();
    [
        ("beat", |replica, stop| beat(replica, stop).boxed()),
        ("listen", |replica, stop| listen(replica, stop).boxed()),
        ("check_bucket", |replica, stop| {
            check_bucket(replica, stop).boxed()
        }),
        ("collect", |replica, stop| collect(replica, stop).boxed()),
        ("restore", |replica, stop| restore(replica, stop).boxed()),
    ]
}

/// Checks the bucket until it is known to be the fleet's, and then now and then: it may be
/// emptied or fail, or become another fleet's.
async fn check_bucket(replica: Replica, stop: CancellationToken) {
    let checking = async {
        let mut logged = None;
        if replica.fleet().owns_bucket() {
            tokio::time::sleep(CHECK_LATER).await;
        }
        loop {
            let was_own = replica.fleet().owns_bucket();
            let pause = match replica.verify_bucket().await {
                Ok(()) => {
                    if !was_own || logged.is_some() {
                        tracing::info!("the bucket of the fleet can be used");
                        replica.nudge();
                    }
                    logged = None;
                    CHECK_LATER
                }
                Err(error) => {
                    fleet_metrics::failed(&error);
                    let pause = if was_own || !error.is_temporary() {
                        CHECK_RARELY
                    } else {
                        CHECK_AGAIN
                    };
                    let error = error.to_string();
                    if logged.as_ref() != Some(&error) {
                        tracing::warn!(error, "the bucket cannot be used now: passes wait");
                    }
                    logged = Some(error);
                    pause
                }
            };
            tokio::time::sleep(pause).await;
        }
    };
    stop.run_until_cancelled(checking).await;
}
