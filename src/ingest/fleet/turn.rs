//! When all replicas turn to a generation.

use std::time::Duration;

use crate::store::fleet::Prepared;

/// From the announcement of the moment to the moment: longer than two beats of those that
/// wait for it, so that every replica with a word to the database hears of it in time.
pub(super) const NOTICE: Duration = Duration::from_millis(1500);
/// After this time, a majority of the replicas is enough.
const ALL: Duration = Duration::from_secs(30);
/// After this time, half of them: of two, one may fetch nothing for a long time.
const MAJORITY: Duration = Duration::from_secs(90);

/// The time between two looks at receipts.
const LOOK: Duration = Duration::from_millis(200);
/// The same once somebody is slow to fetch.
const LATE_LOOK: Duration = Duration::from_secs(2);
/// After this time somebody is.
const LATE: Duration = Duration::from_secs(10);

/// The time until the next look at receipts.
pub(super) fn look_again(waited: Duration) -> Duration {
    if waited < LATE { LOOK } else { LATE_LOOK }
}

/// The time until the moment of a generation, if enough replicas have it after this time.
pub(super) fn notice(prepared: Prepared, waited: Duration) -> Option<Duration> {
    let Prepared {
        replicas, having, ..
    } = prepared;
    let is_enough = having >= replicas
        || (waited >= ALL && having * 2 > replicas)
        || (waited >= MAJORITY && having * 2 == replicas);
    // Alone, nobody has to hear of it.
    let notice = if prepared.has_others {
        NOTICE
    } else {
        Duration::ZERO
    };
    is_enough.then_some(notice)
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
            notice(prepared, Duration::from_secs(seconds)).is_some()
        };
        assert!(enough(1, 1, 0) && enough(3, 3, 0));
        assert!(!enough(2, 3, 29) && enough(2, 3, 30));
        assert!(!enough(1, 2, 89) && enough(1, 2, 90));
        assert!(!enough(1, 3, 1000) && !enough(2, 5, 1000));
    }

    #[test]
    fn receipts_are_counted_less_often_when_somebody_is_slow() {
        assert_eq!(look_again(Duration::from_secs(9)), LOOK);
        assert_eq!(look_again(Duration::from_secs(10)), LATE_LOOK);
    }
}
