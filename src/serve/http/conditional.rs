//! Preconditions (RFC 9110, section 13).

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use http::header::{
    CACHE_CONTROL, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::serve::fields::{any_tag, header, none_match, strong};
use crate::snapshot::Modified;
use ::images::digest::Digest;

/// The validators of a response: its entity tag, and its date if it has one.
///
/// A client may have a date that a wrong clock made, which is still to come. It is compared
/// with the one that the content had then.
pub(super) struct Validators {
    etag: String,
    modified: Option<Modified>,
    /// The time of the response.
    now: SystemTime,
}

/// The result of the preconditions of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Precondition {
    Send,
    NotModified,
    Failed,
}

impl Validators {
    /// The validators of the content `tag`, in the form of `suffix`.
    pub(super) fn new(tag: &Digest, modified: impl Into<Option<Modified>>, suffix: &str) -> Self {
        // Half of the digits exclude collisions and keep logs short.
        let digits = tag.first_digits();
        let mut etag = String::with_capacity(2 + digits.len() + suffix.len());
        etag.push('"');
        // Hexadecimal digits are UTF-8.
        etag.push_str(std::str::from_utf8(&digits).unwrap_or_default());
        etag.push_str(suffix);
        etag.push('"');
        Self {
            etag,
            modified: modified.into(),
            now: SystemTime::now(),
        }
    }

    /// The validators of a response with these bytes before compression.
    pub(super) fn of_bytes(bytes: &[u8], modified: Option<Modified>, gzip: bool) -> Self {
        let suffix = if gzip { "-gzip" } else { "" };
        Self::new(&Digest::of(bytes), modified, suffix)
    }

    /// The entity tag, in its quotes.
    pub(super) fn tag(&self) -> &str {
        &self.etag
    }

    /// The entity tag as a header.
    pub(super) fn into_etag(self) -> HeaderValue {
        header(self.etag)
    }

    pub(super) fn last_modified(&self) -> Option<HeaderValue> {
        let date = self.modified?.shown;
        thread_local! {
            /// The last date that was formatted: catalogs have few.
            static LAST: RefCell<Option<(SystemTime, HeaderValue)>> = const { RefCell::new(None) };
        }
        Some(LAST.with_borrow_mut(|last| match last {
            Some((modified, written)) if *modified == date => written.clone(),
            _ => {
                let written = header(httpdate::fmt_http_date(date));
                *last = Some((date, written.clone()));
                written
            }
        }))
    }

    /// Evaluates the preconditions in the RFC's order. A date that cannot be
    /// read counts as absent.
    pub(super) fn check(&self, headers: &HeaderMap) -> Precondition {
        if headers.contains_key(IF_MATCH) {
            if !any_tag(headers, &IF_MATCH, |tag| tag == "*" || tag == self.etag) {
                return Precondition::Failed;
            }
        } else if let Some(date) = date(headers, IF_UNMODIFIED_SINCE)
            && self
                .modified_by(date)
                .is_some_and(|modified| modified > date)
        {
            return Precondition::Failed;
        }
        if headers.contains_key(IF_NONE_MATCH) {
            if none_match(headers, &self.etag) {
                return Precondition::NotModified;
            }
        } else if let Some(date) = date(headers, IF_MODIFIED_SINCE)
            && self
                .modified_by(date)
                .is_some_and(|modified| modified <= date)
            && !wants_renewal(headers, date, self.now)
        {
            return Precondition::NotModified;
        }
        Precondition::Send
    }

    /// Whether a range may be sent: not if `If-Range` names another version
    /// (RFC 9110, section 13.1.5).
    pub(super) fn allow_range(&self, headers: &HeaderMap) -> bool {
        let Some(condition) = headers.get(IF_RANGE) else {
            return true;
        };
        let Ok(condition) = condition.to_str() else {
            return false;
        };
        if condition.starts_with('"') {
            condition == self.etag
        } else {
            httpdate::parse_http_date(condition)
                .is_ok_and(|date| self.modified_by(date) == Some(date))
        }
    }

    /// The date that a client with this one compares with. A date that is still to come was
    /// sent while the clock was wrong.
    fn modified_by(&self, date: SystemTime) -> Option<SystemTime> {
        let modified = self.modified?;
        Some(if date > self.now {
            modified.recorded
        } else {
            modified.shown
        })
    }
}

/// Whether a client needs the content again although it has not changed: its
/// `Cache-Control: max-age` says how long it keeps an answer, and half of that has
/// passed since the date of the condition. The console of OpenShift drops content
/// that long after the last answer 200, and an answer 304 does not renew it.
fn wants_renewal(headers: &HeaderMap, date: SystemTime, now: SystemTime) -> bool {
    let directives = headers.get_all(CACHE_CONTROL).iter();
    let directives = directives.filter_map(|value| value.to_str().ok());
    let mut ages = directives
        .flat_map(|value| value.split(','))
        .filter_map(|directive| directive.trim().strip_prefix("max-age="))
        .filter_map(|age| age.trim_matches('"').parse::<u64>().ok());
    // 0 asks for a validation, as a browser does that loads a page again.
    let Some(age) = ages.next().filter(|age| *age > 0) else {
        return false;
    };
    let elapsed = now.duration_since(date).unwrap_or_default();
    elapsed > Duration::from_secs(age / 2)
}

/// Whether a request has preconditions or a range. Most have neither, and looking
/// up each header takes as long as the rest of the response.
pub(super) fn has_conditions(headers: &HeaderMap) -> bool {
    static NAMES: [HeaderName; 6] = [
        IF_MATCH,
        IF_MODIFIED_SINCE,
        IF_NONE_MATCH,
        IF_RANGE,
        IF_UNMODIFIED_SINCE,
        RANGE,
    ];
    headers.keys().any(|name| NAMES.contains(name))
}

/// Whether a header with a list of entity tags has this one, weak or strong.
pub(super) fn lists(headers: &HeaderMap, name: &HeaderName, tag: &str) -> bool {
    any_tag(headers, name, |listed| strong(listed) == tag)
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn validators() -> Validators {
        Validators {
            etag: "\"a\"".into(),
            modified: Some((UNIX_EPOCH + Duration::from_secs(784_111_777)).into()),
            now: SystemTime::now(),
        }
    }

    const NOW: u64 = 1_800_000_000;
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    fn headers(headers: &[(HeaderName, &'static str)]) -> HeaderMap {
        headers
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn preconditions_are_weighed_as_the_rfc_says() {
        use Precondition::{Failed, NotModified, Send};
        for (given, wanted) in [
            (vec![], Send),
            (vec![(IF_NONE_MATCH, "\"a\"")], NotModified),
            (vec![(IF_NONE_MATCH, "\"b\", W/\"a\"")], NotModified),
            (vec![(IF_NONE_MATCH, "*")], NotModified),
            (vec![(IF_NONE_MATCH, "\"b\"")], Send),
            (
                vec![(IF_NONE_MATCH, "\"b\""), (IF_MODIFIED_SINCE, SAME)],
                Send,
            ),
            (vec![(IF_MODIFIED_SINCE, SAME)], NotModified),
            (vec![(IF_MODIFIED_SINCE, BEFORE)], Send),
            (vec![(IF_MODIFIED_SINCE, "yesterday")], Send),
            (vec![(IF_MATCH, "\"a\"")], Send),
            (vec![(IF_MATCH, "W/\"a\"")], Failed),
            (vec![(IF_MATCH, "\"b\"")], Failed),
            (vec![(IF_UNMODIFIED_SINCE, BEFORE)], Failed),
            (vec![(IF_UNMODIFIED_SINCE, SAME)], Send),
        ] {
            assert_eq!(validators().check(&headers(&given)), wanted, "{given:?}");
        }
    }

    #[test]
    fn a_client_that_keeps_answers_for_a_while_gets_them_again_after_half_of_it() {
        use Precondition::{NotModified, Send};
        let now = SystemTime::now();
        let hours_ago = |hours| httpdate::fmt_http_date(now - Duration::from_hours(hours));
        for (hours, keeps, wanted) in [
            (13, "max-age=86400", Send),
            (13, "no-transform, max-age=86400", Send),
            (11, "max-age=86400", NotModified),
            (13, "max-age=0", NotModified),
            (13, "max-age=day", NotModified),
            (13, "max-stale=86400", NotModified),
        ] {
            let mut given = headers(&[]);
            given.insert(CACHE_CONTROL, keeps.parse().unwrap());
            given.insert(IF_MODIFIED_SINCE, hours_ago(hours).parse().unwrap());
            assert_eq!(validators().check(&given), wanted, "{hours} {keeps}");
            // An entity tag tells exactly.
            given.insert(IF_NONE_MATCH, HeaderValue::from_static("\"a\""));
            assert_eq!(validators().check(&given), NotModified, "{hours} {keeps}");
        }
    }

    #[test]
    fn a_date_of_a_wrong_clock_is_compared_with_the_one_that_the_content_had_then() {
        use Precondition::{Failed, NotModified, Send};
        const AHEAD: u64 = NOW + 300_000_000;
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let of = |shown: u64, recorded: u64| Validators {
            etag: "\"a\"".into(),
            modified: Some(Modified {
                shown: at(shown),
                recorded: at(recorded),
            }),
            now: at(NOW) + Duration::from_millis(400),
        };
        let text = |seconds| httpdate::fmt_http_date(at(seconds));
        let check = |validators: &Validators, name, date| {
            let mut given = HeaderMap::new();
            given.insert(name, text(date).parse().unwrap());
            validators.check(&given)
        };
        // Other content may have come in the second of the response.
        let soon = of(NOW + 1, NOW + 1);
        assert_eq!(check(&soon, IF_MODIFIED_SINCE, NOW), Send);
        assert_eq!(check(&soon, IF_UNMODIFIED_SINCE, NOW), Failed);
        // A client has the date of the wrong clock: of this content, or of the one before.
        let corrected = of(NOW - 5, AHEAD);
        assert_eq!(check(&corrected, IF_MODIFIED_SINCE, AHEAD), NotModified);
        assert_eq!(check(&corrected, IF_MODIFIED_SINCE, AHEAD - 1), Send);
        assert_eq!(check(&corrected, IF_UNMODIFIED_SINCE, AHEAD - 1), Failed);
        // Or the date after the correction.
        assert_eq!(check(&corrected, IF_MODIFIED_SINCE, NOW - 5), NotModified);
        assert_eq!(check(&corrected, IF_MODIFIED_SINCE, NOW - 6), Send);
    }

    #[test]
    fn without_a_date_only_the_entity_tag_tells() {
        let undated = Validators {
            modified: None,
            ..validators()
        };
        assert_eq!(undated.last_modified(), None);
        for (given, wanted) in [
            ([(IF_MODIFIED_SINCE, SAME)], Precondition::Send),
            ([(IF_UNMODIFIED_SINCE, BEFORE)], Precondition::Send),
            ([(IF_NONE_MATCH, "\"a\"")], Precondition::NotModified),
        ] {
            assert_eq!(undated.check(&headers(&given)), wanted, "{given:?}");
        }
        assert!(!undated.allow_range(&headers(&[(IF_RANGE, SAME)])));
    }

    #[test]
    fn a_range_of_another_state_is_not_sent() {
        let allowed = |condition| validators().allow_range(&headers(&[(IF_RANGE, condition)]));
        assert!(validators().allow_range(&headers(&[])));
        for (condition, wanted) in [
            ("\"a\"", true),
            (SAME, true),
            ("\"b\"", false),
            ("W/\"a\"", false),
            (BEFORE, false),
            ("yesterday", false),
            ("", false),
        ] {
            assert_eq!(allowed(condition), wanted, "{condition}");
        }
    }
}
