//! Which replica should follow a catalog: each of them computes the same from the same list.
//! Where lists differ for a moment, the lock decides.

use serde::Deserialize;

/// A replica that lives.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Candidate {
    /// Its row.
    pub(super) id: i32,
    /// The tracks of its configuration.
    pub(super) tracks: Vec<i32>,
    /// Those that others should follow.
    pub(super) unfit: Vec<i32>,
}

/// The replica that should follow a track: of those that have it in their configuration, and
/// are not all unfit for it, the first by [`rank`].
pub(super) fn preferred(track: i32, candidates: &[Candidate]) -> Option<i32> {
    let wanting = candidates.iter().filter(|one| one.tracks.contains(&track));
    let key = |one: &&Candidate| {
        (
            one.unfit.contains(&track),
            rank(track.unsigned_abs().into(), one.id),
        )
    };
    wanting.min_by_key(key).map(|one| one.id)
}

/// The place of a replica for a subject: a new or lost replica changes the order of no others
/// (rendezvous hashing). The smallest is first.
pub(super) fn rank(subject: u64, replica: i32) -> u64 {
    mixed(mixed(subject) ^ u64::from(replica.unsigned_abs()))
}

/// The finalizer of `SplitMix64`: equal on all machines and in all versions.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACKS: std::ops::Range<i32> = 1..1000;

    fn replica(id: i32) -> Candidate {
        Candidate {
            id,
            tracks: TRACKS.collect(),
            unfit: Vec::new(),
        }
    }

    fn holders(candidates: &[Candidate]) -> Vec<Option<i32>> {
        TRACKS.map(|track| preferred(track, candidates)).collect()
    }

    #[test]
    fn every_replica_computes_the_same_whatever_the_order_of_its_list() {
        let one = [replica(1), replica(2), replica(7)];
        let other = [replica(7), replica(1), replica(2)];
        assert_eq!(holders(&one), holders(&other));
    }

    #[test]
    fn each_replica_gets_about_as_many_catalogs_as_the_others() {
        let found = holders(&[replica(1), replica(2), replica(3)]);
        for id in 1..=3 {
            let share = found.iter().filter(|one| **one == Some(id)).count();
            assert!((270..400).contains(&share), "{share}");
        }
    }

    #[test]
    fn a_new_or_lost_replica_moves_its_own_catalogs_only() {
        let before = holders(&[replica(1), replica(2)]);
        let after = holders(&[replica(1), replica(2), replica(3)]);
        for (before, after) in before.iter().zip(&after) {
            assert!(before == after || *after == Some(3));
        }
    }

    #[test]
    fn a_replica_follows_what_it_has_in_its_configuration() {
        let mut other = replica(2);
        other.tracks = vec![5];
        let found = holders(&[replica(1), other]);
        assert!(found.iter().take(4).all(|one| *one == Some(1)));
        assert_eq!(preferred(5, &[]), None);
    }

    #[test]
    fn an_unfit_replica_follows_what_nobody_is_fit_for() {
        let (mut first, mut second) = (replica(1), replica(2));
        first.unfit = vec![5];
        assert_eq!(preferred(5, &[first.clone(), second.clone()]), Some(2));
        second.unfit = vec![5];
        let marked = preferred(5, &[first, second]);
        assert_eq!(marked, preferred(5, &[replica(1), replica(2)]));
    }
}
