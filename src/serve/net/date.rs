//! The `Date` of responses.
//!
//! hyper's own keeps the latest time that it has seen: after a clock was set back, it stays
//! in the future.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use http::header::{DATE, Entry};
use http::{HeaderMap, HeaderValue};

use crate::serve::fields::header;

/// Sets the date of a response that has none.
pub(super) fn set(headers: &mut HeaderMap) {
    if let Entry::Vacant(vacant) = headers.entry(DATE) {
        vacant.insert(of(SystemTime::now()));
    }
}

/// The header for a time.
fn of(now: SystemTime) -> HeaderValue {
    thread_local! {
        /// The last one that was formatted, and its second.
        static LAST: RefCell<Option<(u64, HeaderValue)>> = const { RefCell::new(None) };
    }
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let second = since.as_secs();
    LAST.with_borrow_mut(|last| match last {
        Some((formatted, value)) if *formatted == second => value.clone(),
        _ => {
            let value = header(httpdate::fmt_http_date(UNIX_EPOCH + since));
            *last = Some((second, value.clone()));
            value
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_date_follows_a_clock_that_is_set_back() {
        let at = |seconds| of(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(2_085_978_496), "Thu, 07 Feb 2036 06:28:16 GMT");
        assert_eq!(at(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(at(784_111_778), "Sun, 06 Nov 1994 08:49:38 GMT");
        assert_eq!(of(UNIX_EPOCH - Duration::from_secs(9)), at(0));
    }

    #[test]
    fn a_response_with_a_date_keeps_it() {
        let mut headers = HeaderMap::new();
        set(&mut headers);
        assert!(headers.contains_key(DATE));
        headers.insert(DATE, HeaderValue::from_static("own"));
        set(&mut headers);
        assert_eq!(headers[DATE], "own");
    }
}
