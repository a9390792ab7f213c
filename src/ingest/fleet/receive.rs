//! Brings what the fleet has published to the clients of this replica: fetches it,
//! leaves a receipt, and turns to it at the moment at which all do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::ingest::catalog_metrics::announce;
use crate::ingest::context::PassContext;
use crate::ingest::fleet::fleet_metrics;
use crate::ingest::fleet::membership::{Track, TrackState};
use crate::ingest::followed::Followed;
use crate::snapshot::{Image, ImagePublisher, Publisher, Repair, Snapshot};
use crate::store::fleet::{FleetError, Generation, Prepared};
use crate::store::{BlobPin, DiskError, Revision, StoreError};

/// From the announcement of the moment to the moment: longer than two beats of those that
/// wait for it, so that every replica with a word to the database hears of it in time.
const NOTICE: Duration = Duration::from_millis(1500);
/// After this time, a majority of the replicas is enough.
const ALL: Duration = Duration::from_secs(30);
/// After this time, half of them: of two, one may fetch nothing for a long time.
const MAJORITY: Duration = Duration::from_secs(90);
/// The time between two looks at receipts.
const LOOK: Duration = Duration::from_millis(200);
/// The time between two tries after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// A generation that is open here.
struct Opened {
    generation: Generation,
    revision: Revision,
    /// `None` once it was published.
    snapshot: Option<Snapshot>,
    image: Option<OpenedImage>,
}

struct OpenedImage {
    image: Arc<Image>,
    record: crate::store::Image,
    revision: crate::store::RevisionId,
    /// Its parts stay as long as it may be served.
    _pins: Vec<BlobPin>,
}

/// What this replica does about one catalog.
struct Receiver {
    context: PassContext,
    followed: Followed,
    track: Track,
    publisher: Publisher,
    images: ImagePublisher,
    /// What clients see.
    shown: Option<Opened>,
    /// What they will see next.
    next: Option<Opened>,
    /// When the next one was first found here.
    since: Option<Instant>,
    /// The damages that are dealt with.
    damages: u64,
    /// Whether a start would serve what clients see.
    is_recorded: bool,
}

/// Serves what the fleet has published of a catalog, until it is stopped.
pub async fn receive(
    context: PassContext,
    followed: Followed,
    track: Track,
    publisher: Publisher,
    images: ImagePublisher,
    stop: CancellationToken,
) {
    let span = tracing::info_span!("receive", catalog = %followed.name);
    let mut receiver = Receiver {
        context,
        followed,
        track,
        publisher,
        images,
        shown: None,
        next: None,
        since: None,
        damages: 0,
        is_recorded: true,
    };
    let receiving = async {
        let mut states = receiver.track.subscribe();
        let mut failing = false;
        loop {
            let state = states.borrow_and_update().clone();
            // Boxed: its state is large.
            let work = Box::pin(receiver.step(state));
            let wait = tokio::select! {
                done = work => match done {
                    Ok(wait) => {
                        failing = false;
                        wait
                    }
                    Err(error) => {
                        fleet_metrics::failed(&error);
                        if !std::mem::replace(&mut failing, true) {
                            tracing::error!(
                                catalog = %receiver.followed.name, reason = error.reason(), %error,
                                "cannot receive what the fleet publishes, the current revision stays"
                            );
                        }
                        Some(RETRY)
                    }
                },
                () = stop.cancelled() => break,
            };
            tokio::select! {
                changed = states.changed() => if changed.is_err() { break },
                () = crate::ingest::retry::sleep(wait) => {}
                () = stop.cancelled() => break,
            }
        }
    };
    receiving.instrument(span).await;
    receiver.track.close();
}

impl Receiver {
    /// Does what the state asks for. The result is the time until the next look, if one
    /// is needed.
    async fn step(&mut self, state: TrackState) -> Result<Option<Duration>, FleetError> {
        if !state.known {
            return Ok(None);
        }
        if state.damages != self.damages {
            self.discard().await?;
            self.damages = state.damages;
        }
        let Some(turned) = &state.turned else {
            // Nobody serves anything of it yet.
            self.publisher
                .update(|status| status.first_attempt_done = true);
            return self.prepare(&state).await;
        };
        if self
            .shown
            .as_ref()
            .is_none_or(|shown| !is_same(&shown.generation, turned))
        {
            let begun = Instant::now();
            fleet_metrics::behind(&self.followed.name, true);
            self.open(turned).await?;
            let moment = self.track.membership().moment(turned.flips.unwrap_or(0));
            // Not for longer, should the database's clock go back.
            let moment = moment.min(Instant::now() + NOTICE * 2);
            tokio::time::sleep_until(moment.into()).await;
            self.show().await;
            self.is_recorded = false;
            fleet_metrics::turned(self.since.take().unwrap_or(begun).elapsed());
        }
        fleet_metrics::behind(&self.followed.name, false);
        // A disk that fails is no reason to tell others that clients see less.
        let recorded = self.record().await;
        let served = Some(turned.id);
        if state.served != served {
            self.track.update(|state| state.served = served);
            let membership = self.track.membership();
            if !membership.is_counted() {
                // Soon, as it gets no clients before.
                membership.nudge();
            }
        }
        recorded?;
        self.prepare(&state).await
    }

    /// Removes the stored revision, whose files are damaged, so that it is fetched again.
    async fn discard(&mut self) -> Result<(), FleetError> {
        // Not while nothing could be fetched.
        self.track.membership().fleet().check_database().await?;
        let store = &self.context.store;
        self.next = None;
        self.shown = None;
        let current = store.current(&self.followed.name).await?;
        if let Some(current) = current {
            store.discard(current.id).await?;
        }
        Ok(())
    }

    /// Fetches what is announced, and sets its moment if that is for this replica to do.
    async fn prepare(&mut self, state: &TrackState) -> Result<Option<Duration>, FleetError> {
        let Some(pending) = &state.pending else {
            return Ok(None);
        };
        let membership = self.track.membership().clone();
        let Some(me) = membership.me() else {
            return Ok(Some(LOOK));
        };
        if self
            .next
            .as_ref()
            .is_none_or(|next| !is_same(&next.generation, pending))
        {
            self.open(pending).await?;
            self.since = Some(Instant::now());
            membership.fleet().leave_receipt(me, pending.id).await?;
        }
        let Some(lease) = state.lease else {
            return Ok(None);
        };
        let fleet = membership.fleet();
        let prepared = fleet.prepared(me, pending.id).await?;
        if !prepared.mine {
            fleet.leave_receipt(me, pending.id).await?;
            return Ok(Some(LOOK));
        }
        let waited = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        if !is_enough(prepared, waited) {
            return Ok(Some(LOOK));
        }
        // Alone, nobody has to hear of it.
        let notice = if prepared.has_others {
            NOTICE
        } else {
            Duration::ZERO
        };
        fleet.turn(lease, pending.id, notice).await?;
        membership.nudge();
        // Should the answer get lost, it is looked at again.
        Ok(Some(RETRY))
    }

    /// Fetches and opens a generation, unless it is open. No client sees it yet, but its
    /// image can be pulled by digest.
    async fn open(&mut self, generation: &Generation) -> Result<(), FleetError> {
        if let Some(next) = &mut self.next
            && is_same(&next.generation, generation)
        {
            next.generation = generation.clone();
            return Ok(());
        }
        let store = &self.context.store;
        let fleet = self.track.membership().fleet();
        let fetched = fleet.fetch(store, &self.followed.name, generation).await?;
        let served = self.publisher.snapshot();
        let is_served = served.is_some_and(|served| {
            let served = served.revision();
            served.id == fetched.revision.id && served.content == fetched.revision.content
        });
        let (own, revision) = (store.clone(), fetched.revision.clone());
        let wanted = fetched.image;
        let opened = tokio::task::spawn_blocking(move || {
            let snapshot = if is_served {
                None
            } else {
                Some(Snapshot::open(&own, revision)?)
            };
            let image = match wanted {
                Some(wanted) => {
                    let opened = Image::open(&own, wanted.revision, wanted.image.clone());
                    let opened =
                        opened.map_err(DiskError::at("open an image in", &own.temporary()))?;
                    Some(OpenedImage {
                        image: Arc::new(opened),
                        record: wanted.image,
                        revision: wanted.revision,
                        _pins: wanted.pins,
                    })
                }
                None => None,
            };
            Ok::<_, StoreError>((snapshot, image))
        });
        let folder = store.temporary();
        let opened = opened.await;
        let stopped = |error| {
            let error = std::io::Error::other(error);
            Err(DiskError::at("open a revision in", &folder)(error).into())
        };
        let (snapshot, image) = opened.unwrap_or_else(stopped)?;
        if let Some(image) = &image {
            self.images.prepare(Arc::clone(&image.image));
        }
        self.next = Some(Opened {
            generation: generation.clone(),
            revision: fetched.revision,
            snapshot,
            image,
        });
        Ok(())
    }

    /// Shows clients what is open.
    async fn show(&mut self) {
        let Some(mut next) = self.next.take() else {
            return;
        };
        let store = &self.context.store;
        let problems = store.problems(next.revision.id).await.unwrap_or_default();
        // A replica turns in memory first: the disk may be slow.
        let image = next.image.as_ref().map(|opened| Arc::clone(&opened.image));
        let snapshot = next.snapshot.take();
        let is_new = snapshot.is_some();
        if let Some(image) = image {
            let shown = self.images.image();
            let is_shown = shown.is_some_and(|shown| {
                shown.revision == image.revision
                    && shown.record == image.record
                    && shown.parts().all(|blob| !blob.is_damaged())
            });
            if !is_shown {
                self.images.publish(image);
            }
        }
        if let Some(snapshot) = snapshot {
            let problems = problems.clone().into();
            self.publisher.update(|status| status.problems = problems);
            self.publisher.publish(snapshot);
        } else {
            self.publisher
                .update(|status| status.first_attempt_done = true);
            self.publisher.set_repair(Repair::Done);
            // Those who make images look at what is there.
            self.publisher.announce();
        }
        // Another replica has resolved it.
        self.publisher
            .update(|status| status.set_resolved(tokio::time::Instant::now()));
        let is_held = self.track.subscribe().borrow().lease.is_some();
        self.shown = Some(next);
        if let (true, false, Some(snapshot)) = (is_new, is_held, self.publisher.snapshot()) {
            announce(
                &snapshot,
                &problems,
                None,
                "serving a new revision of the fleet",
            );
        }
    }

    /// Makes what clients see what a start serves.
    async fn record(&mut self) -> Result<(), FleetError> {
        let Some(shown) = self.shown.as_ref().filter(|_| !self.is_recorded) else {
            return Ok(());
        };
        let (store, revision) = (&self.context.store, &shown.revision);
        store.serve(revision).await?;
        let own_image = shown.image.as_ref();
        if let Some(image) = own_image.filter(|image| image.revision == revision.id) {
            store.record_image(revision.id, &image.record).await?;
        }
        store.retire_older(revision).await?;
        self.is_recorded = true;
        Ok(())
    }
}

/// Whether enough replicas have a generation after this time.
fn is_enough(prepared: Prepared, waited: Duration) -> bool {
    let Prepared {
        replicas, having, ..
    } = prepared;
    having >= replicas
        || (waited >= ALL && having * 2 > replicas)
        || (waited >= MAJORITY && having * 2 == replicas)
}

/// Whether both are the same, whether or not their moment is set. After a failover, a
/// number may mean another generation.
fn is_same(one: &Generation, other: &Generation) -> bool {
    one.id == other.id
        && one.revision == other.revision
        && one.content == other.content
        && one.image == other.image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_turn_when_all_have_it_or_most_or_after_long_half() {
        let enough = |having, replicas, seconds| {
            let prepared = Prepared {
                replicas,
                having,
                mine: true,
                has_others: true,
            };
            is_enough(prepared, Duration::from_secs(seconds))
        };
        assert!(enough(1, 1, 0) && enough(3, 3, 0));
        assert!(!enough(2, 3, 29) && enough(2, 3, 30));
        assert!(!enough(1, 2, 89) && enough(1, 2, 90));
        assert!(!enough(1, 3, 1000) && !enough(2, 5, 1000));
    }
}
