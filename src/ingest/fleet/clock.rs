//! The database's clock on this machine's monotonic one. No wall clock counts.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The looks that are kept.
const KEPT: usize = 8;

/// What looks at the database's clock have shown.
#[derive(Debug, Default)]
pub(super) struct Clock(VecDeque<Look>);

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
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(Look {
            before,
            took: after.saturating_duration_since(before),
            shown,
        });
    }

    /// The moment at which the clock shows a time; now for a time in the past. The
    /// quickest of the last looks tells it best.
    pub(super) fn moment(&self, time: i64) -> Instant {
        let now = Instant::now();
        let Some(best) = self.0.iter().min_by_key(|look| look.took) else {
            return now;
        };
        let shown_at = best.before + best.took / 2;
        match u64::try_from(time - best.shown) {
            Ok(ahead) => shown_at + Duration::from_micros(ahead),
            Err(_) => now,
        }
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
        assert_eq!(clock.moment(5_001_000), at(5001));
        for number in 0..20 {
            clock.look(at(3000 + number), at(3100 + number), 0);
        }
        assert_eq!(clock.0.len(), KEPT);
    }
}
