//! The time until the next attempt.

use std::time::Duration;

/// The wait after a first failure; it doubles with each further one.
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// The longest wait after failures, unless polls are further apart.
pub(super) const LAST_RETRY: Duration = Duration::from_mins(10);
/// The longest wait that a registry may ask for.
const LONGEST: Duration = Duration::from_hours(24);

/// Up to a tenth more or less, so that catalogs do not poll at the same time.
pub(super) fn jitter(interval: Duration) -> Duration {
    interval.mul_f64(0.9 + 0.2 * fastrand::f64())
}

/// The wait after a number of failures in a row. It grows, is never shorter than
/// the registry asked for, and at most a day.
pub(super) fn retry(
    failures: u32,
    poll: Option<Duration>,
    retry_after: Option<Duration>,
) -> Duration {
    let longest = poll.map_or(LAST_RETRY, |poll| poll.max(LAST_RETRY));
    // Frequent polls mean frequent retries.
    let first = poll.map_or(FIRST_RETRY, |poll| poll.min(FIRST_RETRY));
    let doubled = first.saturating_mul(1 << failures.saturating_sub(1).min(20));
    let wait = jitter(doubled.min(longest));
    retry_after
        .map_or(wait, |asked| wait.max(asked))
        .min(LONGEST)
}

/// Sleeps for a time, or for ever.
pub(super) async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_come_further_and_further_apart() {
        let poll = Some(Duration::from_mins(10));
        let seconds = |failures| retry(failures, poll, None).as_secs_f64();
        assert!((4.4..5.6).contains(&seconds(1)));
        assert!((8.9..11.1).contains(&seconds(2)));
        assert!((17.9..22.1).contains(&seconds(3)));
        for failures in [8, 30, u32::MAX] {
            assert!((539.0..661.0).contains(&seconds(failures)));
        }
    }

    #[test]
    fn a_registry_that_asks_for_time_gets_it() {
        let asked = Some(Duration::from_secs(100));
        assert_eq!(retry(1, None, asked), Duration::from_secs(100));
        assert!(retry(20, None, asked) > Duration::from_secs(100));
    }
}
