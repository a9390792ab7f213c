//! Brings images that clients may have been told of by other replicas. A replica that
//! starts, or was away while the others turned, has not shown them itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::ingest::context::PassContext;
use crate::ingest::fleet::fleet_metrics;
use crate::ingest::fleet::membership::Track;
use crate::snapshot::{self, FIRST_ANSWER, Image, ImagePublisher, MAX_REPLACED};
use crate::store::DiskError;
use crate::store::fleet::{FileLimit, FleetError, Generation, ReplacedImage};

/// How long a pull by digest may go on after the turn, at whichever replica.
pub(super) const PULLS: Duration = Duration::from_hours(1);
/// How long a replica without clients waits for these images: much less than the time after
/// which it would lag.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time between the first two tries. Each further one comes after twice as long.
const RETRY: Duration = Duration::from_secs(5);
/// The longest time between two tries.
const LONGEST_RETRY: Duration = Duration::from_mins(5);

/// How long a replica waits until each of these images was tried once, so long after its start.
/// One with clients does not wait: the next generation would.
pub(super) fn patience(has_clients: bool, since_start: Duration) -> Option<Duration> {
    let left = FIRST_ANSWER.saturating_sub(since_start).min(PATIENCE);
    (!has_clients && !left.is_zero()).then_some(left)
}

/// Lets clients pull what replicas have shown before a generation. What fails is tried again
/// until no pull may go on any more. `tried` hears when the first try has ended.
pub(super) async fn bring_replaced(
    context: PassContext,
    track: Track,
    images: ImagePublisher,
    current: Generation,
    tried: oneshot::Sender<()>,
) {
    let begun = Instant::now();
    let mut tried = Some(tried);
    let mut pause = RETRY;
    let mut brought = BTreeSet::new();
    while begun.elapsed() < PULLS {
        let done = bring(&context, &track, &images, &current, &mut brought).await;
        let is_first = tried.take().map(|tried| tried.send(())).is_some();
        let Err(error) = done else {
            return;
        };
        fleet_metrics::failed(&error);
        if is_first {
            tracing::warn!(
                %error,
                "some images that other replicas have shown cannot be pulled here yet: \
                 they are fetched again"
            );
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_RETRY);
    }
}

/// Brings those that are not `brought` yet, one at a time: each can be pulled at once, and one
/// that fails keeps no other away. The error is the first one.
async fn bring(
    context: &PassContext,
    track: &Track,
    images: &ImagePublisher,
    current: &Generation,
    brought: &mut BTreeSet<i64>,
) -> Result<(), FleetError> {
    let fleet = track.membership().fleet();
    let wanted = (PULLS, MAX_REPLACED);
    let mut failed = None;
    for replaced in fleet.replaced_images(current, wanted).await? {
        if brought.contains(&replaced.row) {
            continue;
        }
        match bring_one(context, track, images, replaced).await {
            Ok(()) => {
                brought.insert(replaced.row);
            }
            Err(error) => {
                failed.get_or_insert(error);
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

async fn bring_one(
    context: &PassContext,
    track: &Track,
    images: &ImagePublisher,
    replaced: ReplacedImage,
) -> Result<(), FleetError> {
    let (store, membership) = (&context.store, track.membership());
    let limit = FileLimit::of(&context.limits);
    let fetched = membership.fleet().fetch_replaced(store, limit, replaced);
    let fetched = fetched.await?;
    let own = store.clone();
    let opened = tokio::task::spawn_blocking(move || {
        // Its parts are pinned until they are open.
        Image::open(&own, fetched.revision, fetched.image)
    });
    let opened = opened.await.map_err(std::io::Error::other);
    let folder = store.temporary();
    let image = opened
        .flatten()
        .map_err(DiskError::at("open an image in", &folder))?;
    tracing::debug!(revision = %image.revision, "a replaced image can be pulled");
    let moment = membership.moment(replaced.replaced);
    images.keep(snapshot::ReplacedImage {
        image: Arc::new(image),
        replaced: moment.unwrap_or_else(Instant::now),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_with_clients_does_not_wait_for_replaced_images() {
        let seconds = Duration::from_secs;
        assert_eq!(patience(false, seconds(0)), Some(PATIENCE));
        assert_eq!(patience(false, seconds(7)), Some(seconds(3)));
        assert_eq!(patience(false, FIRST_ANSWER), None);
        for since_start in [0, 7, 3600] {
            assert_eq!(patience(true, seconds(since_start)), None);
        }
    }
}
