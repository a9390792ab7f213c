//! Keeps this replica alive in the fleet, and its view of it up to date.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::ingest::fleet::fleet_metrics;
use crate::ingest::fleet::leases::{begin_again, set_leases, share_out};
use crate::ingest::fleet::membership::Membership;
use crate::ingest::fleet::moments;
use crate::ingest::fleet::track_state::{GivenUp, TrackState};
use crate::store::RevisionId;
use crate::store::fleet::{FleetError, Generation, TrackId};

/// The time between two beats. All that an idle replica asks of the database is one
/// transaction each.
pub(super) const INTERVAL: Duration = Duration::from_millis(2500);
/// The same while something is announced whose moment may be set at any time.
const SHORT_INTERVAL: Duration = Duration::from_millis(500);
/// The same after a beat that failed: the others wait for this replica once the database
/// answers again.
const AGAIN: Duration = Duration::from_secs(1);
/// The least time between two beats.
const LEAST: Duration = Duration::from_millis(100);
/// A replica lives so long after a beat. Without another one it stops its passes.
const LIFE: Duration = Duration::from_secs(6);
/// The longest time of one beat.
const LONGEST: Duration = Duration::from_secs(4);
/// The time before another reason of the same failure is told.
const TELL_AGAIN: Duration = Duration::from_secs(5);
/// The time between two looks at the password, while the database answers.
const READ_AGAIN: Duration = Duration::from_mins(1);

/// What the last beats have shown.
#[derive(Default)]
struct Seen {
    /// The last change whose generations were read.
    change: Option<i64>,
    /// The change that the last beat found: a smaller one is of an older database.
    newest: i64,
    /// Of which tracks.
    tracks: Vec<TrackId>,
    /// Since when there are tracks that nobody follows.
    starved: Option<Instant>,
}

/// The time between two looks at how long the database is silent.
const LOOK: Duration = Duration::from_secs(1);

/// Follows no catalog any more once the database has been silent for the life of a replica,
/// even if no beat ends.
pub(super) async fn watch_silence(membership: Membership, stop: CancellationToken) {
    let watching = async {
        loop {
            let silence = membership.silence();
            fleet_metrics::beat(silence);
            if silence >= LIFE {
                set_leases(&membership, &[]);
                fleet_metrics::replicas(0);
                membership.note_silence();
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    stop.run_until_cancelled(watching).await;
}

/// Beats until it is stopped, then leaves the fleet.
pub(super) async fn beat(membership: Membership, stop: CancellationToken) {
    let mut read = Instant::now();
    // The failure that was told last, and when.
    let mut told: Option<(String, Instant)> = None;
    let mut seen = Seen::default();
    loop {
        let late = FleetError::NoAnswer {
            of: "the database",
            after: LONGEST,
        };
        let result = tokio::time::timeout(LONGEST, once(&membership, &mut seen)).await;
        match result.unwrap_or(Err(late)) {
            Ok(()) => {
                if told.take().is_some() {
                    tracing::info!("the database of the fleet answers again");
                }
            }
            Err(error) => {
                fleet_metrics::failed(&error);
                if matches!(error, FleetError::OtherFleet) {
                    // Nobody there knows what this replica may do.
                    set_leases(&membership, &[]);
                    membership.verification().doubt_database();
                }
                let error = error.to_string();
                let is_known = told
                    .as_ref()
                    .is_some_and(|(text, when)| *text == error || when.elapsed() < TELL_AGAIN);
                if !is_known {
                    tracing::warn!(error, "no word to the fleet: serving goes on, passes wait");
                    told = Some((error.clone(), Instant::now()));
                }
                membership.note(Err(error));
                // Read again once it answers.
                seen.change = None;
            }
        }
        if told.is_some() || read.elapsed() >= READ_AGAIN {
            membership.fleet().read_files_again().await;
            read = Instant::now();
        }
        let interval = if membership.has_pending() {
            SHORT_INTERVAL
        } else if told.is_some() {
            AGAIN
        } else {
            INTERVAL
        };
        // Whoever may connect to the database may send notifications.
        let pausing = async {
            tokio::time::sleep(LEAST).await;
            tokio::select! {
                () = tokio::time::sleep(interval.saturating_sub(LEAST)) => {}
                () = membership.nudged() => {}
            }
        };
        tokio::select! {
            () = pausing => {}
            () = stop.cancelled() => break,
        }
    }
    set_leases(&membership, &[]);
    if let Some(me) = membership.me() {
        let left = tokio::time::timeout(LONGEST, membership.fleet().leave(me)).await;
        if !matches!(left, Ok(Ok(()))) {
            tracing::warn!("cannot leave the fleet: the others notice within seconds");
        }
    }
}

/// One beat: lives on, takes or gives back leases, reads what has changed.
async fn once(membership: &Membership, seen: &mut Seen) -> Result<(), FleetError> {
    membership.verification().check_database().await?;
    let fleet = membership.fleet();
    let me = if let Some(me) = membership.me() {
        me
    } else {
        let me = fleet.join().await?;
        membership.set_me(Some(me));
        me
    };
    // After a failure, the database may be another that has lost commits.
    let tracks = name_tracks(membership, seen.change.is_none()).await?;
    let new = unread(membership, &tracks);
    if !new.is_empty() {
        fleet.raise_dates(&new).await?;
    }
    let before = Instant::now();
    // A pass ends in the bucket, so others keep their tracks from a replica that cannot use it;
    // also from one without current revisions, whose lost objects it could not upload again.
    let ready = membership.is_whole();
    let troubled = membership.is_troubled() || !fleet.owns_bucket() || !ready;
    let Some(mut beat) = fleet.beat(me, ready, troubled, &tracks).await? else {
        // It was paused for so long that it was removed.
        set_leases(membership, &[]);
        membership.set_me(None);
        seen.change = None;
        membership.nudge();
        return Ok(());
    };
    if beat.known < tracks.len() {
        // The database lost commits.
        seen.change = None;
        membership.nudge();
        return Ok(());
    }
    if beat.change < seen.newest {
        seen.change = None;
        tracing::warn!(
            "the database of the fleet has gone back: what was published after that is published \
             again by the next passes"
        );
    }
    seen.newest = beat.change;
    membership.look(before, beat.now);
    // What follows may take long where there are many catalogs.
    membership.heard();
    note_given_up(membership, &beat.given_up);
    share_out(membership, me, &tracks, &mut beat, &mut seen.starved).await?;
    if !new.is_empty() || (Some(beat.change), &tracks) != (seen.change, &seen.tracks) {
        let mut generations = fleet.generations(&tracks).await?;
        if begin_again(membership, &beat.leases, &generations).await? {
            generations = fleet.generations(&tracks).await?;
        }
        note(membership, &tracks, &generations);
        seen.change = Some(beat.change);
        seen.tracks = tracks;
    }
    if beat.lost > 0 {
        // Only told: no reason for a beat to fail.
        match fleet.count_lost().await {
            Ok(lost) => beat.lost = lost,
            Err(error) => tracing::debug!(%error, "lost objects are counted later"),
        }
    }
    // Last, so that whoever gets a lease knows what was published before.
    set_leases(membership, &beat.leases);
    fleet_metrics::replicas(beat.live);
    membership.note(Ok((&beat, ready)));
    Ok(())
}

/// The rows of all tracks, which are made for new ones. `again` asks for those that are
/// known too.
async fn name_tracks(membership: &Membership, again: bool) -> Result<Vec<TrackId>, FleetError> {
    let tracks = membership.tracks();
    let unnamed =
        |(_, state): &&(_, watch::Sender<TrackState>)| again || state.borrow().id.is_none();
    let new: Vec<_> = tracks.iter().filter(unnamed).collect();
    if !new.is_empty() {
        let named = new
            .iter()
            .map(|((catalog, origin), _)| (catalog.as_str(), &**origin));
        let named: Vec<_> = named.collect();
        let ids = membership.fleet().tracks(&named).await?;
        for ((_, state), id) in new.iter().zip(ids) {
            state.send_if_modified(|state| state.id.replace(id) != Some(id));
        }
    }
    let ids = tracks.iter().filter_map(|(_, state)| state.borrow().id);
    let mut ids: Vec<TrackId> = ids.collect();
    ids.sort_unstable();
    Ok(ids)
}

/// The tracks whose generations this replica has not read, and what its clients have seen.
fn unread(membership: &Membership, tracks: &[TrackId]) -> Vec<(TrackId, Option<RevisionId>)> {
    let all = membership.tracks().into_iter();
    let unread = all.filter_map(|(_, state)| {
        let state = state.borrow();
        let id = state.id.filter(|id| !state.known && tracks.contains(id))?;
        Some((id, state.seen))
    });
    unread.collect()
}

/// Notes which tracks a replica has given up since their last pass that succeeded.
fn note_given_up(membership: &Membership, given_up: &[TrackId]) {
    for (_, state) in membership.tracks() {
        state.send_if_modified(|state| {
            let is_given_up = state.id.is_some_and(|id| given_up.contains(&id));
            let now = if is_given_up {
                GivenUp::Known
            } else {
                GivenUp::No
            };
            if (state.given_up, now) == (GivenUp::Known, GivenUp::No) {
                state.recoveries += 1;
            }
            std::mem::replace(&mut state.given_up, now) != now
        });
    }
}

/// Notes the generations of tracks. Each replica that reads a moment writes it to the bucket:
/// the one that has set it may be dead.
fn note(membership: &Membership, tracks: &[TrackId], generations: &[Generation]) {
    for (_, state) in membership.tracks() {
        let mut turned_now = None;
        state.send_if_modified(|state| {
            let Some(id) = state.id.filter(|id| tracks.contains(id)) else {
                return false;
            };
            let of_track = || generations.iter().filter(|one| one.id.track == id);
            let turned = of_track().rfind(|one| one.flips.is_some()).cloned();
            let last = of_track().next_back();
            let pending = last.filter(|one| one.flips.is_none()).cloned();
            let awaited = state.awaited().cloned();
            turned_now = turned
                .clone()
                .filter(|turned| awaited.is_some_and(|awaited| awaited.is_same(turned)));
            state.note(turned, pending)
        });
        if let Some(turned) = turned_now
            && let Some(flips) = turned.flips
        {
            moments::tell(membership, &turned, flips);
        }
    }
}
