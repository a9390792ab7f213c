//! The date of a content for clients that compare dates.
//!
//! It is that of the revision. A clock that was ahead may have dated the revision far in the
//! future; then it is the moment of the first question after the clock was corrected, so
//! that clients see a date that stays and that is not later than their own clock. The same
//! happens while a clock is behind; once it is right, the date of the revision is shown again.

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
        let latest = now.saturating_add(AHEAD);
        let mut date = if shown <= latest { shown } else { now };
        if self.stored <= latest {
            // An earlier date is of a clock that was behind. Older content may have had a
            // later one.
            date = date.max(self.stored);
        }
        if date == shown {
            return date;
        }
        let order = Ordering::Relaxed;
        // Another thread may have been first.
        let changed = self.shown.compare_exchange(shown, date, order, order);
        changed.map_or_else(|other| other, |_| date)
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
    fn the_date_of_the_revision_is_shown_again_once_a_clock_is_no_longer_behind() {
        let stored = NOW - 10;
        let date = ContentDate::new(time(stored));
        let shown = |now| seconds(date.at(time(now)).shown);
        // A node without a clock of its own begins in 1970.
        assert_eq!([shown(5), shown(6)], [5, 5]);
        assert_eq!([shown(NOW), shown(NOW + 1)], [stored, stored]);
        // Set back once, and corrected.
        assert_eq!(shown(NOW - 10 * AHEAD), NOW - 10 * AHEAD);
        assert_eq!(shown(NOW), stored);
    }

    #[test]
    fn content_that_comes_while_a_clock_is_behind_has_a_later_date_before_and_after() {
        let before = ContentDate::new(time(NOW - 10));
        let date = |of: &ContentDate, now| seconds(of.at(time(now)).shown);
        assert_eq!(date(&before, 5), 5);
        // The store gives other content a later date, whatever the clock is.
        let next = ContentDate::new(time(NOW - 9));
        next.follow(&before, time(6));
        assert!(date(&next, 6) > date(&before, 6));
        assert_eq!(date(&next, NOW), NOW - 9);
        // The same content in another revision.
        let same = ContentDate::new(time(NOW - 9));
        same.follow(&next, time(NOW + 1));
        assert_eq!(date(&same, NOW + 1), NOW - 9);
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
