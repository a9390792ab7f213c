//! Images of catalogs: made once a revision is published, beside the passes, so
//! that nobody waits for them.
//!
//! `slim` makes an image of the catalog's files, `mirror` brings all that the
//! source's registry has. Whatever fails here is tried again and changes
//! nothing of what is served.

mod mirror;
mod slim;

use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::{counter, histogram};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::ingest::error::{Cause, PassError};
use crate::ingest::follow::retry;
use crate::ingest::pass::{Followed, Workshop};
use crate::ingest::source::Source;
use crate::snapshot::{Catalogs, Image, ImagePublisher, Publisher, Snapshot};
use crate::store::{self, ImageKind};

/// What can be pulled of a catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mirror {
    /// An image of the catalog's files alone.
    #[default]
    Slim,
    /// All that the source's registry has of the image.
    Full,
}

/// The tag that every catalog has under its own name.
const LATEST: &str = "latest";
/// The longest that the making of an image may take.
const LONGEST: Duration = Duration::from_hours(6);
/// How often signatures of a mirrored image are looked for, in polls.
const POLLS: u32 = 6;

/// Keeps the image of a catalog up to date with its snapshot until it is
/// stopped.
pub async fn keep_image(
    workshop: Workshop,
    followed: Followed,
    mirror: Mirror,
    catalogs: Catalogs,
    publisher: ImagePublisher,
    stop: CancellationToken,
) {
    let span = tracing::info_span!("image", catalog = %followed.name);
    let keeping = async {
        let mut publications = catalogs.publications();
        let mut hurry = workshop.hurry.subscribe();
        let mut failures = 0;
        // When signatures are looked for again.
        let mut due = None;
        loop {
            publications.borrow_and_update();
            hurry.mark_unchanged();
            let catalog = catalogs.get(followed.name.as_str());
            let snapshot = catalog.and_then(|catalog| catalog.snapshot());
            let mut wait = None;
            if let Some(snapshot) = snapshot {
                let keeper = Keeper {
                    workshop: &workshop,
                    followed: &followed,
                    mirror,
                    publisher: &publisher,
                };
                let look = due.is_none_or(|due| due <= Instant::now());
                let kept = tokio::select! {
                    kept = keeper.keep(&snapshot, look) => kept,
                    () = stop.cancelled() => break,
                };
                match kept {
                    Ok(looked) => {
                        failures = 0;
                        if looked {
                            let poll = followed.poll.map(|poll| poll.saturating_mul(POLLS));
                            due = poll.map(|poll| Instant::now() + poll);
                        }
                        if mirror == Mirror::Full {
                            wait = due.map(|due| due.saturating_duration_since(Instant::now()));
                        }
                    }
                    Err(error) => {
                        failures += 1;
                        wait = Some(retry(failures, followed.poll, error.retry_after()));
                        counter!(
                            "almanac_image_failures_total",
                            "catalog" => followed.name.to_string(), "reason" => error.reason()
                        )
                        .increment(1);
                        tracing::error!(
                            catalog = %followed.name,
                            reason = error.reason(),
                            "the image cannot be made, what could be pulled stays: {error}"
                        );
                    }
                }
            }
            tokio::select! {
                changed = publications.changed() => if changed.is_err() { break },
                () = sleep(wait) => {}
                Ok(()) = hurry.changed(), if failures > 0 => {
                    tracing::info!("trying again, as somebody asked for it");
                }
                () = stop.cancelled() => break,
            }
        }
    };
    keeping.instrument(span).await;
}

/// Lets what is stored be pulled, without making anything.
pub async fn restore_image(
    workshop: &Workshop,
    catalog: &Publisher,
    followed: &Followed,
    publisher: &ImagePublisher,
) {
    let Some(snapshot) = catalog.snapshot() else {
        return;
    };
    let id = snapshot.revision().id;
    match workshop.store.image(id).await {
        Ok(Some(record)) => match Image::open(&workshop.store, id, record) {
            Ok(image) => publisher.publish(image),
            Err(error) => {
                tracing::warn!(catalog = %followed.name, %error, "the stored image cannot be used");
            }
        },
        Ok(None) => {}
        Err(error) => {
            tracing::error!(catalog = %followed.name, %error, "the stored image cannot be read");
        }
    }
}

async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

struct Keeper<'a> {
    workshop: &'a Workshop,
    followed: &'a Followed,
    mirror: Mirror,
    publisher: &'a ImagePublisher,
}

impl Keeper<'_> {
    /// Sees to it that the image is that of the snapshot. `look` asks to look
    /// for signatures once more; the answer says whether that was done.
    async fn keep(&self, snapshot: &Arc<Snapshot>, look: bool) -> Result<bool, PassError> {
        let id = snapshot.revision().id;
        let wanted = match self.mirror {
            Mirror::Slim => ImageKind::Slim,
            Mirror::Full => ImageKind::Full,
        };
        let shown = self.publisher.image();
        let there = shown.as_ref().is_some_and(|image| {
            image.revision() == id && image.record().kind == wanted && self.has_tags(image.record())
        });
        if there && !(look && self.mirror == Mirror::Full) {
            return Ok(false);
        }
        let started = Instant::now();
        let making = async {
            match self.mirror {
                Mirror::Slim => self.slim(snapshot).await,
                Mirror::Full => mirror::pull(self.workshop, self.followed, snapshot).await,
            }
        };
        let (record, pins) =
            tokio::time::timeout(LONGEST, making)
                .await
                .unwrap_or(Err(PassError {
                    stage: crate::ingest::Stage::Pull,
                    cause: Cause::Timeout(LONGEST),
                }))?;
        if shown.is_some_and(|image| image.revision() == id && *image.record() == record) {
            return Ok(true);
        }
        let failed = PassError::at::<Cause>(crate::ingest::Stage::Publish);
        let store = &self.workshop.store;
        let known = store.record_image(id, &record).await;
        if !known.map_err(|error| failed(error.into()))? {
            // There is a newer revision already, and its turn comes.
            let blobs: Vec<_> = pins.iter().map(store::BlobPin::digest).collect();
            drop(pins);
            store
                .release_blobs(&blobs)
                .await
                .map_err(|error| failed(error.into()))?;
            return Ok(false);
        }
        drop(pins);
        let size: u64 = record.parts().map(|part| part.size).sum();
        let image = Image::open(store, id, record).map_err(|error| failed(error.into()))?;
        tracing::info!(
            catalog = %self.followed.name,
            digest = image.tags().get(LATEST).map(tracing::field::display),
            manifests = image.record().manifests.len(),
            bytes = size,
            elapsed = ?started.elapsed(),
            "the image can be pulled"
        );
        self.publisher.publish(image);
        histogram!("almanac_image_seconds").record(started.elapsed().as_secs_f64());
        Ok(true)
    }

    async fn slim(
        &self,
        snapshot: &Arc<Snapshot>,
    ) -> Result<(store::Image, Vec<store::BlobPin>), PassError> {
        // One at a time, and not beside a pass: it takes a core for a while.
        let _turn = self.workshop.turns.acquire().await;
        let tags = self.tags();
        let (store, snapshot) = (self.workshop.store.clone(), Arc::clone(snapshot));
        crate::ingest::pass::blocking(crate::ingest::Stage::Build, move || {
            slim::make(&store, &snapshot, &tags)
                .map_err(|error| PassError::at::<Cause>(crate::ingest::Stage::Build)(error))
        })
        .await
    }

    /// The tags that lead to the image under the catalog's own name.
    fn tags(&self) -> Vec<String> {
        let mut tags = vec![LATEST.to_owned()];
        if let Some(tag) = followed_tag(&self.followed.source)
            && tag != LATEST
        {
            tags.push(tag.to_owned());
        }
        tags
    }

    fn has_tags(&self, record: &store::Image) -> bool {
        self.tags().iter().all(|tag| record.tags.contains_key(tag))
    }
}

/// The tag that a source is followed by.
fn followed_tag(source: &Source) -> Option<&str> {
    match source {
        Source::Image(reference) => reference.tag(),
        Source::Layout(layout) => layout.tag().filter(|tag| ::images::reference::is_tag(tag)),
        Source::File(_) | Source::Curated(_) => None,
    }
}
