//! The database's clock on this machine's monotonic one. No wall clock counts.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The looks that are kept.
const KEPT: usize = 8;

/// What looks at the database's clock have shown.
#[derive(Debug, Default)]
pub(super) struct Clock {
    looks: VecDeque<Look>,
    /// Whether another server may answer next, whose clock differs.
    is_doubtful: bool,
}

/// One look: between two moments, the clock showed a time.
#[derive(Clone, Copy, Debug)]
struct Look {
    before: Instant,
    took: Duration,
    /// In microseconds since 1970.
    shown: i64,
}

impl Clock {
    /// Notes what the clock showed between `before` and `after`.
    pub(super) fn look(&mut self, before: Instant, after: Instant, shown: i64) {
        if std::mem::take(&mut self.is_doubtful) {
            self.looks.clear();
        }
        if self.looks.len() == KEPT {
            self.looks.pop_front();
        }
        self.looks.push_back(Look {
            before,
            took: after.saturating_duration_since(before),
            shown,
        });
    }

    /// The next look replaces all earlier ones: the database has failed, and another server may
    /// take its place.
    pub(super) fn doubt(&mut self) {
        self.is_doubtful = true;
    }

    /// The moment at which the clock shows a time, or did so; `None` before the first
    /// look.
    pub(super) fn moment(&self, time: i64) -> Option<Instant> {
        let (at, shown) = self.best()?;
        let distance = Duration::from_micros(time.abs_diff(shown));
        if time < shown {
            at.checked_sub(distance)
        } else {
            at.checked_add(distance)
        }
    }

    /// The time that the clock shows at a moment.
    pub(super) fn time(&self, moment: Instant) -> Option<i64> {
        let (at, shown) = self.best()?;
        let micros = |distance: Duration| i64::try_from(distance.as_micros()).ok();
        match moment.checked_duration_since(at) {
            Some(later) => shown.checked_add(micros(later)?),
            None => shown.checked_sub(micros(at - moment)?),
        }
    }

    /// A moment and what the clock showed at it. The quickest look tells it best.
    fn best(&self) -> Option<(Instant, i64)> {
        let best = self.looks.iter().min_by_key(|look| look.took)?;
        Some((best.before + best.took / 2, best.shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_look_tells_the_moment() {
        let mut clock = Clock::default();
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        // A slow look, whose middle is not when the clock was read.
        clock.look(at(0), at(1000), 900_000);
        clock.look(at(2000), at(2002), 2_001_000);
        assert_eq!(clock.moment(5_001_000), Some(at(5001)));
        assert_eq!(clock.time(at(5001)), Some(5_001_000));
        for number in 0..20 {
            clock.look(at(3000 + number), at(3100 + number), 0);
        }
        assert_eq!(clock.looks.len(), KEPT);
    }

    #[test]
    fn the_clock_of_another_server_counts_from_its_first_look() {
        let mut clock = Clock::default();
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        clock.look(at(0), at(0), 0);
        clock.doubt();
        // Better than none.
        assert_eq!(clock.moment(1_000_000), Some(at(1000)));
        clock.look(at(5000), at(5010), 1_005_000);
        assert_eq!(clock.moment(1_000_000), Some(at(5000)));
    }

    #[test]
    fn a_time_in_the_past_has_its_moment() {
        let mut clock = Clock::default();
        assert_eq!(clock.moment(0), None);
        let before = Instant::now();
        let now = before + Duration::from_secs(7);
        clock.look(now, now, 60_000_000);
        assert_eq!(clock.moment(53_000_000), Some(before));
        assert_eq!(clock.time(before), Some(53_000_000));
    }
}
