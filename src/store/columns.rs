//! Conversions between values and columns.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last second of the year 9999, since 1970. HTTP dates and RFC 3339 have
/// no later ones.
pub const LAST_SECOND: u64 = 253_402_300_799;

/// A count as SQLite stores it. No count here comes near the limit.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A date as seconds since 1970.
pub fn unix_of_time(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// A date of seconds since 1970, [`LAST_SECOND`] at the latest.
pub fn time_of_unix(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds.min(LAST_SECOND))
}

pub(super) fn seconds(time: SystemTime) -> i64 {
    signed(unix_of_time(time))
}

pub(super) fn time(seconds: i64) -> SystemTime {
    time_of_unix(u64::try_from(seconds).unwrap_or(0))
}
