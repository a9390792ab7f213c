//! Shows clients of this replica the newest generation of a track.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::fleet::coordinator::SharedTrack;
use crate::fleet::error::FleetError;
use crate::fleet::fetch::{Fetched, FetchedImage};
use crate::fleet::file_limit::FileLimit;
use crate::fleet::fleet_metrics;
use crate::fleet::generations::Generation;
use crate::fleet::numbers::GenerationNumber;
use crate::fleet::pauses::Pauses;
use crate::fleet::track_state::TrackState;
use crate::fleet::upload::blocking;
use crate::snapshot::{FIRST_ANSWER, Image, ImagePublisher, Publisher, Repair, Snapshot};
use crate::store::{self, BlobPin, DiskError, KeptHistory, Revision, RevisionId, StoreError};
use fbc::problem::Problem;

/// How long a replica with nothing to show waits for the first pass of the holder.
const FIRST_PASS: Duration = Duration::from_mins(1);
/// The time after which a failure that goes on is logged again.
const LOG_AGAIN: Duration = Duration::from_mins(1);
/// The time between two tries after a failure of what costs little.
const RETRY: Duration = Duration::from_secs(5);

/// What follows when clients see another revision.
pub trait Observer: Send + Sync {
    /// Reports a revision that clients see now.
    fn shown(&self, snapshot: &Snapshot, problems: &[Problem]);

    /// Notifies webhooks of a revision, and counts what it has changed.
    fn notify(&self, revision: Revision) -> BoxFuture<'_, ()>;
}

/// Shows the newest generations of a catalog.
pub struct Receiver {
    /// The catalog in the fleet.
    pub track: SharedTrack,
    /// What clients see.
    pub publisher: Publisher,
    /// The images that clients pull.
    pub images: ImagePublisher,
    /// The largest files and images that are taken.
    pub limit: FileLimit,
    /// How much of the history is kept.
    pub history: watch::Receiver<KeptHistory>,
    /// Is told of what clients see.
    pub observer: Arc<dyn Observer>,
}

/// What a task remembers of a track.
struct Receiving {
    with: Receiver,
    shown: Option<Shown>,
    /// The damages that are dealt with.
    damages: u64,
    begun: Instant,
    pauses: Pauses,
    /// The failure that was logged, and when, until there is none.
    logged: Option<(&'static str, Instant)>,
}

/// A generation that clients see.
struct Shown {
    number: GenerationNumber,
    revision: Revision,
    image: Option<(RevisionId, store::Image)>,
    /// The parts of its image stay as long as it may be served.
    _pins: Vec<BlobPin>,
    /// Whether a start would serve it, and the history has it.
    is_recorded: bool,
    /// What was done about webhooks.
    notice: Notice,
}

/// What a replica that follows a catalog has done about webhooks of a generation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notice {
    Due,
    /// The database may not have taken that.
    Sent,
    Recorded,
}

/// A generation that is open here.
struct Opened {
    /// `None` where clients see its revision already.
    snapshot: Option<(Snapshot, Vec<Problem>)>,
    image: Option<Arc<Image>>,
    shown: Shown,
}

impl Receiver {
    /// Works until it is stopped.
    pub async fn run(self, stop: CancellationToken) {
        let span = tracing::info_span!("receive", catalog = %self.track.catalog());
        let mut states = self.track.state();
        let mut receiving = Receiving {
            with: self,
            shown: None,
            damages: 0,
            begun: Instant::now(),
            pauses: Pauses::default(),
            logged: None,
        };
        let work = async {
            loop {
                let state = states.borrow_and_update().clone();
                // Boxed: its state is large.
                let wait = tokio::select! {
                    wait = Box::pin(receiving.step(state)) => wait,
                    () = stop.cancelled() => break,
                };
                let pause = async {
                    match wait {
                        Some(wait) => tokio::time::sleep(wait).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    changed = states.changed() => if changed.is_err() { break },
                    () = pause => {}
                    () = stop.cancelled() => break,
                }
            }
        };
        work.instrument(span).await;
        receiving.with.track.close();
    }
}

impl Receiving {
    /// Does what the state asks for. The result is the time until the next look, if one is
    /// needed.
    async fn step(&mut self, state: TrackState) -> Option<Duration> {
        let since = self.begun.elapsed();
        if !state.is_known {
            return self.wait_for(FIRST_ANSWER.saturating_sub(since));
        }
        let Some(newest) = &state.newest else {
            // Nobody has published anything yet, or the database has lost it.
            return self.wait_for(FIRST_PASS.saturating_sub(since));
        };
        let is_damaged = state.damages != self.damages;
        if (is_damaged || !self.shows(newest)) && !self.is_behind_clients(&state, newest) {
            if let Some(left) = self.pauses.left(newest.number, Instant::now()) {
                return Some(self.begin_late(since, left));
            }
            let begun = Instant::now();
            if let Err(error) = self.show(newest, is_damaged).await {
                self.pauses.fail(newest.number, &error, Instant::now());
                self.report(&error);
                self.with.track.set_problem(Some(error.to_string()));
                let left = self.pauses.left(newest.number, Instant::now());
                return left.map(|left| self.begin_late(since, left));
            }
            self.damages = state.damages;
            fleet_metrics::shown(begun.elapsed());
        } else if !self.shows(newest) {
            return self.wait_for(FIRST_PASS.saturating_sub(since));
        }
        self.pauses.end();
        self.logged = None;
        self.with.track.set_problem(None);
        // A damaged revision is withdrawn until it is fetched again.
        let is_served = self.with.publisher.snapshot().is_some();
        self.with
            .track
            .set_shown(is_served.then_some(newest.number));
        self.wait_for(Duration::ZERO);
        match self.record().await {
            Ok(()) => None,
            Err(error) => {
                self.report(&error);
                Some(RETRY)
            }
        }
    }

    /// Waits for so long until this replica is ready with what it has.
    fn wait_for(&self, left: Duration) -> Option<Duration> {
        if left.is_zero() {
            self.with.track.begin();
            if !self.with.publisher.status().first_attempt_done {
                let publisher = &self.with.publisher;
                publisher.update(|status| status.first_attempt_done = true);
            }
        }
        (!left.is_zero()).then_some(left)
    }

    /// The time until the next try. A replica that cannot fetch for long is ready with what it
    /// has: others may fail in the same way.
    fn begin_late(&self, since: Duration, left: Duration) -> Duration {
        if self.with.publisher.snapshot().is_none() {
            return left;
        }
        let until_ready = self.wait_for(FIRST_PASS.saturating_sub(since));
        until_ready.map_or(left, |until_ready| until_ready.min(left))
    }

    /// Whether a generation is older than what clients may have seen: the holder publishes a
    /// newer one soon. Not for long, as it may fail.
    fn is_behind_clients(&self, state: &TrackState, newest: &Generation) -> bool {
        let seen = self.with.publisher.snapshot();
        let seen = seen.map(|snapshot| snapshot.revision().id);
        let is_behind = state.is_outdated()
            || (self.shown.is_none() && seen.is_some_and(|seen| newest.revision < seen));
        is_behind && (self.shown.is_some() || self.begun.elapsed() < FIRST_PASS)
    }

    /// Whether clients see a generation, and its image is whole.
    fn shows(&self, generation: &Generation) -> bool {
        let is_whole = || {
            let image = self.with.images.image();
            image.is_none_or(|image| image.parts().all(|blob| !blob.is_damaged()))
        };
        let is_same = self.shown.as_ref().is_some_and(|shown| {
            shown.number == generation.number
                && shown.revision.content.to_string() == generation.content
        });
        is_same && is_whole()
    }

    /// Counts a failure, and logs it unless one like it was logged lately. Texts differ, as
    /// they name temporary folders.
    fn report(&mut self, error: &FleetError) {
        fleet_metrics::failed(error);
        let reason = error.reason();
        let logged = self.logged.filter(|(of, _)| *of == reason);
        if logged.is_some_and(|(_, when)| when.elapsed() < LOG_AGAIN) {
            return;
        }
        self.logged = Some((reason, Instant::now()));
        tracing::error!(
            catalog = %self.with.track.catalog(), reason, %error,
            "cannot show or record what the fleet has published, the current revision stays"
        );
    }

    /// Fetches a generation and shows it; its files are fetched again if they are damaged.
    async fn show(&mut self, newest: &Generation, is_damaged: bool) -> Result<(), FleetError> {
        let replica = self.with.track.replica();
        let of = (self.with.track.catalog(), newest);
        let reader = replica.reader();
        let fetched = reader
            .fetch(replica.store(), self.with.limit, of, is_damaged)
            .await?;
        let served = self.with.publisher.snapshot();
        let is_served = served.is_some_and(|served| {
            let served = served.revision();
            !is_damaged
                && served.id == fetched.revision.id
                && served.content == fetched.revision.content
                && served.modified == fetched.revision.modified
        });
        let opened = open(replica.store(), newest, fetched, is_served).await?;
        if let Some(image) = opened.image {
            let shown = self.with.images.image();
            let is_shown = shown.is_some_and(|shown| {
                shown.revision == image.revision
                    && shown.record == image.record
                    && shown.parts().all(|blob| !blob.is_damaged())
            });
            if !is_shown {
                self.with.images.publish(image);
            }
        }
        let publisher = &self.with.publisher;
        if let Some((snapshot, problems)) = opened.snapshot {
            self.with.observer.shown(&snapshot, &problems);
            publisher.update(|status| status.problems = problems.into());
            publisher.publish(snapshot);
        } else {
            publisher.set_repair(Repair::Done);
            // Those who make images look at what is there.
            publisher.announce();
        }
        publisher.update(|status| {
            let resolved = newest.resolved.map(tokio::time::Instant::from_std);
            status.resolved = status.resolved.max(resolved);
            status.failure = None;
        });
        let mut shown = opened.shown;
        let before = self.shown.as_ref();
        let before = before.filter(|before| before.revision.id == shown.revision.id);
        shown.notice = before.map_or(Notice::Due, |before| before.notice);
        self.shown = Some(shown);
        Ok(())
    }

    /// Makes what clients see what a start serves, adds it to the history, and notifies
    /// webhooks if this replica follows the catalog.
    async fn record(&mut self) -> Result<(), FleetError> {
        let Some(shown) = &mut self.shown else {
            return Ok(());
        };
        let replica = self.with.track.replica();
        let (store, revision) = (replica.store(), &shown.revision);
        if !shown.is_recorded {
            let image = shown.image.as_ref().map(|(of, image)| (*of, image));
            store.make_current(revision, image).await?;
            let kept = *self.with.history.borrow();
            let most = kept.revisions.saturating_add(kept.days);
            // Missed revisions come before the current one.
            let reader = replica.reader();
            reader
                .fetch_history(store, &revision.catalog, revision.id, most)
                .await?;
            store.serve(revision).await?;
            store.trim_history(&revision.catalog, kept).await?;
            let id = revision.id;
            // A pass may have made a later one.
            store.retire_spare(revision, |spare| spare < id).await?;
            shown.is_recorded = true;
        }
        if shown.notice == Notice::Recorded {
            return Ok(());
        }
        // The next holder begins once this is recorded, and finds nothing to do.
        let track = &self.with.track;
        let Some(_work) = track.begin_work() else {
            return Ok(());
        };
        let newest = track.state().borrow().newest.clone();
        let newest = newest.filter(|newest| newest.number == shown.number);
        let Some(newest) = newest.filter(|newest| newest.is_unnotified) else {
            return Ok(());
        };
        if shown.notice == Notice::Due {
            self.with.observer.notify(revision.clone()).await;
            shown.notice = Notice::Sent;
        }
        let fleet = replica.fleet();
        fleet.record_notified(newest.track, newest.revision).await?;
        shown.notice = Notice::Recorded;
        Ok(())
    }
}

/// Opens what is on the disk; its revision only unless it `is_served`.
async fn open(
    store: &store::Store,
    newest: &Generation,
    fetched: Fetched,
    is_served: bool,
) -> Result<Opened, FleetError> {
    let Fetched { revision, image } = fetched;
    let (own, wanted) = (store.clone(), revision.clone());
    let opened = blocking(move || {
        let snapshot = if is_served {
            None
        } else {
            Some(Snapshot::open(&own, wanted)?)
        };
        let open = |wanted: &FetchedImage| {
            let opened = Image::open(&own, wanted.revision, wanted.image.clone());
            let opened = opened.map_err(DiskError::at("open an image in", &own.temporary()));
            opened.map_err(StoreError::from).map(Arc::new)
        };
        let opened = image.as_ref().map(open).transpose()?;
        Ok((snapshot, opened, image))
    });
    let (snapshot, opened, image) = opened.await?;
    let problems = store.problems(revision.id).await.unwrap_or_default();
    let (image, pins) = match image {
        Some(FetchedImage {
            revision,
            image,
            pins,
        }) => (Some((revision, image)), pins),
        None => (None, Vec::new()),
    };
    Ok(Opened {
        snapshot: snapshot.map(|snapshot| (snapshot, problems)),
        image: opened,
        shown: Shown {
            number: newest.number,
            revision,
            image,
            _pins: pins,
            is_recorded: false,
            notice: Notice::Due,
        },
    })
}
