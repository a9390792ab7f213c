//! Brings what the fleet has published to the clients of this replica: fetches it,
//! leaves a receipt, and turns to it at the moment at which all do.

mod prepare;
mod record;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use crate::ingest::catalog_metrics::announce;
use crate::ingest::context::PassContext;
use crate::ingest::fleet::fleet_metrics;
use crate::ingest::fleet::membership::Track;
use crate::ingest::fleet::moments::unless_turned;
use crate::ingest::fleet::opened::Opened;
use crate::ingest::fleet::pauses::Pauses;
use crate::ingest::fleet::replaced::{PULLS, bring_replaced, patience};
use crate::ingest::fleet::republish::republish;
use crate::ingest::fleet::track_state::{TrackState, Waiting};
use crate::ingest::fleet::turn::NOTICE;
use crate::ingest::followed::Followed;
use crate::snapshot::{FIRST_ANSWER, ImagePublisher, Publisher, Repair};
use crate::store::fleet::{FleetError, Generation, GenerationId};
use crate::store::unix_of_time;

/// How long a replica with nothing to serve waits for the first pass of another one.
const FIRST_PASS: Duration = Duration::from_mins(1);
/// The time between two tries to publish content again: each leaves a copy of its files until
/// clients see the content.
const REPUBLISH: Duration = Duration::from_secs(30);
/// How long a replica goes on with what another configuration has shown, if that is later.
const LATER: Duration = Duration::from_mins(1);
/// The time after which a failure that goes on is logged again.
const TELL_AGAIN: Duration = Duration::from_mins(1);
/// The time between two tries after a failure of what costs little.
const RETRY: Duration = Duration::from_secs(5);

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
    /// The announced generation, and when it was first seen here.
    announced: Option<(GenerationId, Instant)>,
    /// The damages that are dealt with.
    damages: u64,
    begun: Instant,
    /// Of the current generation, and of the announced one.
    turning: Pauses,
    preparing: Pauses,
    /// The failure that was logged, and when, until there is none.
    failure: Option<(&'static str, Instant)>,
    /// Whether a start would serve what clients see.
    is_kept: bool,
    /// Whether that is in the history, too.
    is_recorded: bool,
    /// Since when clients keep what another configuration has shown, as it is later.
    held: Option<Instant>,
    /// Publishes what the track shows again, and since when.
    republishing: Option<(AbortOnDropHandle<()>, Instant)>,
    /// Brings images that others have shown while this replica was away.
    bringing: Option<AbortOnDropHandle<()>>,
    /// Brings outlines that the bucket did not give.
    outlines: Option<AbortOnDropHandle<()>>,
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
        announced: None,
        damages: 0,
        begun: Instant::now(),
        turning: Pauses::default(),
        preparing: Pauses::default(),
        failure: None,
        is_kept: true,
        is_recorded: true,
        held: None,
        republishing: None,
        bringing: None,
        outlines: None,
    };
    let receiving = async {
        let mut states = receiver.track.subscribe();
        loop {
            let state = states.borrow_and_update().clone();
            // Boxed: its state is large.
            let work = Box::pin(receiver.step(state));
            let wait = tokio::select! {
                wait = work => wait,
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
    if let Err(error) = receiver.keep_shown().await {
        tracing::warn!(catalog = %receiver.followed.name, %error, "a start serves an older revision");
    }
    receiver.track.close();
}

impl Receiver {
    /// Does what the state asks for. The result is the time until the next look, if one
    /// is needed.
    async fn step(&mut self, state: TrackState) -> Option<Duration> {
        if !state.known {
            let left = FIRST_ANSWER.saturating_sub(self.begun.elapsed());
            if left.is_zero() {
                self.end_first_attempt();
                return None;
            }
            return Some(left);
        }
        let turned = self.turn(&state).await;
        let telling = self.tell_webhooks(&state);
        let told = unless_turned(&self.track, &state, telling)
            .await
            .unwrap_or(Ok(()));
        // Without anything to serve, the first pass of the holder is waited for.
        let left = FIRST_PASS.saturating_sub(self.begun.elapsed());
        if state.turned.is_some() || left.is_zero() {
            self.end_first_attempt();
        }
        // All the same, as the next generation replaces one that cannot be fetched.
        let prepared = self.prepare(&state).await;
        let republished = self.republish(&state);
        if let Err(error) = &told {
            fleet_metrics::failed(error);
            tracing::warn!(%error, "webhooks are told of the revision later");
        }
        let waits = [
            *turned.as_ref().unwrap_or(&Some(RETRY)),
            *prepared.as_ref().unwrap_or(&Some(RETRY)),
            told.is_err().then_some(RETRY),
            republished,
            (state.turned.is_none() && !left.is_zero()).then_some(left),
        ];
        // Clients see it then, and only its record fails.
        let is_shown = (state.turned.as_ref()).is_some_and(|turned| self.is_shown(turned));
        let is_unrecorded = turned.is_err() && is_shown;
        let failures: Vec<_> = turned.err().into_iter().chain(prepared.err()).collect();
        let is_paused = self.turning.has_failed() || self.preparing.has_failed();
        if !failures.is_empty() || !is_paused {
            self.tell(&failures, is_unrecorded);
        }
        if let Some(error) = failures.first() {
            let failed = Waiting::Failed(error.to_string());
            self.track.wait_for(Some(failed));
        } else if state.pending.is_none() && !is_paused && self.held.is_none() {
            self.track.wait_for(None);
        }
        waits.into_iter().flatten().min()
    }

    fn end_first_attempt(&self) {
        self.publisher
            .update(|status| status.first_attempt_done = true);
    }

    /// Counts failures, and logs the first unless one like it was logged lately. Texts
    /// differ, as they name temporary folders.
    fn tell(&mut self, failures: &[FleetError], is_unrecorded: bool) {
        failures.iter().for_each(fleet_metrics::failed);
        let Some(error) = failures.first() else {
            self.failure = None;
            return;
        };
        let told = self.failure.filter(|(reason, _)| *reason == error.reason());
        if told.is_some_and(|(_, when)| when.elapsed() < TELL_AGAIN) {
            return;
        }
        self.failure = Some((error.reason(), Instant::now()));
        let (catalog, reason) = (&self.followed.name, error.reason());
        if is_unrecorded {
            tracing::error!(
                %catalog, reason, %error,
                "the current revision is served, and cannot be added to the history yet"
            );
        } else {
            tracing::error!(
                %catalog, reason, %error,
                "cannot receive what the fleet publishes, the current revision stays"
            );
        }
    }

    /// Shows clients the current generation. The result is the time until the next try, if
    /// one has failed lately.
    async fn turn(&mut self, state: &TrackState) -> Result<Option<Duration>, FleetError> {
        let Some(turned) = &state.turned else {
            // Nobody serves anything of it yet.
            self.note_served(state, None);
            return Ok(None);
        };
        let is_damaged = state.damages != self.damages;
        if is_damaged || !self.is_shown(turned) {
            let begun = Instant::now();
            if let Some(left) = self.turning.left(turned.id, begun) {
                return Ok(Some(left));
            }
            fleet_metrics::behind(&self.followed.name, true);
            let opened = self.open(turned, is_damaged).await;
            opened.inspect_err(|error| self.turning.fail(turned.id, error, Instant::now()))?;
            if self.would_go_back(turned) {
                self.track.wait_for(Some(Waiting::Date));
                return Ok(Some(RETRY));
            }
            self.held = None;
            self.damages = state.damages;
            let now = Instant::now();
            let moment = turned.flips.and_then(|flips| self.moment(flips));
            // Not for longer, should the database's clock go back.
            let moment = moment.map_or(now, |moment| moment.min(now + NOTICE * 2));
            self.track.wait_for(Some(Waiting::Moment));
            tokio::time::sleep_until(moment.into()).await;
            let before = self.shown.as_ref().map(|shown| shown.generation.id.number);
            self.show();
            let late = moment.elapsed();
            tracing::debug!(generation = turned.id.number, ?late, "turned");
            (self.is_kept, self.is_recorded) = (false, false);
            // Before anything that waits for others. Recording tells a failure.
            let _ = self.keep_shown().await;
            let announced = self.announced.take_if(|(id, _)| *id == turned.id);
            fleet_metrics::turned(announced.map_or(begun, |(_, since)| since).elapsed());
            if before.is_none_or(|before| before + 1 < turned.id.number) {
                self.bring_replaced(turned).await;
            }
        }
        self.turning.end();
        // A disk that fails is no reason to tell others that clients see less.
        let recorded = self.record(state).await;
        // A damaged revision is withdrawn until it is fetched again.
        let is_serving = self.publisher.snapshot().is_some();
        self.note_served(state, is_serving.then_some(turned.id));
        recorded?;
        self.tidy().await?;
        Ok(None)
    }

    /// Brings images that only others have shown. A replica that starts has no clients yet,
    /// and waits for a while until each was tried once.
    async fn bring_replaced(&mut self, turned: &Generation) {
        let (context, track) = (self.context.clone(), self.track.clone());
        let (tried, first_try) = oneshot::channel();
        let work = bring_replaced(context, track, self.images.clone(), turned.clone(), tried);
        let bringing = tokio::spawn(work.in_current_span());
        self.bringing = Some(AbortOnDropHandle::new(bringing));
        let is_counted = self.track.membership().is_counted();
        if let Some(patience) = patience(is_counted, self.begun.elapsed()) {
            let _ = tokio::time::timeout(patience, first_try).await;
        }
    }

    /// Whether clients, who see what another configuration has shown, would get something older
    /// that the replica that follows the catalog publishes again.
    fn would_go_back(&mut self, turned: &Generation) -> bool {
        let seen = self.publisher.snapshot().filter(|_| self.shown.is_none());
        let is_older = seen.is_some_and(|seen| {
            let seen = i64::try_from(unix_of_time(seen.revision().modified));
            seen.is_ok_and(|seen| turned.modified < seen)
        });
        let is_held = is_older && turned.is_outdated();
        is_held && self.held.get_or_insert_with(Instant::now).elapsed() < LATER
    }

    /// Has this replica publish what a track shows again, if it follows it and that is older
    /// than what another configuration has shown. The result is the time until another try.
    fn republish(&mut self, state: &TrackState) -> Option<Duration> {
        let outdated = state.turned.as_ref().filter(|turned| turned.is_outdated());
        let (Some(lease), Some(outdated)) = (state.lease, outdated) else {
            return None;
        };
        let is_recent =
            (self.republishing.as_ref()).is_some_and(|(_, since)| since.elapsed() < REPUBLISH);
        let is_for_others = state.passing || state.pending.is_some();
        if !(is_for_others || is_recent || self.is_republishing()) {
            let holding = (self.track.clone(), lease);
            let (context, followed) = (self.context.clone(), self.followed.clone());
            let work = republish(context, followed, holding, outdated.clone());
            let task = tokio::spawn(work.in_current_span());
            self.republishing = Some((AbortOnDropHandle::new(task), Instant::now()));
        }
        Some(RETRY)
    }

    fn is_republishing(&self) -> bool {
        let task = self.republishing.as_ref();
        task.is_some_and(|(task, _)| !task.is_finished())
    }

    /// Whether clients see a generation, and its image is whole.
    fn is_shown(&self, generation: &Generation) -> bool {
        let shown = self.shown.as_ref();
        let is_whole = |shown: &Opened| {
            let image = shown.image.as_ref().and_then(|_| self.images.image());
            image.is_none_or(|image| image.parts().all(|blob| !blob.is_damaged()))
        };
        shown.is_some_and(|shown| shown.generation.is_same(generation) && is_whole(shown))
    }

    /// Notes the generation that clients see.
    fn note_served(&self, state: &TrackState, served: Option<GenerationId>) {
        let current = state.turned.as_ref().map(|turned| turned.id);
        fleet_metrics::behind(&self.followed.name, served != current);
        if state.served != served {
            self.track.update(|state| state.served = served);
            let membership = self.track.membership();
            if !membership.is_counted() {
                // Soon, as it gets no clients before.
                membership.nudge();
            }
        }
    }

    fn moment(&self, time: i64) -> Option<Instant> {
        self.track.membership().moment(time)
    }

    /// Shows clients what is open.
    fn show(&mut self) {
        let Some(mut next) = self.next.take() else {
            return;
        };
        let problems = std::mem::take(&mut next.problems);
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
                self.images.publish_beside(image, PULLS);
            }
        }
        if let Some(snapshot) = snapshot {
            let problems = problems.clone().into();
            self.publisher.update(|status| status.problems = problems);
            self.publisher.publish(snapshot);
        } else {
            self.publisher.set_repair(Repair::Done);
            // Those who make images look at what is there.
            self.publisher.announce();
        }
        // The pass of another replica, which may be long ago.
        let resolved = next.generation.resolved.and_then(|time| self.moment(time));
        self.publisher.update(|status| {
            let resolved = resolved.map(tokio::time::Instant::from_std);
            status.resolved = status.resolved.max(resolved);
            status.failure = None;
        });
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
}
