//! Preconditions and ranges (RFC 9110, sections 13 and 14).

use std::ops::Range;
use std::time::SystemTime;

use http::header::{
    IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::digest::Digest;
use crate::snapshot::Selection;

/// What tells one state of an answer from another.
pub(super) struct Validators {
    etag: String,
    modified: SystemTime,
}

/// What the preconditions of a request ask for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Precondition {
    Send,
    NotModified,
    Failed,
}

impl Validators {
    pub(super) fn new(selection: &Selection, gzip: bool) -> Self {
        Self::of(&selection.tag(), selection.snapshot().modified(), gzip)
    }

    /// Of an answer whose bytes are at hand; `gzip` tells how it is sent.
    pub(super) fn of_bytes(bytes: &[u8], modified: SystemTime, gzip: bool) -> Self {
        Self::of(&Digest::of(bytes), modified, gzip)
    }

    fn of(tag: &Digest, modified: SystemTime, gzip: bool) -> Self {
        // Half of a digest is far beyond chance, and short enough for a log.
        let tag = &tag.hex()[..32];
        let suffix = if gzip { "-gzip" } else { "" };
        Self {
            etag: format!("\"{tag}{suffix}\""),
            modified,
        }
    }

    pub(super) fn etag(&self) -> HeaderValue {
        super::header(self.etag.clone())
    }

    pub(super) fn last_modified(&self) -> HeaderValue {
        super::header(httpdate::fmt_http_date(self.modified))
    }

    /// Evaluates the preconditions in the RFC's order. A date that cannot be
    /// read counts as absent.
    pub(super) fn check(&self, headers: &HeaderMap) -> Precondition {
        if headers.contains_key(IF_MATCH) {
            if !self.listed(headers, IF_MATCH, false) {
                return Precondition::Failed;
            }
        } else if let Some(date) = date(headers, IF_UNMODIFIED_SINCE)
            && self.modified > date
        {
            return Precondition::Failed;
        }
        if headers.contains_key(IF_NONE_MATCH) {
            if self.listed(headers, IF_NONE_MATCH, true) {
                return Precondition::NotModified;
            }
        } else if let Some(date) = date(headers, IF_MODIFIED_SINCE)
            && self.modified <= date
        {
            return Precondition::NotModified;
        }
        Precondition::Send
    }

    /// The range that is asked for of `length` bytes: none when the whole is to
    /// be sent, an error when there is nothing in it. Several ranges are
    /// answered with the whole.
    pub(super) fn range(&self, headers: &HeaderMap, length: u64) -> Option<Result<Range<u64>, ()>> {
        let range = headers.get(RANGE)?.to_str().ok()?;
        if let Some(condition) = headers.get(IF_RANGE) {
            let condition = condition.to_str().ok()?;
            let same = if condition.starts_with('"') {
                condition == self.etag
            } else {
                httpdate::parse_http_date(condition).is_ok_and(|date| date == self.modified)
            };
            if !same {
                return None;
            }
        }
        let (first, last) = range.strip_prefix("bytes=")?.trim().split_once('-')?;
        if last.contains(',') {
            return None;
        }
        let range = match (first, last) {
            ("", last) => {
                let wanted: u64 = last.parse().ok()?;
                length.saturating_sub(wanted)..length
            }
            (first, "") => first.parse().ok()?..length,
            (first, last) => {
                let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
                if last < first {
                    return None;
                }
                first..last.saturating_add(1).min(length)
            }
        };
        Some(if range.start < range.end {
            Ok(range)
        } else {
            Err(())
        })
    }

    fn listed(&self, headers: &HeaderMap, name: HeaderName, weak: bool) -> bool {
        headers.get_all(name).iter().any(|value| {
            value.to_str().unwrap_or_default().split(',').any(|tag| {
                let tag = tag.trim();
                let tag = if weak {
                    tag.strip_prefix("W/").unwrap_or(tag)
                } else {
                    tag
                };
                tag == "*" || tag == self.etag
            })
        })
    }
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn validators() -> Validators {
        Validators {
            etag: "\"a\"".into(),
            modified: UNIX_EPOCH + Duration::from_secs(784_111_777),
        }
    }

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
    fn ranges_are_cut_to_what_is_there() {
        for (range, wanted) in [
            ("bytes=0-99", Some(Ok(0..100))),
            ("bytes=500-", Some(Ok(500..1000))),
            ("bytes=-10", Some(Ok(990..1000))),
            ("bytes=-5000", Some(Ok(0..1000))),
            ("bytes=900-5000", Some(Ok(900..1000))),
            ("bytes=1000-", Some(Err(()))),
            ("bytes=-0", Some(Err(()))),
            ("bytes=5-2", None),
            ("bytes=0-1,5-6", None),
            ("bytes=a-b", None),
            ("lines=0-1", None),
        ] {
            let given = headers(&[(RANGE, range)]);
            assert_eq!(validators().range(&given, 1000), wanted, "{range}");
        }
        let conditional = |condition| headers(&[(RANGE, "bytes=0-9"), (IF_RANGE, condition)]);
        assert_eq!(
            validators().range(&conditional("\"a\""), 1000),
            Some(Ok(0..10))
        );
        assert_eq!(
            validators().range(&conditional(SAME), 1000),
            Some(Ok(0..10))
        );
        assert_eq!(validators().range(&conditional("\"b\""), 1000), None);
        assert_eq!(validators().range(&conditional(BEFORE), 1000), None);
    }
}
