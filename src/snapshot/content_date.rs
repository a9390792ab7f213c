//! The date of a content for clients that compare dates.
//!
//! It is that of the revision. A clock that was wrong may have dated the revision far in the
//! future; then it is the moment of the first question after the clock was corrected, so
//! that clients see a date that stays and that is not later than their own clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Only a wrong clock makes a date so far ahead, in seconds. Less is left to pass: of several
/// contents of one second, each has a date a second later.
const AHEAD: u64 = 60 * 60;

/// When a content changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modified {
    /// The date for clients.
    pub shown: SystemTime,
    /// The date of the revision, which clients got while the clock was wrong. That of other
    /// content is later.
    pub recorded: SystemTime,
}

impl From<SystemTime> for Modified {
    fn from(date: SystemTime) -> Self {
        Self {
            shown: date,
            recorded: date,
        }
    }
}

/// The date, in seconds since 1970.
#[derive(Debug)]
pub(super) struct ContentDate {
    stored: u64,
    shown: AtomicU64,
}

impl ContentDate {
    /// The date of a revision.
    pub(super) fn new(modified: SystemTime) -> Self {
        let stored = seconds(modified);
        Self {
            stored,
            shown: AtomicU64::new(stored),
        }
    }

    /// The date at a moment.
    pub(super) fn at(&self, now: SystemTime) -> Modified {
        Modified {
            shown: time(self.seconds_at(now)),
            recorded: time(self.stored),
        }
    }

    /// Replaces the date of an earlier content. That of other content is later.
    pub(super) fn follow(&self, before: &Self, now: SystemTime) {
        let earlier = before.seconds_at(now);
        let own = self.seconds_at(now);
        if self.stored == before.stored {
            self.shown.store(earlier, Ordering::Relaxed);
        } else if earlier != before.stored || own != self.stored {
            let later = own.max(earlier.saturating_add(1));
            self.shown.store(later, Ordering::Relaxed);
        }
    }

    fn seconds_at(&self, now: SystemTime) -> u64 {
        let (shown, now) = (self.shown.load(Ordering::Relaxed), seconds(now));
        if shown <= now.saturating_add(AHEAD) {
            return shown;
        }
        let order = Ordering::Relaxed;
        // Another thread may have been first.
        let changed = self.shown.compare_exchange(shown, now, order, order);
        changed.map_or_else(|other| other, |_| now)
    }
}

fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

fn time(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    #[test]
    fn a_date_far_ahead_becomes_the_moment_of_the_first_question_and_stays() {
        let recorded = time(NOW + 10 * AHEAD);
        let date = ContentDate::new(recorded);
        // While the clock is wrong, nothing shows it.
        assert_eq!(date.at(recorded), recorded.into());
        for passed in [0, 1, 100] {
            let shown = time(NOW);
            assert_eq!(date.at(time(NOW + passed)), Modified { shown, recorded });
        }
        // Others stay as they are, also a little ahead.
        for stored in [0, NOW - 1, NOW, NOW + AHEAD] {
            let date = ContentDate::new(time(stored));
            assert_eq!(date.at(time(NOW)), time(stored).into());
        }
    }

    #[test]
    fn other_content_has_a_later_date_whatever_the_clock_was() {
        let ahead = NOW + 10 * AHEAD;
        let after = |before: u64, next: u64| {
            let before = ContentDate::new(time(before));
            before.at(time(NOW));
            let next = ContentDate::new(time(next));
            next.follow(&before, time(NOW));
            seconds(next.at(time(NOW)).shown)
        };
        // In the second in which the date before was replaced.
        assert_eq!(after(ahead, ahead + 1), NOW + 1);
        assert_eq!(after(ahead, ahead), NOW);
        assert_eq!(after(NOW - 5, NOW), NOW);
        assert_eq!(after(NOW - 5, ahead), NOW);
        assert_eq!(after(NOW, ahead), NOW + 1);
    }
}
