//! The pauses between tries to fetch a generation. They grow: a disk that is full gets the
//! same bytes ever more rarely.

use std::time::{Duration, Instant};

use crate::fleet::error::FleetError;
use crate::fleet::numbers::GenerationNumber;

/// The first pause. Each further one is twice as long.
const FIRST: Duration = Duration::from_secs(5);
/// The longest pause.
const LONGEST: Duration = Duration::from_mins(5);
/// The longest one while something does not answer or an object is lost: a try costs little,
/// and nobody should wait for long once it is there again.
const LONGEST_SILENT: Duration = Duration::from_secs(30);

/// The pauses for one generation after another.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    failed: Option<Failed>,
}

/// A generation that could not be fetched.
#[derive(Debug)]
struct Failed {
    id: GenerationNumber,
    pause: Duration,
    until: Instant,
}

impl Pauses {
    /// Records that a generation could not be fetched.
    pub(super) fn fail(&mut self, id: GenerationNumber, error: &FleetError, now: Instant) {
        let longest = if error.is_temporary() || error.is_lost() {
            LONGEST_SILENT
        } else {
            LONGEST
        };
        let before = self.failed.as_ref().filter(|failed| failed.id == id);
        let pause = before.map_or(FIRST, |failed| (failed.pause * 2).min(longest));
        self.failed = Some(Failed {
            id,
            pause,
            until: now + pause,
        });
    }

    /// Records that there is nothing more to try.
    pub(super) fn end(&mut self) {
        self.failed = None;
    }

    /// The time until the next try of a generation, if it has to be waited for.
    pub(super) fn left(&self, id: GenerationNumber, now: Instant) -> Option<Duration> {
        let failed = self.failed.as_ref().filter(|failed| failed.id == id)?;
        let left = failed.until.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Backend;

    #[test]
    fn a_generation_that_cannot_be_kept_is_fetched_ever_more_rarely_and_another_one_at_once() {
        let mut pauses = Pauses::default();
        let [first, next] = [1, 2].map(GenerationNumber);
        let mut now = Instant::now();
        let mut waited = Vec::new();
        assert_eq!(pauses.left(first, now), None);
        for _ in 0..8 {
            pauses.fail(first, &FleetError::Row("files"), now);
            let left = pauses.left(first, now).unwrap();
            waited.push(left.as_secs());
            now += left;
            assert_eq!(pauses.left(first, now), None);
        }
        assert_eq!(waited, [5, 10, 20, 40, 80, 160, 300, 300]);
        pauses.fail(first, &FleetError::Row("files"), now);
        assert_eq!(pauses.left(next, now), None);
        pauses.fail(next, &FleetError::Row("files"), now);
        assert_eq!(pauses.left(next, now), Some(FIRST));
        pauses.end();
        assert_eq!(pauses.left(next, now), None);
    }

    #[test]
    fn a_silent_bucket_is_asked_again_within_half_a_minute() {
        let mut pauses = Pauses::default();
        let id = GenerationNumber(1);
        let silent = FleetError::NoAnswer {
            of: Backend::Bucket,
            after: FIRST,
        };
        let now = Instant::now();
        for _ in 0..10 {
            pauses.fail(id, &silent, now);
        }
        assert_eq!(pauses.left(id, now), Some(LONGEST_SILENT));
    }
}
