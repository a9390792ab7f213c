//! The tasks of a replica that belong to no single catalog.

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::ingest::fleet::beat::{beat, watch_silence};
use crate::ingest::fleet::fleet_metrics;
use crate::ingest::fleet::membership::Membership;
use crate::ingest::fleet::moments::watch_moments;
use crate::ingest::fleet::restore::upload_lost;
use crate::ingest::restart::Restarted;
use crate::store::Store;
use crate::store::fleet::RETRY;

/// The time between two collections of a replica, half as much more or less.
const COLLECT: Duration = Duration::from_mins(10);
/// After so long without a notification its connection is replaced: it may be dead.
const SILENCE: Duration = Duration::from_mins(10);
/// The least time between two retries that others ask for.
const RETRY_AGAIN: Duration = Duration::from_secs(2);
/// The time between two checks of a bucket that cannot be used.
const CHECK_AGAIN: Duration = Duration::from_secs(1);
/// The same where it is not for the bucket to change that.
const CHECK_RARELY: Duration = Duration::from_secs(30);
/// The time between two tries to hear of changes.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

/// Takes and keeps the place of this replica in its fleet, until it is stopped.
pub fn keep_place(
    membership: &Membership,
    store: &Store,
    followers: &TaskTracker,
    stop: &CancellationToken,
) {
    fleet_metrics::begin();
    let start = |task, work: fn(Membership, Store, CancellationToken) -> BoxFuture<'static, ()>| {
        let (membership, store, stop) = (membership.clone(), store.clone(), stop.clone());
        followers.spawn(async move {
            let restarted = Restarted {
                task,
                catalog: None,
                membership: Some(&membership),
                stop: &stop,
            };
            let work = || work(membership.clone(), store.clone(), stop.clone());
            restarted.run(work).await;
        });
    };
    start("beat", |membership, _, stop| {
        Box::pin(beat(membership, stop))
    });
    start("watch_silence", |membership, _, stop| {
        Box::pin(watch_silence(membership, stop))
    });
    start("watch_moments", |membership, _, stop| {
        Box::pin(watch_moments(membership, stop))
    });
    start("listen", |membership, _, stop| {
        Box::pin(listen(membership, stop))
    });
    start("check_bucket", |membership, _, stop| {
        Box::pin(check_bucket(membership, stop))
    });
    start("collect", |membership, _, stop| {
        Box::pin(collect(membership, stop))
    });
    start("upload_lost", |membership, store, stop| {
        Box::pin(upload_lost(membership, store, stop))
    });
}

/// Checks the bucket of a start that could not do so, until it is known to be the fleet's.
async fn check_bucket(membership: Membership, stop: CancellationToken) {
    let checking = async {
        let mut told = None;
        while !membership.fleet().owns_bucket() {
            let mut pause = CHECK_AGAIN;
            match membership.verification().check_bucket().await {
                Ok(()) => {
                    tracing::info!("the bucket of the fleet can be used");
                    membership.nudge();
                }
                Err(error) => {
                    fleet_metrics::failed(&error);
                    if !error.is_temporary() {
                        pause = CHECK_RARELY;
                    }
                    let error = error.to_string();
                    if told.as_ref() != Some(&error) {
                        tracing::warn!(error, "the bucket is not checked yet: passes wait");
                    }
                    told = Some(error);
                }
            }
            tokio::time::sleep(pause).await;
        }
    };
    stop.run_until_cancelled(checking).await;
}

/// Removes now and then what no replica needs any more.
async fn collect(membership: Membership, stop: CancellationToken) {
    let collecting = async {
        loop {
            // Not all at the same time.
            tokio::time::sleep(COLLECT.mul_f64(0.5 + fastrand::f64())).await;
            if !membership.verification().is_complete() {
                continue;
            }
            match membership.fleet().collect().await {
                Ok(Some(collected)) => tracing::debug!(?collected, "collected"),
                Ok(None) => {}
                Err(error) => {
                    fleet_metrics::failed(&error);
                    tracing::warn!(%error, "cannot remove what the fleet does not need");
                }
            }
        }
    };
    stop.run_until_cancelled(collecting).await;
}

/// Nudges at each notification. They may get lost, so nothing depends on them.
async fn listen(membership: Membership, stop: CancellationToken) {
    let listening = async {
        let mut retried = None;
        loop {
            match membership.fleet().listen().await {
                Ok(mut listener) => {
                    membership.nudge();
                    while let Ok(Ok(notification)) =
                        tokio::time::timeout(SILENCE, listener.recv()).await
                    {
                        if notification.payload() == RETRY {
                            if retried.is_none_or(|when: Instant| when.elapsed() >= RETRY_AGAIN) {
                                retried = Some(Instant::now());
                                membership.retry();
                            }
                        } else {
                            membership.nudge();
                        }
                    }
                }
                Err(error) => tracing::debug!(%error, "changes are heard of by beats only"),
            }
            tokio::time::sleep(LISTEN_AGAIN).await;
        }
    };
    stop.run_until_cancelled(listening).await;
}
