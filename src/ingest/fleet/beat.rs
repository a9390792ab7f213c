//! Keeps this replica alive in the fleet, and its view of it up to date.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::ingest::fleet::fleet_metrics;
use crate::ingest::fleet::membership::Membership;
use crate::ingest::fleet::moments;
use crate::ingest::fleet::track_state::{GivenUp, TrackState};
use crate::ingest::followed::has_origin_of;
use crate::store::fleet::{Beat, FleetError, Generation, Lease, ReplicaId, TrackId};

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

/// When nobody has followed a track for so long, shares do not count.
const STARVED: Duration = Duration::from_secs(12);
/// After so long, a replica takes what others should be better for.
const LONG_STARVED: Duration = Duration::from_secs(40);

/// What the last beats have shown.
#[derive(Default)]
struct Seen {
    /// The last change whose generations were read.
    change: Option<i64>,
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
    membership.look(before, beat.now);
    // What follows may take long where there are many catalogs.
    membership.heard();
    note_given_up(membership, &beat.given_up);
    share_out(membership, me, &tracks, &mut beat, &mut seen.starved).await?;
    if (Some(beat.change), &tracks) != (seen.change, &seen.tracks) {
        let generations = fleet.generations(&tracks).await?;
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

/// Takes this replica's share of the tracks that nobody follows, and gives back what it
/// has beyond its share or cannot follow, one at a time. Where configurations differ,
/// shares may leave a track out: after some beats somebody takes it all the same.
async fn share_out(
    membership: &Membership,
    me: ReplicaId,
    tracks: &[TrackId],
    beat: &mut Beat,
    starved: &mut Option<Instant>,
) -> Result<(), FleetError> {
    let fleet = membership.fleet();
    let unwanted = |lease: &mut Lease| !tracks.contains(&lease.track);
    for lease in beat.leases.extract_if(.., unwanted) {
        fleet.give_back(lease).await?;
    }
    tell_successes(membership, &beat.leases).await?;
    let unfit = unfit_tracks(membership);
    give_up(membership, beat, &unfit).await?;
    let share = tracks.len().div_ceil(beat.live.max(1));
    let mine = beat.leases.len();
    // A pass ends in the bucket.
    let may_follow = fleet.owns_bucket();
    let starved = if beat.free > 0 && may_follow {
        starved.get_or_insert_with(Instant::now).elapsed()
    } else {
        *starved = None;
        Duration::ZERO
    };
    let most = if !may_follow {
        0
    } else if starved > STARVED {
        beat.free
    } else {
        beat.free.min(share.saturating_sub(mine))
    };
    if most > 0 {
        let may_take = |track: &TrackId| {
            let Some(state) = find(membership, *track) else {
                return false;
            };
            let (lacks, sources) = {
                let state = state.borrow();
                (!state.is_settled(), state.sources())
            };
            // Made of older revisions, a catalog would go back.
            let is_behind = !membership.behind_with(&sources).is_empty();
            // Those that have its bytes write again what the bucket has lost.
            let is_for_others = beat.fit > 0 && (lacks || unfit.contains(track));
            starved >= LONG_STARVED || !(is_behind || is_for_others)
        };
        let willing: Vec<TrackId> = tracks.iter().copied().filter(may_take).collect();
        let taken = fleet.take(me, &willing, most).await?;
        fleet_metrics::took(taken.len());
        if !taken.is_empty() {
            tracing::info!(
                catalogs = names(membership, &taken),
                "following catalogs for the fleet"
            );
            for lease in &taken {
                if let Some(state) = find(membership, lease.track) {
                    // What failed under an earlier lease says nothing of this one.
                    state.send_modify(|state| state.unfit = None);
                }
            }
            begin_tracks(membership, &taken).await?;
        }
        beat.leases.extend(taken);
    }
    let is_idle = |lease: &&Lease| {
        find(membership, lease.track).is_none_or(|state| {
            let state = state.borrow();
            !state.passing && state.pending.is_none()
        })
    };
    let idle = beat.leases.iter().find(is_idle).copied();
    if let Some(lease) = idle.filter(|_| most == 0 && mine > share)
        && fleet.has_taker(lease, mine).await?
    {
        beat.leases.retain(|kept| *kept != lease);
        tracing::info!(
            catalogs = names(membership, &[lease]),
            "another replica shall follow: it has less to do"
        );
        // Nothing is begun here once another may have it.
        set_leases(membership, &beat.leases);
        fleet.give_back(lease).await?;
    }
    Ok(())
}

/// The tracks that this replica leaves to others.
fn unfit_tracks(membership: &Membership) -> Vec<TrackId> {
    let tracks = membership.tracks().into_iter();
    let unfit = tracks.filter_map(|(_, state)| {
        let state = state.borrow();
        state.id.filter(|_| state.is_unfit())
    });
    unfit.collect()
}

/// Gives those of them back that another replica would follow.
async fn give_up(
    membership: &Membership,
    beat: &mut Beat,
    unfit: &[TrackId],
) -> Result<(), FleetError> {
    let is_unfit = |lease: &mut Lease| unfit.contains(&lease.track);
    let leases: Vec<Lease> = beat.leases.extract_if(.., is_unfit).collect();
    for lease in leases {
        if !membership.fleet().has_better(lease).await? {
            beat.leases.push(lease);
            continue;
        }
        tracing::warn!(
            catalogs = names(membership, &[lease]),
            "passes fail here: another replica shall follow the catalog"
        );
        // Before the end of the lease, so that the failures here are still shown after it.
        if let Some(state) = find(membership, lease.track) {
            state.send_modify(|state| state.given_up = GivenUp::Here);
        }
        // Nothing is begun here once another may have it.
        set_leases(membership, &beat.leases);
        membership.fleet().give_up(lease).await?;
    }
    Ok(())
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

/// Tells those that gave a track up that a pass has succeeded here.
async fn tell_successes(membership: &Membership, leases: &[Lease]) -> Result<(), FleetError> {
    for (_, state) in membership.tracks() {
        let lease = {
            let state = state.borrow();
            state
                .lease
                .filter(|_| state.given_up != GivenUp::No && state.succeeded == state.lease)
        };
        if let Some(lease) = lease.filter(|lease| leases.contains(lease)) {
            membership.fleet().succeed(lease).await?;
            state.send_modify(|state| state.given_up = GivenUp::No);
        }
    }
    Ok(())
}

/// Lets tracks that have nothing yet begin with what another configuration of the same
/// catalog serves, if it is of the same place: clients of a new replica get that until its
/// first pass.
async fn begin_tracks(membership: &Membership, taken: &[Lease]) -> Result<(), FleetError> {
    for ((catalog, _), state) in membership.tracks() {
        let (id, source) = {
            let state = state.borrow();
            (state.id, state.source.clone())
        };
        let lease = taken.iter().find(|lease| Some(lease.track) == id);
        let (Some(lease), Some(source)) = (lease, source) else {
            continue;
        };
        let fleet = membership.fleet();
        let others = fleet.served_elsewhere(&catalog, lease.track).await?;
        let mut others = others.into_iter();
        let other = others.find(|(identity, _)| has_origin_of(&source, identity));
        if let Some((identity, other)) = other
            && fleet.begin_with(*lease, other).await?
        {
            tracing::info!(%catalog, of = %identity, "begins with what the fleet serves");
        }
    }
    Ok(())
}

/// The catalogs of some leases.
fn names(membership: &Membership, leases: &[Lease]) -> String {
    let tracks = membership.tracks().into_iter();
    let named = tracks.filter_map(|((catalog, _), state)| {
        let id = state.borrow().id;
        let is_named = leases.iter().any(|lease| Some(lease.track) == id);
        is_named.then(|| catalog.to_string())
    });
    named.collect::<Vec<_>>().join(", ")
}

fn find(membership: &Membership, track: TrackId) -> Option<watch::Sender<TrackState>> {
    let mut tracks = membership.tracks().into_iter().map(|(_, state)| state);
    tracks.find(|state| state.borrow().id == Some(track))
}

fn set_leases(membership: &Membership, leases: &[Lease]) {
    fleet_metrics::leases(leases.len());
    for (_, state) in membership.tracks() {
        state.send_if_modified(|state| {
            let mut own = leases.iter();
            let lease = own.find(|lease| Some(lease.track) == state.id).copied();
            state.set_lease(lease)
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
