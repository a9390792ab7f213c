//! Hears of moments in the bucket while the database is silent. Otherwise a replica that had
//! not read a moment when the database died would show the revision before until it answers
//! again, while others show the next one.

use std::future::pending;
use std::time::Duration;

use tracing::Instrument as _;

use crate::ingest::fleet::membership::Membership;
use crate::store::fleet::Generation;

/// A beat that takes so long may get no answer. Then, the time between two looks.
const DOUBT: Duration = Duration::from_millis(500);
/// The longest time of a look or a word.
const LONGEST: Duration = Duration::from_secs(2);
/// So long after the database has become silent, nobody sets a moment any more.
const LATEST: Duration = Duration::from_secs(15);

/// Tells of a moment in the bucket. Nobody waits for it: it is needed only if the database
/// dies now.
pub(super) fn tell(membership: &Membership, generation: &Generation, flips: i64) {
    let (membership, generation) = (membership.clone(), generation.clone());
    let telling = async move {
        let told = membership.fleet().tell_moment(&generation, flips);
        match tokio::time::timeout(LONGEST, told).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the bucket does not have the moment"),
            Err(_) => tracing::debug!("the bucket does not take the moment"),
        }
    };
    tokio::spawn(telling.in_current_span());
}

/// Waits for a beat, and looks into the bucket meanwhile if it takes long.
pub(super) async fn beside<T>(membership: &Membership, beat: impl Future<Output = T>) -> T {
    let looking = async {
        while membership.has_pending() {
            tokio::time::sleep(DOUBT).await;
            look(membership).await;
        }
        pending::<T>().await
    };
    tokio::select! {
        result = beat => result,
        never = looking => never,
    }
}

/// Looks for the moments of generations that the replicas have fetched.
pub(super) async fn look(membership: &Membership) {
    if membership.silence() > LATEST {
        return;
    }
    for ((catalog, _), state) in membership.tracks() {
        let Some(pending) = state.borrow().pending.clone() else {
            continue;
        };
        let told = membership.fleet().told_moment(&pending);
        let flips = match tokio::time::timeout(LONGEST, told).await {
            Ok(Ok(flips)) => flips,
            Ok(Err(error)) => {
                tracing::debug!(%catalog, %error, "no moment in the bucket");
                None
            }
            Err(_) => None,
        };
        if flips.is_none() {
            continue;
        }
        state.send_if_modified(|state| {
            // The database may have answered meanwhile.
            let is_awaited = state.pending.as_ref() == Some(&pending);
            if is_awaited {
                tracing::info!(%catalog, "the database is silent, the bucket tells of the next revision");
                state.turned = Some(Generation { flips, ..pending });
                state.pending = None;
            }
            is_awaited
        });
    }
}
