//! Keeps this replica alive in the fleet, and its view of it up to date.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::ingest::fleet::fleet_metrics;
use crate::ingest::fleet::membership::Membership;
use crate::store::fleet::{Beat, FleetError, Generation, Lease, RETRY, ReplicaId, TrackId};

/// The time between two beats.
const INTERVAL: Duration = Duration::from_secs(2);
/// The same while something is announced whose moment may be set at any time.
const SHORT_INTERVAL: Duration = Duration::from_millis(500);
/// A replica lives so long after a beat. Without another one it stops its passes.
const LIFE: Duration = Duration::from_secs(6);
/// The longest time of one beat.
const LONGEST: Duration = Duration::from_secs(4);
/// The time between two collections of a replica, half as much more or less.
const COLLECT: Duration = Duration::from_mins(10);
/// The time between two tries to hear of changes.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

/// After so many beats with tracks that nobody follows, shares do not count.
const STARVED: u32 = 5;

/// What the last beats have shown.
#[derive(Default)]
struct Seen {
    /// The last change whose generations were read.
    change: Option<i64>,
    /// Of which tracks.
    tracks: Vec<TrackId>,
    /// Beats in a row with tracks that nobody follows.
    starved: u32,
}

/// Beats until it is stopped, then leaves the fleet.
pub async fn beat(membership: Membership, stop: CancellationToken) {
    let listening = tokio::spawn(listen(membership.clone(), stop.clone()));
    let collecting = tokio::spawn(collect(membership.clone()));
    fleet_metrics::begin();
    let mut last = Instant::now();
    let mut failing = false;
    let mut seen = Seen::default();
    loop {
        let result = tokio::time::timeout(LONGEST, once(&membership, &mut seen)).await;
        match result.map_err(|_| None).and_then(|done| done.map_err(Some)) {
            Ok(()) => {
                last = Instant::now();
                if std::mem::take(&mut failing) {
                    tracing::info!("the database of the fleet answers again");
                }
            }
            Err(error) => {
                if let Some(error) = &error {
                    fleet_metrics::failed(error);
                }
                let error = error.map_or("no answer in time".into(), |it| it.to_string());
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(error, "no word to the fleet: serving goes on, passes wait");
                }
                membership.note(Err(error));
                // Read again once it answers.
                seen.change = None;
            }
        }
        fleet_metrics::beat(last.elapsed());
        if last.elapsed() >= LIFE {
            set_leases(&membership, &[]);
        }
        let interval = if membership.has_pending() {
            SHORT_INTERVAL
        } else {
            INTERVAL
        };
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = membership.nudged() => {}
            () = stop.cancelled() => break,
        }
    }
    set_leases(&membership, &[]);
    listening.abort();
    collecting.abort();
    if let Some(me) = membership.me() {
        let left = tokio::time::timeout(LONGEST, membership.fleet().leave(me)).await;
        if !matches!(left, Ok(Ok(()))) {
            tracing::warn!("cannot leave the fleet: the others notice within seconds");
        }
    }
}

/// One beat: lives on, takes or gives back leases, reads what has changed.
async fn once(membership: &Membership, seen: &mut Seen) -> Result<(), FleetError> {
    membership.verify().await?;
    let fleet = membership.fleet();
    let me = if let Some(me) = membership.me() {
        me
    } else {
        let me = fleet.join().await?;
        membership.set_me(Some(me));
        seen.tracks.clear();
        me
    };
    let tracks = name_tracks(membership).await?;
    if tracks != seen.tracks {
        fleet.want(me, &tracks).await?;
    }
    let before = Instant::now();
    let ready = membership.may_serve();
    let Some(mut beat) = fleet.beat(me, ready, &tracks).await? else {
        // It was paused for so long that it was removed.
        set_leases(membership, &[]);
        membership.set_me(None);
        membership.nudge();
        return Ok(());
    };
    membership.look(before, beat.now);
    share_out(membership, me, &tracks, &mut beat, &mut seen.starved).await?;
    if (Some(beat.change), &tracks) != (seen.change, &seen.tracks) {
        let generations = fleet.generations(&tracks).await?;
        note(membership, &tracks, &generations);
        seen.change = Some(beat.change);
        seen.tracks = tracks;
    }
    // Last, so that whoever gets a lease knows what was published before.
    set_leases(membership, &beat.leases);
    fleet_metrics::members(beat.live, beat.leases.len());
    membership.note(Ok((&beat, ready)));
    Ok(())
}

/// The rows of all tracks, which are made for new ones.
async fn name_tracks(membership: &Membership) -> Result<Vec<TrackId>, FleetError> {
    let mut ids = Vec::new();
    for ((catalog, origin), state) in membership.tracks() {
        let known = state.borrow().id;
        let id = if let Some(id) = known {
            id
        } else {
            let id = membership.fleet().track(&catalog, &origin).await?;
            state.send_modify(|state| state.id = Some(id));
            id
        };
        ids.push(id);
    }
    ids.sort_unstable();
    Ok(ids)
}

/// Takes this replica's share of the tracks that nobody follows, and gives back what it
/// has beyond its share, one at a time. Where configurations differ, shares may leave a
/// track out: after some beats somebody takes it all the same.
async fn share_out(
    membership: &Membership,
    me: ReplicaId,
    tracks: &[TrackId],
    beat: &mut Beat,
    starved: &mut u32,
) -> Result<(), FleetError> {
    let fleet = membership.fleet();
    let unwanted = |lease: &mut Lease| !tracks.contains(&lease.track);
    for lease in beat.leases.extract_if(.., unwanted) {
        fleet.give_back(lease).await?;
    }
    let share = tracks.len().div_ceil(beat.live.max(1));
    let mine = beat.leases.len();
    *starved = if beat.free > 0 { *starved + 1 } else { 0 };
    let most = if *starved > STARVED {
        beat.free
    } else {
        beat.free.min(share.saturating_sub(mine))
    };
    if most > 0 {
        let taken = fleet.take(me, tracks, most).await?;
        fleet_metrics::took(taken.len());
        if !taken.is_empty() {
            tracing::info!(catalogs = taken.len(), "following catalogs for the fleet");
        }
        beat.leases.extend(taken);
    } else if mine > share {
        let passing = |lease: &Lease| {
            membership.tracks().iter().any(|(_, state)| {
                let state = state.borrow();
                state.id == Some(lease.track) && (state.passing || state.pending.is_some())
            })
        };
        if let Some(at) = beat.leases.iter().position(|lease| !passing(lease))
            && fleet.has_taker(beat.leases[at], mine).await?
        {
            let lease = beat.leases.swap_remove(at);
            // Nothing is begun here once another may have it.
            set_leases(membership, &beat.leases);
            fleet.give_back(lease).await?;
        }
    }
    Ok(())
}

fn set_leases(membership: &Membership, leases: &[Lease]) {
    for (_, state) in membership.tracks() {
        state.send_if_modified(|state| {
            let mut own = leases.iter();
            let lease = own.find(|lease| Some(lease.track) == state.id).copied();
            std::mem::replace(&mut state.lease, lease) != lease
        });
    }
}

/// Notes the generations of tracks.
fn note(membership: &Membership, tracks: &[TrackId], generations: &[Generation]) {
    for (_, state) in membership.tracks() {
        state.send_if_modified(|state| {
            let Some(id) = state.id.filter(|id| tracks.contains(id)) else {
                return false;
            };
            let of_track = || generations.iter().filter(|one| one.id.track == id);
            let turned = of_track().rfind(|one| one.flips.is_some()).cloned();
            let last = of_track().next_back();
            let pending = last.filter(|one| one.flips.is_none()).cloned();
            if state.known && state.turned == turned && state.pending == pending {
                return false;
            }
            state.known = true;
            state.turned = turned;
            state.pending = pending;
            true
        });
    }
}

/// Removes now and then what no replica needs any more.
async fn collect(membership: Membership) {
    loop {
        // Not all at the same time.
        tokio::time::sleep(COLLECT.mul_f64(0.5 + fastrand::f64())).await;
        match membership.fleet().collect().await {
            Ok(Some(collected)) => tracing::debug!(?collected, "collected"),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "cannot remove what the fleet does not need"),
        }
    }
}

/// Nudges at each notification. They may get lost, so nothing depends on them.
async fn listen(membership: Membership, stop: CancellationToken) {
    while !stop.is_cancelled() {
        match membership.fleet().listen().await {
            Ok(mut listener) => {
                membership.nudge();
                while let Ok(notification) = listener.recv().await {
                    if notification.payload() == RETRY {
                        membership.retry();
                    } else {
                        membership.nudge();
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "changes are heard of by beats only"),
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}
