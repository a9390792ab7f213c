//! Keeping the image of a catalog up to date with its current revision.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use metrics::{counter, histogram};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::fleet::{FileLimit, Permit, Track};
use crate::ingest::context::PassContext;
use crate::ingest::error::{Cause, PassError, Stage};
use crate::ingest::followed::{Followed, has_origin_of};
use crate::ingest::images::make::{make_slim, signing, tags};
use crate::ingest::images::mirror;
use crate::ingest::images::options::Mirror;
use crate::ingest::retry::{retry, sleep};
use crate::ingest::stages::{StageTracker, blocking};
use crate::snapshot::{Image, ImagePublisher, Publisher, Snapshot};
use crate::store::{self, BlobPin, ImageKind, RevisionId, Store, StoreError};

/// The longest time to make an image.
const LONGEST: Duration = Duration::from_hours(6);
/// The polls from one look for new signatures of a mirrored image to the next.
const POLLS: u32 = 6;

/// Keeps the image of a catalog up to date with its current revision until it is
/// stopped.
pub async fn keep_image(
    context: PassContext,
    followed: Followed,
    catalog: Publisher,
    publisher: ImagePublisher,
    track: Track,
    stop: CancellationToken,
) {
    let span = tracing::info_span!("image", catalog = %followed.name);
    let keeping = async {
        let mut publications = context.catalogs.publications();
        let mut retry_now = context.retry_now.subscribe();
        let mut failures = 0;
        // The time of the next look for signatures.
        let mut due = None;
        loop {
            let permit = tokio::select! {
                permit = track.permit() => permit,
                () = stop.cancelled() => break,
            };
            publications.borrow_and_update();
            retry_now.mark_unchanged();
            let mut wait = None;
            if let Some(snapshot) = catalog.snapshot() {
                if track.shared().is_none() && publisher.image().is_none() {
                    // The start has not read a revision of another version.
                    restore(&context.store, &followed, &snapshot, &publisher).await;
                }
                let look = due.is_none_or(|due| due <= Instant::now());
                let Some(_work) = permit.begin() else {
                    continue;
                };
                let keeping = keep(&context, &followed, &publisher, &snapshot, look, &permit);
                let kept = tokio::select! {
                    kept = keeping => kept,
                    () = permit.revoked() => {
                        // The next holder reports it.
                        note(&catalog, &publisher, None);
                        continue;
                    }
                    () = stop.cancelled() => break,
                };
                match kept {
                    Ok(looked) => {
                        failures = 0;
                        note(&catalog, &publisher, None);
                        if looked {
                            let poll = followed.poll.map(|poll| poll.saturating_mul(POLLS));
                            due = poll.map(|poll| Instant::now() + poll);
                        }
                        if followed.image.mirror == Mirror::Full {
                            wait = due.map(|due| due.saturating_duration_since(Instant::now()));
                        }
                    }
                    Err(error) => {
                        failures += 1;
                        wait = Some(retry(failures, followed.poll, error.retry_after()));
                        report_failure(&followed, &error);
                        note(&catalog, &publisher, Some(error.to_string()));
                    }
                }
            }
            tokio::select! {
                changed = publications.changed() => if changed.is_err() { break },
                () = sleep(wait) => {}
                () = publisher.rebuild.notified() => {}
                () = permit.ended() => note(&catalog, &publisher, None),
                Ok(()) = retry_now.changed(), if failures > 0 => {
                    tracing::info!("trying again: a retry was requested");
                }
                () = stop.cancelled() => break,
            }
        }
    };
    keeping.instrument(span).await;
}

/// Counts and logs an image that cannot be made.
fn report_failure(followed: &Followed, error: &PassError) {
    counter!(
        "almanac_image_failures_total",
        "catalog" => followed.name.to_string(), "reason" => error.reason()
    )
    .increment(1);
    tracing::error!(
        catalog = %followed.name,
        reason = error.reason(),
        "cannot make the image, the previous one stays: {error}"
    );
}

/// Notes why the image cannot be made, if it cannot, and what the served one lacks.
fn note(catalog: &Publisher, publisher: &ImagePublisher, error: Option<String>) {
    let left_out = publisher.image().map(|image| image.record.left_out.clone());
    let left_out = left_out.unwrap_or_default();
    let status = catalog.status();
    if status.image_error != error || status.image_left_out != left_out {
        catalog.update(|status| {
            status.image_error = error;
            status.image_left_out = left_out;
        });
    }
}

/// Serves the stored image, without making one: that of the stored revision or, until that
/// has one, the previous one.
pub async fn restore_image(
    context: &PassContext,
    catalog: &Publisher,
    followed: &Followed,
    publisher: &ImagePublisher,
) {
    if let Some(snapshot) = catalog.snapshot() {
        restore(&context.store, followed, &snapshot, publisher).await;
        note(catalog, publisher, None);
    }
}

async fn restore(
    store: &Store,
    followed: &Followed,
    snapshot: &Snapshot,
    publisher: &ImagePublisher,
) {
    match stored(store, followed, snapshot.revision().id).await {
        Ok(Some((id, record))) => match open(store, id, record).await {
            Ok(image) => publisher.publish(image),
            Err(PassError { cause: error, .. }) => {
                tracing::warn!(catalog = %followed.name, %error, "cannot open the stored image");
            }
        },
        Ok(None) => {}
        Err(error) => {
            tracing::error!(catalog = %followed.name, %error, "cannot read the stored image");
        }
    }
}

/// The stored image of a catalog whose current revision is `id`, and the revision that it
/// was made of.
async fn stored(
    store: &Store,
    followed: &Followed,
    id: RevisionId,
) -> Result<Option<(RevisionId, store::Image)>, StoreError> {
    if let Some(own) = store.image(id).await? {
        return Ok(Some((id, own)));
    }
    let earlier = store.earlier_image(&followed.name).await?;
    let earlier = earlier.filter(|earlier| has_origin_of(&followed.source, &earlier.identity));
    Ok(earlier.map(|earlier| (earlier.revision, earlier.image)))
}

/// Makes and publishes the image of a snapshot unless it is published already.
/// `look` asks to look for new signatures; the result says whether that was
/// done.
async fn keep(
    context: &PassContext,
    followed: &Followed,
    publisher: &ImagePublisher,
    snapshot: &Arc<Snapshot>,
    look: bool,
    permit: &Permit,
) -> Result<bool, PassError> {
    let tags = tags(&followed.source);
    let id = snapshot.revision().id;
    let mirror = followed.image.mirror;
    let (wanted, signing) = match mirror {
        Mirror::Slim => (ImageKind::Slim, signing(context, &followed.image)),
        Mirror::Full => (ImageKind::Full, None),
    };
    // Without a key, signatures of an import stay.
    let signer = signing.as_ref().map(|signing| signing.signer(&tags));
    let is_signed = |image: &Image| signer.is_none() || image.record.signed == signer;
    let whole = |image: &Arc<Image>| image.parts().all(|blob| !blob.is_damaged());
    let shown = publisher.image().filter(whole);
    let there = shown.as_ref().is_some_and(|image| {
        image.revision == id
            && image.record.kind == wanted
            && tags.iter().all(|tag| image.record.tags.contains_key(tag))
            && is_signed(image)
    });
    if there && !(look && mirror == Mirror::Full) {
        return Ok(false);
    }
    let started = Instant::now();
    // A mirror pulls, a slim image is built.
    let (stages, making) = match mirror {
        Mirror::Slim => (
            StageTracker::at(Stage::Build),
            make_slim(context, snapshot, tags, signing).boxed(),
        ),
        Mirror::Full => {
            let pulling = mirror::pull(context, followed, snapshot);
            (StageTracker::at(Stage::Pull), pulling.boxed())
        }
    };
    let (record, pins) = stages.limit(LONGEST, making).await?;
    if shown.is_some_and(|image| image.revision == id && image.record == record) {
        return Ok(true);
    }
    warn_of_left_out(followed, &record);
    let store = &context.store;
    if !matches!(permit, Permit::Alone) {
        // All replicas get it, this one too.
        let limit = FileLimit::of(&context.limits);
        let shared = permit.publish_image(limit, id, &record).await;
        if shared.map_err(PassError::at(Stage::Share))? {
            histogram!("almanac_image_seconds").record(started.elapsed().as_secs_f64());
        } else {
            release(store, pins).await?;
        }
        return Ok(true);
    }
    let recorded = store.record_image(id, &record).await;
    if !recorded.map_err(PassError::at(Stage::Publish))? {
        release(store, pins).await?;
        return Ok(false);
    }
    drop(pins);
    let size: u64 = record.parts().map(|part| part.size).sum();
    let image = open(store, id, record).await?;
    tracing::info!(
        catalog = %followed.name,
        digest = image.record.digest().map(tracing::field::display),
        manifests = image.record.manifests.len(),
        bytes = size,
        elapsed = ?started.elapsed(),
        "serving the image"
    );
    publisher.publish(image);
    histogram!("almanac_image_seconds").record(started.elapsed().as_secs_f64());
    Ok(true)
}

/// Warns of what a mirror of an image lacks.
fn warn_of_left_out(followed: &Followed, record: &store::Image) {
    if !record.left_out.is_empty() {
        let digests: Vec<String> = record.left_out.iter().map(ToString::to_string).collect();
        tracing::warn!(
            catalog = %followed.name,
            digests = digests.join(", "),
            "the source does not have these attestations or signatures of the image; the mirror \
             leaves them out"
        );
    }
}

/// Gives up an image whose revision was replaced: the next one gets its own.
async fn release(store: &Store, pins: Vec<BlobPin>) -> Result<(), PassError> {
    let blobs: Vec<_> = pins.iter().map(BlobPin::digest).collect();
    drop(pins);
    let released = store.release_blobs(&blobs).await;
    released.map_err(PassError::at(Stage::Publish))
}

/// Opens an image. Each of its blobs is looked up and mapped, and it may have
/// thousands.
async fn open(store: &Store, id: RevisionId, record: store::Image) -> Result<Image, PassError> {
    let store = store.clone();
    blocking(Stage::Publish, move || {
        let image = Image::open(&store, id, record).map_err(Cause::ReadImage);
        image.map_err(PassError::at(Stage::Publish))
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ingest::stages::tests::on_one_blocking_thread;

    #[test]
    fn opening_an_image_leaves_the_async_thread_to_clients() {
        on_one_blocking_thread(async |gate| {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::open(folder.path()).await.unwrap();
            let record = store::Image {
                kind: ImageKind::Slim,
                origin: None,
                tags: BTreeMap::new(),
                manifests: Vec::new(),
                blobs: Vec::new(),
                signed: None,
                left_out: Vec::new(),
            };
            let closed = gate.close();
            let id = "1".parse().unwrap();
            let mut opening = Box::pin(open(&store, id, record));
            assert!(opening.as_mut().now_or_never().is_none());
            drop(closed);
            assert_eq!(opening.await.unwrap().revision, id);
        });
    }
}
