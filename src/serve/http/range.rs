//! Range requests (RFC 9110, section 14).

use std::ops::Range;

use bytes::Bytes;

use crate::snapshot::Encoded;

/// How many ranges a request may have. With more, it gets the whole content.
const MAX_RANGES: usize = 32;

/// The ranges of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RangeRequest {
    /// The whole content.
    Whole,
    /// One satisfiable range.
    One(Range<u64>),
    /// Several satisfiable ranges.
    Several(Vec<Range<u64>>),
    /// No satisfiable range.
    Unsatisfiable,
}

impl RangeRequest {
    /// Reads `Range`. Malformed headers, and ranges that sum up to more than the
    /// whole, are ignored.
    pub(super) fn read(range: &str, length: u64) -> Self {
        Self::parse(range, length).unwrap_or(Self::Whole)
    }

    fn parse(range: &str, length: u64) -> Option<Self> {
        let (unit, set) = range.split_once('=')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return None;
        }
        let specs: Vec<&str> = set
            .split(',')
            .map(str::trim)
            .filter(|spec| !spec.is_empty())
            .take(MAX_RANGES + 1)
            .collect();
        if specs.is_empty() || specs.len() > MAX_RANGES {
            return None;
        }
        let mut ranges = Vec::with_capacity(specs.len());
        for spec in specs {
            let range = one(spec, length)?;
            if range.start < range.end {
                ranges.push(range);
            }
        }
        let sum: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        match ranges.len() {
            0 => Some(Self::Unsatisfiable),
            _ if sum > length => None,
            1 => ranges.pop().map(Self::One),
            _ => Some(Self::Several(ranges)),
        }
    }
}

/// One range, cut to the length; empty if it is behind the end.
fn one(spec: &str, length: u64) -> Option<Range<u64>> {
    let (first, last) = spec.split_once('-')?;
    let (first, last) = (first.trim(), last.trim());
    Some(match (first, last) {
        ("", last) => length.saturating_sub(number(last)?)..length,
        (first, "") => number(first)?..length,
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            first..last.saturating_add(1).min(length)
        }
    })
}

/// A number of any length. All beyond `u64` are behind the end of any file.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

/// The `Content-Range` of a range.
pub(super) fn content_range(range: &Range<u64>, length: u64) -> String {
    format!("bytes {}-{}/{length}", range.start, range.end - 1)
}

/// Several ranges as one body (`multipart/byteranges`).
pub(super) fn multipart(
    whole: &Encoded,
    ranges: &[Range<u64>],
    media_type: &str,
    boundary: &str,
) -> Encoded {
    let mut body = Encoded::default();
    for range in ranges {
        let head = format!(
            "\r\n--{boundary}\r\nContent-Type: {media_type}\r\nContent-Range: {}\r\n\r\n",
            content_range(range, whole.length)
        );
        body.push(Bytes::from(head));
        for part in whole.slice(range.clone()).parts {
            body.push(part);
        }
    }
    body.push(Bytes::from(format!("\r\n--{boundary}--\r\n")));
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_to_the_length() {
        let one = |range| RangeRequest::One(range);
        for (range, wanted) in [
            ("bytes=0-99", one(0..100)),
            ("bytes=500-", one(500..1000)),
            ("bytes=-10", one(990..1000)),
            ("bytes=-5000", one(0..1000)),
            ("bytes=900-5000", one(900..1000)),
            ("BYTES = 0-0", one(0..1)),
            ("bytes=0-99999999999999999999999999", one(0..1000)),
            ("bytes=1000-", RangeRequest::Unsatisfiable),
            (
                "bytes=99999999999999999999999999-",
                RangeRequest::Unsatisfiable,
            ),
            ("bytes=-0", RangeRequest::Unsatisfiable),
            ("bytes=1000-,2000-3000,-0", RangeRequest::Unsatisfiable),
            ("bytes=0-1, 5-6,,", RangeRequest::Several(vec![0..2, 5..7])),
            (
                "bytes=5-6,0-1,-1",
                RangeRequest::Several(vec![5..7, 0..2, 999..1000]),
            ),
            ("bytes=0-1,5000-", one(0..2)),
            ("bytes=0-600,300-999", RangeRequest::Whole),
            ("bytes=5-2", RangeRequest::Whole),
            ("bytes=0-1,5-2", RangeRequest::Whole),
            ("bytes=a-b", RangeRequest::Whole),
            ("bytes=+1-2", RangeRequest::Whole),
            ("bytes=--1", RangeRequest::Whole),
            ("bytes=-", RangeRequest::Whole),
            ("bytes=", RangeRequest::Whole),
            ("bytes=,", RangeRequest::Whole),
            ("bytes", RangeRequest::Whole),
            ("", RangeRequest::Whole),
            ("lines=0-1", RangeRequest::Whole),
        ] {
            assert_eq!(RangeRequest::read(range, 1000), wanted, "{range}");
        }
        let many = vec!["1-1"; MAX_RANGES + 1].join(",");
        assert_eq!(
            RangeRequest::read(&format!("bytes={many}"), 1000),
            RangeRequest::Whole
        );
        assert_eq!(
            RangeRequest::read("bytes=0-", 0),
            RangeRequest::Unsatisfiable
        );
    }

    #[test]
    fn several_ranges_are_one_body() {
        let mut whole = Encoded::default();
        whole.push(Bytes::from_static(b"abcd"));
        whole.push(Bytes::from_static(b"efgh"));
        let body = multipart(&whole, &[2..6, 0..1], "text/x", "B");
        let text = "\r\n--B\r\nContent-Type: text/x\r\nContent-Range: bytes 2-5/8\r\n\r\ncdef\
                    \r\n--B\r\nContent-Type: text/x\r\nContent-Range: bytes 0-0/8\r\n\r\na\
                    \r\n--B--\r\n";
        assert_eq!(body.parts.concat(), text.as_bytes());
        assert_eq!(body.length, text.len() as u64);
    }
}
