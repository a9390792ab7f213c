//! How often a registry is asked again for the same thing, and when.
//!
//! What is worth another attempt at all stands in one table,
//! [`Error::is_temporary`]; how long a registry asks to be left alone in
//! [`Error::retry_after`]. Here the two become waits. A registry that asks for
//! more time than a pass should spend waiting is left alone: the error goes to
//! the caller, who comes back with a later pass.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::error::Error;

/// The wait before the second attempt; each further one is four times as long.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// The longest wait that a pass spends on one attempt, whoever asks for it.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The attempts at one thing.
#[derive(Clone, Debug)]
pub(crate) struct Retries {
    attempts: u32,
    failed: u32,
}

impl Retries {
    /// At most so many attempts, the first included.
    pub(crate) fn new(attempts: NonZeroU32) -> Self {
        Self {
            attempts: attempts.get(),
            failed: 0,
        }
    }

    /// Something came: what failed before counts no more.
    pub(crate) fn progress(&mut self) {
        self.failed = 0;
    }

    /// How long to wait before the next attempt, after one has failed; `None`
    /// when there is to be none.
    pub(crate) fn after(&mut self, error: &Error) -> Option<Duration> {
        self.failed += 1;
        if self.failed >= self.attempts || !error.is_temporary() {
            return None;
        }
        let wait = match error.retry_after() {
            Some(asked) => asked,
            None => jitter(FIRST_WAIT.saturating_mul(1 << (2 * (self.failed - 1)).min(20))),
        };
        let asked_too_much = error.retry_after().is_some() && wait > LONGEST_WAIT;
        (!asked_too_much).then(|| wait.min(LONGEST_WAIT))
    }
}

/// Up to a quarter more or less, so that many do not come back at once.
fn jitter(wait: Duration) -> Duration {
    wait.mul_f64(0.75 + 0.5 * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;
    use crate::error::Message;

    fn status(status: u16, retry_after: Option<u64>) -> Error {
        Error::Status {
            reference: "quay.io/a/b:v1".parse().unwrap(),
            url: String::new(),
            status: StatusCode::from_u16(status).unwrap(),
            message: Message::default(),
            retry_after: retry_after.map(Duration::from_secs),
            with_credentials: false,
        }
    }

    fn retries() -> Retries {
        Retries::new(NonZeroU32::new(3).unwrap())
    }

    #[test]
    fn waits_grow_and_attempts_end() {
        let mut retries = retries();
        let error = status(500, None);
        let first = retries.after(&error).unwrap();
        let second = retries.after(&error).unwrap();
        assert!(first >= FIRST_WAIT.mul_f64(0.75) && first <= FIRST_WAIT.mul_f64(1.25));
        assert!(second > first);
        assert_eq!(retries.after(&error), None);
    }

    #[test]
    fn what_came_makes_failures_forgotten() {
        let mut retries = retries();
        for _ in 0..10 {
            assert!(retries.after(&status(500, None)).is_some());
            retries.progress();
        }
    }

    #[test]
    fn what_will_not_change_is_not_asked_again() {
        for permanent in [401, 403, 404, 418, 501] {
            assert_eq!(retries().after(&status(permanent, None)), None);
        }
    }

    #[test]
    fn a_registry_gets_the_time_it_asks_for_or_is_left_alone() {
        let wait = |seconds| retries().after(&status(429, Some(seconds)));
        assert_eq!(wait(0), Some(Duration::ZERO));
        assert_eq!(wait(7), Some(Duration::from_secs(7)));
        assert_eq!(wait(11), None);
    }

    #[test]
    fn no_number_of_attempts_makes_a_wait_absurd() {
        let mut retries = Retries::new(NonZeroU32::MAX);
        for _ in 0..100 {
            assert!(retries.after(&status(503, None)).unwrap() <= LONGEST_WAIT);
        }
    }
}
