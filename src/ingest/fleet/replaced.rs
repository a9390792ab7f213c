//! Brings images that clients may have been told of by other replicas. A replica that
//! starts, or was away while the others turned, has not shown them itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ingest::context::PassContext;
use crate::ingest::fleet::fleet_metrics;
use crate::ingest::fleet::membership::Track;
use crate::snapshot::{Image, ImagePublisher, MAX_REPLACED, ReplacedImage};
use crate::store::DiskError;
use crate::store::fleet::{FileLimit, FleetError, Generation};

/// How long a pull by digest may go on after the turn, at whichever replica.
pub(super) const PULLS: Duration = Duration::from_hours(1);
/// The time between two tries.
const RETRY: Duration = Duration::from_secs(5);

/// Lets clients pull what replicas have shown before a generation. It is tried again until
/// no pull may go on any more.
pub(super) async fn bring_replaced(
    context: PassContext,
    track: Track,
    images: ImagePublisher,
    current: Generation,
) {
    let begun = Instant::now();
    let mut is_told = false;
    while begun.elapsed() < PULLS {
        let Err(error) = bring(&context, &track, &images, &current).await else {
            return;
        };
        fleet_metrics::failed(&error);
        if !is_told {
            is_told = true;
            tracing::warn!(%error, "pulls of replaced images may fail here: fetching them again soon");
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn bring(
    context: &PassContext,
    track: &Track,
    images: &ImagePublisher,
    current: &Generation,
) -> Result<(), FleetError> {
    let (store, membership) = (&context.store, track.membership());
    let limit = FileLimit::of(&context.limits);
    let wanted = (PULLS, MAX_REPLACED);
    let fleet = membership.fleet();
    let fetched = fleet.fetch_replaced(store, limit, current, wanted).await?;
    for one in fetched {
        let replaced = membership.moment(one.replaced);
        let (own, fetched) = (store.clone(), one.image);
        let opened = tokio::task::spawn_blocking(move || {
            // Its parts are pinned until they are open.
            Image::open(&own, fetched.revision, fetched.image)
        });
        let opened = opened.await.map_err(std::io::Error::other);
        let folder = store.temporary();
        let image = opened
            .flatten()
            .map_err(DiskError::at("open an image in", &folder))?;
        tracing::debug!(revision = %image.revision, "an image of before can be pulled");
        images.keep(ReplacedImage {
            image: Arc::new(image),
            replaced: replaced.unwrap_or_else(Instant::now),
        });
    }
    Ok(())
}
