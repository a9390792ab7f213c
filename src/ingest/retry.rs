//! The time until the next attempt.

use std::time::Duration;

/// The wait after a first failure; it doubles with each further one.
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// The longest wait after failures, unless polls are further apart.
pub(super) const LAST_RETRY: Duration = Duration::from_mins(10);
/// The longest wait while nothing is served for damaged files.
const LAST_RETRY_SOON: Duration = Duration::from_secs(10);
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

/// The same while nothing is served for damaged files: it stays short, unless the registry
/// asked for more.
pub(super) fn retry_soon(
    failures: u32,
    poll: Option<Duration>,
    retry_after: Option<Duration>,
) -> Duration {
    let longest = LAST_RETRY_SOON.max(retry_after.unwrap_or_default());
    retry(failures, poll, retry_after).min(longest)
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

    #[test]
    fn while_nothing_is_served_for_damage_retries_stay_close() {
        let poll = Some(Duration::from_hours(1));
        for failures in [3, 8, u32::MAX] {
            assert_eq!(retry_soon(failures, poll, None), LAST_RETRY_SOON);
        }
        assert!(retry_soon(1, poll, None) < LAST_RETRY_SOON);
        let asked = Some(Duration::from_secs(100));
        assert_eq!(retry_soon(1, None, asked), Duration::from_secs(100));
        assert_eq!(retry_soon(u32::MAX, None, asked), Duration::from_secs(100));
    }
}
