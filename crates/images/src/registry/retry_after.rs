//! The `Retry-After` header.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::RETRY_AFTER;

/// The longest wait that a registry can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);

/// `Retry-After` in seconds or as a date, at most an hour.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // A number with too many digits is above the cap as well.
        text.parse().map_or(MAX_RETRY_AFTER, Duration::from_secs)
    } else {
        let date = httpdate::parse_http_date(text).ok()?;
        // A date in the past means no wait.
        date.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn retry_after_is_seconds_or_a_date_and_capped() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (text, seconds) in [
            ("7", Some(7)),
            (" 7 ", Some(7)),
            ("0", Some(0)),
            ("86400", Some(3600)),
            ("99999999999999999999999999", Some(3600)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("Sat, 06 Nov 2094 08:00:00 GMT", Some(3600)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            let headers = [(RETRY_AFTER, HeaderValue::from_str(text).unwrap())];
            let wait = retry_after(&headers.into_iter().collect(), now);
            assert_eq!(wait.map(|wait| wait.as_secs()), seconds, "{text}");
        }
    }
}
