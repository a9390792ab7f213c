//! Silence of the database. After it, all rows of replicas have expired, also of those that
//! live: the first one to beat again does not take itself for the only one.

use std::time::{Duration, Instant};

/// Beats are not further apart while the database answers.
const GAP: Duration = Duration::from_secs(3);
/// So long after a silence, every replica that lives has beaten again: more than the pause
/// after a failed beat and the longest time of one.
pub(super) const RETURN: Duration = Duration::from_secs(6);

/// What beats have shown of the database's silence.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// The last beat, and what the database's clock showed.
    last: Option<(Instant, i64)>,
    /// When the last silence ended, and what the database's clock showed before it.
    ended: Option<(Instant, i64)>,
}

impl Silence {
    /// Notes a beat, and what the database's clock showed, in microseconds.
    pub(super) fn beat(&mut self, now: Instant, shown: i64) {
        if self.is_silent(now, shown) {
            let before = self.last.map_or(0, |(_, before)| before);
            let earlier = self.lived_at(now).unwrap_or(before);
            self.ended = Some((now, earlier.min(before)));
        }
        self.last = Some((now, shown));
    }

    /// The time of the database's clock at which replicas lived that may not have beaten
    /// since, for as long as that may be.
    pub(super) fn lived_at(&self, now: Instant) -> Option<i64> {
        let Some((heard, shown)) = self.last else {
            // Of a silence before the start, nothing is known.
            return Some(0);
        };
        let ended = self.ended.filter(|(end, _)| now - *end < RETURN);
        let before = ended.map(|(_, before)| before);
        let current = (now - heard > GAP).then_some(shown);
        before.into_iter().chain(current).min()
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
        assert_eq!(silence.lived_at(at(0)), Some(0));
        silence.beat(at(1), 101 * SECOND);
        assert_eq!(silence.lived_at(at(2)), Some(0));
        silence.beat(at(3), 103 * SECOND);
        silence.beat(at(6), 106 * SECOND);
        assert_eq!(silence.lived_at(at(7)), None);
        // Before the next beat ends it.
        assert_eq!(silence.lived_at(at(20)), Some(106 * SECOND));
        silence.beat(at(30), 130 * SECOND);
        assert_eq!(silence.lived_at(at(35)), Some(106 * SECOND));
        // Another one, before all could return.
        silence.beat(at(35), 135 * SECOND);
        silence.beat(at(38), 138 * SECOND);
        assert_eq!(silence.lived_at(at(40)), Some(106 * SECOND));
        assert_eq!(silence.lived_at(at(41)), None);
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
            assert_eq!(silence.lived_at(at(9)), Some(106 * SECOND));
        }
    }
}
