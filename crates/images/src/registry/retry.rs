//! When a failed request is repeated.
//!
//! [`Error::is_temporary`] decides whether, and [`Error::retry_after`] how long
//! to wait before. If a registry asks for a longer pause than
//! [`LONGEST_WAIT`], the caller gets the error instead.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::error::Error;

/// The wait before the second attempt; each further one is four times as long.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// The longest wait before an attempt.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The attempts at one request.
#[derive(Clone, Debug)]
pub(super) struct Retries {
    attempts: u32,
    failed: u32,
}

impl Retries {
    /// This many attempts, including the first.
    pub(super) fn new(attempts: NonZeroU32) -> Self {
        Self {
            attempts: attempts.get(),
            failed: 0,
        }
    }

    /// Notes progress, which resets the number of failures.
    pub(super) fn progress(&mut self) {
        self.failed = 0;
    }

    /// The wait before the next attempt, after one has failed; none if there
    /// is no further attempt.
    pub(super) fn after(&mut self, error: &Error) -> Option<Duration> {
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

/// Up to a quarter more or less, so that clients do not retry at once.
fn jitter(wait: Duration) -> Duration {
    wait.mul_f64(0.75 + 0.5 * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;
    use crate::error::Login;
    use crate::registry::message::RegistryMessage;

    fn status(status: u16, retry_after: Option<u64>) -> Error {
        Error::Status {
            reference: "quay.io/a/b:v1".parse().unwrap(),
            url: String::new(),
            status: StatusCode::from_u16(status).unwrap(),
            message: RegistryMessage::default(),
            retry_after: retry_after.map(Duration::from_secs),
            login: Login::Unsent,
            expects_tls: false,
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
    fn progress_resets_the_failures() {
        let mut retries = retries();
        for _ in 0..10 {
            assert!(retries.after(&status(500, None)).is_some());
            retries.progress();
        }
    }

    #[test]
    fn permanent_errors_are_not_retried() {
        for permanent in [401, 403, 404, 418, 501] {
            assert_eq!(retries().after(&status(permanent, None)), None);
        }
    }

    #[test]
    fn a_registry_gets_the_pause_it_asks_for_or_no_retry() {
        let wait = |seconds| retries().after(&status(429, Some(seconds)));
        assert_eq!(wait(0), Some(Duration::ZERO));
        assert_eq!(wait(7), Some(Duration::from_secs(7)));
        assert_eq!(wait(11), None);
    }

    #[test]
    fn every_wait_is_bounded() {
        let mut retries = Retries::new(NonZeroU32::MAX);
        for _ in 0..100 {
            assert!(retries.after(&status(503, None)).unwrap() <= LONGEST_WAIT);
        }
    }
}
