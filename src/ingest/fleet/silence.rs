//! Silence of the database. After it, all rows of replicas have expired, also of those that
//! live: the first one to beat again does not take itself for the only one.

use std::time::{Duration, Instant};

use crate::store::fleet::{GAP, Silences};

/// So long after a silence, every replica that lives has beaten again: more than the pause
/// after a failed beat and the longest time of one.
const RETURN: Duration = Duration::from_secs(6);
/// Silences that follow on each other count as one for so long. A replica that has not beaten
/// between them is gone.
const CHAIN: Duration = Duration::from_mins(1);

/// What beats have shown of the database's silence.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// The last beat, and what the database's clock showed.
    last: Option<(Instant, i64)>,
    ended: Option<Ended>,
}

/// The last silence, with those shortly before it.
#[derive(Clone, Copy, Debug)]
struct Ended {
    /// When the first of them ended.
    first: Instant,
    /// When the first ended of all that followed on each other, however long ago.
    begun: Instant,
    /// When the last one did.
    last: Instant,
    /// What the database's clock showed before the first.
    before: i64,
}

impl Silence {
    /// Notes a beat, and what the database's clock showed, in microseconds.
    pub(super) fn beat(&mut self, now: Instant, shown: i64) {
        if self.is_silent(now, shown) {
            let before = self.last.map_or(0, |(_, before)| before);
            let previous = self.ended.filter(|ended| now - ended.last < RETURN);
            let earlier = previous.filter(|ended| now - ended.first < CHAIN);
            self.ended = Some(Ended {
                first: earlier.map_or(now, |ended| ended.first),
                begun: previous.map_or(now, |ended| ended.begun),
                last: now,
                before: earlier.map_or(before, |ended| ended.before.min(before)),
            });
        }
        self.last = Some((now, shown));
    }

    /// Whether replicas that live may not have beaten since the last silence. While the database
    /// stays slow, each beat ends a silence: whoever lives has beaten meanwhile.
    pub(super) fn has_just_ended(&self, now: Instant) -> bool {
        self.ended
            .is_some_and(|ended| now - ended.last < RETURN && now - ended.begun < CHAIN)
    }

    /// The silences after which replicas that live may not have beaten.
    pub(super) fn silences(&self, now: Instant) -> Silences {
        let Some((_, shown)) = self.last else {
            // Of a silence before the start, nothing is known.
            return Silences {
                lived_at: Some(0),
                beaten_at: None,
            };
        };
        let ended = self.ended.filter(|ended| now - ended.last < RETURN);
        Silences {
            lived_at: ended.map(|ended| ended.before),
            // The next statement may run much later.
            beaten_at: Some(shown),
        }
    }

    /// Whether a beat at this moment ends a silence. The clock goes on while the replica
    /// itself is paused.
    fn is_silent(&self, now: Instant, shown: i64) -> bool {
        self.last.is_none_or(|(heard, before)| {
            let gap = i64::try_from(GAP.as_micros()).unwrap_or(i64::MAX);
            now - heard > GAP || !(0..=gap).contains(&shown.saturating_sub(before))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In microseconds.
    const SECOND: i64 = 1_000_000;

    #[test]
    fn replicas_that_lived_before_a_silence_count_for_a_while_after_it() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut silence = Silence::default();
        let lived_at = |silence: &Silence, seconds| silence.silences(at(seconds)).lived_at;
        assert_eq!(lived_at(&silence, 0), Some(0));
        silence.beat(at(1), 101 * SECOND);
        assert_eq!(lived_at(&silence, 2), Some(0));
        silence.beat(at(3), 103 * SECOND);
        silence.beat(at(6), 106 * SECOND);
        assert_eq!(lived_at(&silence, 7), None);
        // Before the next beat ends it, the database compares.
        assert_eq!(silence.silences(at(20)).beaten_at, Some(106 * SECOND));
        silence.beat(at(30), 130 * SECOND);
        assert_eq!(lived_at(&silence, 35), Some(106 * SECOND));
        // Another one, before all could return.
        silence.beat(at(35), 135 * SECOND);
        silence.beat(at(38), 138 * SECOND);
        assert_eq!(lived_at(&silence, 40), Some(106 * SECOND));
        assert_eq!(lived_at(&silence, 41), None);
    }

    #[test]
    fn a_database_that_is_slow_for_long_keeps_no_dead_replica_alive() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut silence = Silence::default();
        for second in (0..=120).step_by(5) {
            let shown = i64::try_from(second).unwrap() * SECOND;
            silence.beat(at(second), 1000 * SECOND + shown);
        }
        let lived_at = silence.silences(at(120)).lived_at.unwrap();
        assert!(lived_at >= 1050 * SECOND, "{lived_at}");
        // Nor does a replica without others wait for them for ever.
        assert!(!silence.has_just_ended(at(121)));
        silence.beat(at(123), 1123 * SECOND);
        silence.beat(at(126), 1126 * SECOND);
        silence.beat(at(140), 1140 * SECOND);
        assert!(silence.has_just_ended(at(141)), "this one is another");
    }

    #[test]
    fn a_pause_of_the_replica_or_another_clock_is_a_silence() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        for next in [50 * SECOND, 200 * SECOND] {
            let mut silence = Silence::default();
            silence.beat(at(0), 100 * SECOND);
            silence.beat(at(3), 103 * SECOND);
            silence.beat(at(6), 106 * SECOND);
            silence.beat(at(8), next);
            assert_eq!(silence.silences(at(9)).lived_at, Some(106 * SECOND));
        }
    }
}
