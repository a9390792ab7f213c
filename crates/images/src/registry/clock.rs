//! The clock of this machine, beside those of registries: a revision gets its date from it.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::HeaderMap;
use http::header::{AGE, DATE};
use parking_lot::Mutex;

/// How much clocks may differ. Caches and long ways make small differences.
const TOLERATED: Duration = Duration::from_mins(5);
/// The time between two warnings.
const PAUSE: Duration = Duration::from_hours(1);

/// Warns of differences. Clones share the time of the last warning.
#[derive(Clone, Default)]
pub(super) struct Clock(Arc<Mutex<Option<Instant>>>);

/// The difference between two clocks.
#[derive(Debug, PartialEq, Eq)]
enum Skew {
    /// This machine's clock is ahead.
    Ahead(Duration),
    /// It is behind.
    Behind(Duration),
}

impl Clock {
    /// Compares the clock with the date of a response of `host` to a request of this time,
    /// and warns of a large difference.
    pub(super) fn compare(&self, host: &str, headers: &HeaderMap, asked: SystemTime) {
        let Some(skew) = skew(headers, asked, SystemTime::now()) else {
            return;
        };
        {
            let last = &mut *self.0.lock();
            if last.is_some_and(|last| last.elapsed() < PAUSE) {
                return;
            }
            *last = Some(Instant::now());
        }
        let shown = |by: Duration| humantime::format_duration(Duration::from_secs(by.as_secs()));
        match skew {
            Skew::Ahead(by) => tracing::warn!(
                registry = host,
                by = %shown(by),
                "the clock of this machine is ahead of the registry's: new revisions get a date \
                 in the future if this one is wrong"
            ),
            Skew::Behind(by) => tracing::warn!(
                registry = host,
                by = %shown(by),
                "the clock of this machine is behind the registry's: new revisions get a date in \
                 the past if this one is wrong"
            ),
        }
    }
}

/// The difference, if it is more than tolerated. The registry dated the response between
/// `asked` and `now`, or a cache did so its age ago.
fn skew(headers: &HeaderMap, asked: SystemTime, now: SystemTime) -> Option<Skew> {
    let date = headers.get(DATE)?.to_str().ok()?;
    let date = httpdate::parse_http_date(date).ok()?;
    let age = headers.get(AGE).and_then(|age| age.to_str().ok());
    let age: u64 = age.and_then(|age| age.trim().parse().ok()).unwrap_or(0);
    let theirs = date.checked_add(Duration::from_secs(age))?;
    if let Ok(ahead) = asked.duration_since(theirs)
        && ahead > TOLERATED
    {
        return Some(Skew::Ahead(ahead));
    }
    let behind = theirs.duration_since(now).unwrap_or_default();
    (behind > TOLERATED).then_some(Skew::Behind(behind))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use http::HeaderValue;

    use super::*;

    /// `Sun, 06 Nov 1994 08:49:37 GMT`.
    const THEN: u64 = 784_111_777;

    #[test]
    fn clocks_that_differ_by_more_than_minutes_are_found() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let theirs = "Sun, 06 Nov 1994 08:49:37 GMT";
        let found = |date: &'static str, age: &'static str, asked: u64, took: u64| {
            let mut headers = HeaderMap::new();
            headers.insert(DATE, HeaderValue::from_static(date));
            if !age.is_empty() {
                headers.insert(AGE, HeaderValue::from_static(age));
            }
            skew(&headers, at(asked), at(asked + took))
        };
        assert_eq!(found(theirs, "", THEN, 1), None);
        assert_eq!(found(theirs, "", THEN + 300, 1), None);
        assert_eq!(
            found(theirs, "", THEN + 600, 1),
            Some(Skew::Ahead(minutes(10)))
        );
        assert_eq!(
            found(theirs, "", THEN - 660, 60),
            Some(Skew::Behind(minutes(10)))
        );
        // The response waited for its turn, or a cache had it.
        assert_eq!(found(theirs, "", THEN - 600, 600), None);
        assert_eq!(found(theirs, "3600", THEN + 3600, 1), None);
        for (date, age) in [
            ("yesterday", ""),
            (theirs, "18446744073709551615"),
            ("", ""),
        ] {
            assert_eq!(found(date, age, THEN, 1), None, "{date} {age}");
        }
        assert_eq!(skew(&HeaderMap::new(), at(0), at(0)), None);
    }
}
