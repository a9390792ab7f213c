//! Which catalogs this replica follows for the fleet.

use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::ingest::fleet::fleet_metrics;
use crate::ingest::fleet::membership::Membership;
use crate::ingest::fleet::track_state::{GivenUp, TrackState};
use crate::ingest::followed::has_origin_of;
use crate::ingest::source::Source;
use crate::store::fleet::{Beat, FleetError, Generation, Lease, ReplicaId, TrackId};

/// When nobody has followed a track for so long, shares do not count.
const STARVED: Duration = Duration::from_secs(12);
/// After so long, a replica takes what others should be better for.
const LONG_STARVED: Duration = Duration::from_secs(40);

/// Takes this replica's share of the tracks that nobody follows, gives back what it cannot
/// follow, and hands over what others should follow, one at a time. Where configurations
/// differ, shares may leave a track out: after some beats somebody takes it all the same.
pub(super) async fn share_out(
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
    // Others may have handed some over.
    let is_new = |lease: &&Lease| {
        find(membership, lease.track).is_some_and(|it| it.borrow().received != Some(**lease))
    };
    let handed: Vec<Lease> = beat.leases.iter().filter(is_new).copied().collect();
    begin_following(membership, &handed).await?;
    tell_successes(membership, &beat.leases).await?;
    let unfit = unfit_tracks(membership);
    give_up(membership, beat, &unfit).await?;
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
        beat.free.min(beat.share.saturating_sub(mine))
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
        begin_following(membership, &taken).await?;
        beat.leases.extend(taken);
    }
    if most == 0 && beat.least.is_some_and(|least| least + 1 < mine) {
        hand_over(membership, me, beat).await?;
    }
    Ok(())
}

/// Notes leases that this replica has got, and begins their tracks.
async fn begin_following(membership: &Membership, leases: &[Lease]) -> Result<(), FleetError> {
    if leases.is_empty() {
        return Ok(());
    }
    fleet_metrics::took(leases.len());
    tracing::info!(
        catalogs = names(membership, leases),
        "following catalogs for the fleet"
    );
    for lease in leases {
        if let Some(state) = find(membership, lease.track) {
            state.send_modify(|state| state.receive(*lease));
        }
    }
    begin_tracks(membership, leases).await.map(drop)
}

/// Hands a track over to a replica that has less to do, if no pass of it is running.
async fn hand_over(
    membership: &Membership,
    me: ReplicaId,
    beat: &mut Beat,
) -> Result<(), FleetError> {
    let is_idle = |track: &TrackId| {
        find(membership, *track).is_none_or(|state| {
            let state = state.borrow();
            !state.passing && state.pending.is_none()
        })
    };
    let tracks = beat.leases.iter().map(|lease| lease.track);
    let idle: Vec<TrackId> = tracks.filter(is_idle).collect();
    let fleet = membership.fleet();
    let taker = fleet.find_taker(me, &idle, beat.leases.len()).await?;
    let Some((lease, taker)) = taker else {
        return Ok(());
    };
    beat.leases.retain(|kept| *kept != lease);
    tracing::info!(
        catalogs = names(membership, &[lease]),
        "another replica shall follow: it has less to do"
    );
    // Nothing is begun here once the other has it.
    set_leases(membership, &beat.leases);
    fleet.hand_over(lease, taker).await
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

/// Lets outdated tracks of this replica begin again with what another configuration serves.
/// Whether one did.
pub(super) async fn begin_again(
    membership: &Membership,
    leases: &[Lease],
    generations: &[Generation],
) -> Result<bool, FleetError> {
    let is_outdated = |lease: &&Lease| {
        let mut of_track = generations.iter().filter(|one| one.id.track == lease.track);
        of_track.next_back().is_some_and(Generation::is_outdated)
    };
    let outdated: Vec<Lease> = leases.iter().filter(is_outdated).copied().collect();
    begin_tracks(membership, &outdated).await
}

/// Lets tracks that have nothing yet, or are outdated, begin with what another configuration of
/// the same catalog serves, if it is of the same place: clients of a new replica get that until
/// its first pass. Content of a track itself gives way to later content of the same source only.
/// Whether one did.
async fn begin_tracks(membership: &Membership, taken: &[Lease]) -> Result<bool, FleetError> {
    let mut any = false;
    if taken.is_empty() {
        return Ok(any);
    }
    for ((catalog, _), state) in membership.tracks() {
        let (id, followed) = {
            let state = state.borrow();
            (state.id, state.source.clone().zip(state.identity.clone()))
        };
        let lease = taken.iter().find(|lease| Some(lease.track) == id);
        let (Some(lease), Some((source, own))) = (lease, followed) else {
            continue;
        };
        let fleet = membership.fleet();
        let others = fleet.served_elsewhere(&catalog, lease.track).await?;
        let mut others = others.into_iter();
        let other = others.find(|(identity, _)| has_origin_of(&source, identity));
        // The sources of curated catalogs may differ.
        let is_curated = matches!(source, Source::Curated(_));
        if let Some((identity, other)) = other
            && fleet
                .begin_with(*lease, other, identity == own && !is_curated)
                .await?
        {
            tracing::info!(%catalog, of = %identity, "begins with what the fleet serves");
            any = true;
        }
    }
    Ok(any)
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

/// Notes the leases of this replica, which are all that it has.
pub(super) fn set_leases(membership: &Membership, leases: &[Lease]) {
    fleet_metrics::leases(leases.len());
    for (_, state) in membership.tracks() {
        state.send_if_modified(|state| {
            let mut own = leases.iter();
            let lease = own.find(|lease| Some(lease.track) == state.id).copied();
            state.set_lease(lease)
        });
    }
}
