//! Range requests (RFC 9110, section 14).

use std::ops::Range;

use bytes::Bytes;

use crate::serve::fields::{byte_range, byte_ranges, content_range};
use crate::snapshot::Encoded;

/// How many ranges a request may have. With more, it gets the whole content.
const MAX_RANGES: usize = 32;

/// The satisfiable ranges of a `Range` header; empty if there is none. `None` for the
/// whole content: malformed headers, and ranges that sum up to more than the whole,
/// are ignored.
pub(super) fn ranges(header: &str, length: u64) -> Option<Vec<Range<u64>>> {
    let specs = byte_ranges(header)?.split(',').map(str::trim);
    let specs = specs.filter(|spec| !spec.is_empty()).take(MAX_RANGES + 1);
    let ranges: Option<Vec<_>> = specs.map(|spec| byte_range(spec, length)).collect();
    let mut ranges = ranges?;
    if ranges.is_empty() || ranges.len() > MAX_RANGES {
        return None;
    }
    ranges.retain(|range| range.start < range.end);
    let sum: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    (sum <= length).then_some(ranges)
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
        let one = |range| Some(vec![range]);
        let unsatisfiable = || Some(vec![]);
        for (range, wanted) in [
            ("bytes=0-99", one(0..100)),
            ("bytes=500-", one(500..1000)),
            ("bytes=-10", one(990..1000)),
            ("bytes=-5000", one(0..1000)),
            ("bytes=900-5000", one(900..1000)),
            ("BYTES = 0-0", one(0..1)),
            ("bytes=0-99999999999999999999999999", one(0..1000)),
            ("bytes=1000-", unsatisfiable()),
            ("bytes=99999999999999999999999999-", unsatisfiable()),
            ("bytes=-0", unsatisfiable()),
            ("bytes=1000-,2000-3000,-0", unsatisfiable()),
            ("bytes=0-1, 5-6,,", Some(vec![0..2, 5..7])),
            ("bytes=5-6,0-1,-1", Some(vec![5..7, 0..2, 999..1000])),
            ("bytes=0-1,5000-", one(0..2)),
            ("bytes=0-600,300-999", None),
            ("bytes=5-2", None),
            ("bytes=0-1,5-2", None),
            ("bytes=a-b", None),
            ("bytes=+1-2", None),
            ("bytes=--1", None),
            ("bytes=-", None),
            ("bytes=", None),
            ("bytes=,", None),
            ("bytes", None),
            ("", None),
            ("lines=0-1", None),
        ] {
            assert_eq!(ranges(range, 1000), wanted, "{range}");
        }
        let many = vec!["1-1"; MAX_RANGES + 1].join(",");
        assert_eq!(ranges(&format!("bytes={many}"), 1000), None);
        assert_eq!(ranges("bytes=0-", 0), unsatisfiable());
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
