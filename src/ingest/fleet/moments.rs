//! Reads moments in the bucket while the database is silent. Otherwise a replica that had
//! not read a moment when the database died would show the revision before until it answers
//! again, while others show the next one.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::ingest::fleet::fleet_metrics;
use crate::ingest::fleet::membership::{Membership, Track};
use crate::ingest::fleet::track_state::TrackState;
use crate::name::CatalogName;
use crate::store::fleet::{Fleet, FleetError, Generation};

/// A replica that awaits a moment beats every half second. After so long without an answer it
/// reads the bucket: a moment is set 1.5 seconds ahead, so there is time for the read.
const SILENT: Duration = Duration::from_millis(900);
/// The time between two looks at the time since the last beat.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// The time between two reads of a moment, for a while after the database has become silent.
const READ_AGAIN: Duration = Duration::from_millis(500);
/// How long: until then, a replica that has set a moment may still write it.
const SOON: Duration = Duration::from_secs(15);
/// Afterwards, the time between two reads: others may reach the database.
const READ_RARELY: Duration = Duration::from_secs(10);
/// The longest time of one read or write.
const LONGEST: Duration = Duration::from_secs(2);
/// The most reads at once.
const AT_ONCE: usize = 16;

/// Writes a moment to the bucket. Nobody waits for it: it is needed only if the database
/// dies now.
pub(super) fn tell(membership: &Membership, generation: &Generation, flips: i64) {
    let (membership, generation) = (membership.clone(), generation.clone());
    let telling = async move {
        let written = write(membership.fleet(), &generation, flips).await;
        let is_news = membership.set_lacks_moments(written.is_err());
        match written {
            Ok(()) if is_news => tracing::info!("the bucket takes the moments of changes again"),
            Ok(()) => {}
            Err(error) => {
                fleet_metrics::failed(&error);
                if is_news {
                    tracing::warn!(
                        %error,
                        "the bucket does not take the moment of a change: should the database \
                         die during one, replicas may show it later than others"
                    );
                }
            }
        }
    };
    tokio::spawn(telling.in_current_span());
}

/// Writes a moment to the bucket, unless that takes long.
pub(super) async fn write(
    fleet: &Fleet,
    generation: &Generation,
    flips: i64,
) -> Result<(), FleetError> {
    let told = tokio::time::timeout(LONGEST, fleet.tell_moment(generation, flips));
    told.await.unwrap_or(Err(FleetError::NoAnswer {
        of: "the bucket",
        after: LONGEST,
    }))
}

/// Reads moments in the bucket whenever the database is silent, until it is stopped.
pub(super) async fn watch_moments(membership: Membership, stop: CancellationToken) {
    let watching = async {
        let mut read: Option<Instant> = None;
        loop {
            let silence = membership.silence();
            let left = SILENT.saturating_sub(silence);
            let interval = if silence < SOON {
                READ_AGAIN
            } else {
                READ_RARELY
            };
            if !left.is_zero() {
                read = None;
            } else if membership.has_pending() && read.is_none_or(|read| read.elapsed() >= interval)
            {
                read = Some(Instant::now());
                read_moments(&membership).await;
            }
            tokio::time::sleep(left.max(LOOK_AGAIN)).await;
        }
    };
    stop.run_until_cancelled(watching).await;
}

/// The result of work with the database, unless a catalog turns to another generation
/// meanwhile than `before`: while the database hangs, the bucket may have told its moment.
pub(super) async fn unless_turned<T>(
    track: &Track,
    before: &TrackState,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut states = track.subscribe();
    let turned = states.wait_for(|now| now.turned != before.turned);
    tokio::select! {
        biased;
        done = work => Some(done),
        _ = turned => None,
    }
}

/// Reads the moments of generations that the replicas fetch.
async fn read_moments(membership: &Membership) {
    let awaited = membership.tracks().into_iter();
    let awaited = awaited.filter_map(|((catalog, _), state)| {
        let pending = state.borrow().awaited().cloned()?;
        Some((catalog, state, pending))
    });
    let awaited = stream::iter(awaited.collect::<Vec<_>>());
    let reads = awaited.for_each_concurrent(AT_ONCE, async |(catalog, state, pending)| {
        let told = membership.fleet().told_moment(&pending);
        match tokio::time::timeout(LONGEST, told).await {
            Ok(Ok(Some(flips))) => turn(&catalog, &state, &pending, flips),
            Ok(Ok(None)) | Err(_) => {}
            Ok(Err(error)) => tracing::debug!(%catalog, %error, "cannot read the moment"),
        }
    });
    reads.await;
}

/// Turns to a generation at this moment, unless the database has answered meanwhile.
fn turn(
    catalog: &CatalogName,
    state: &watch::Sender<TrackState>,
    pending: &Generation,
    flips: i64,
) {
    let is_awaited = state.send_if_modified(|state| {
        let is_awaited = state.awaited() == Some(pending);
        if is_awaited {
            state.turned = Some(Generation {
                flips: Some(flips),
                ..pending.clone()
            });
            state.pending = None;
        }
        is_awaited
    });
    if is_awaited {
        tracing::info!(
            %catalog,
            "the database does not answer: the bucket tells when to turn to the next revision"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fleet::testing;

    fn awaiting(number: i64) -> watch::Sender<TrackState> {
        watch::Sender::new(TrackState {
            pending: Some(testing::generation(number)),
            ..TrackState::default()
        })
    }

    #[test]
    fn a_moment_in_the_bucket_turns_what_is_awaited_and_nothing_else() {
        let catalog: CatalogName = "a".parse().unwrap();
        let state = awaiting(2);
        turn(&catalog, &state, &testing::generation(1), 5);
        assert_eq!(state.borrow().turned, None);
        turn(&catalog, &state, &testing::generation(2), 5);
        let turned = state.borrow().turned.clone().unwrap();
        assert_eq!((turned.id.number, turned.flips), (2, Some(5)));
        assert_eq!(state.borrow().pending, None);
    }
}
