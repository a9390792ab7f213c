//! The content encodings that a client accepts (RFC 9110, section 12.5.3).

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};

/// The weight of each coding, in thousandths; 0 where it is not accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Accepted {
    pub(super) gzip: u16,
    /// Only if named: few clients that accept `*` can read zstd.
    pub(super) zstd: u16,
    /// `None` if it is refused, and 0 if it is not mentioned: then it is used
    /// where no other coding is available.
    pub(super) identity: Option<u16>,
}

impl Accepted {
    /// Reads `Accept-Encoding`. Without the header nothing is compressed.
    pub(super) fn read<'a>(headers: impl IntoIterator<Item = &'a HeaderValue>) -> Self {
        let (mut gzip, mut zstd, mut identity, mut any) = (None, None, None, None);
        for header in headers {
            for coding in header.to_str().unwrap_or_default().split(',') {
                let mut parts = coding.split(';');
                let name = parts.next().unwrap_or_default().trim();
                let named = |names: &[&str]| names.iter().any(|n| name.eq_ignore_ascii_case(n));
                let coding = match name {
                    "*" => &mut any,
                    _ if named(&["gzip", "x-gzip"]) => &mut gzip,
                    _ if named(&["zstd"]) => &mut zstd,
                    _ if named(&["identity"]) => &mut identity,
                    _ => continue,
                };
                *coding = Some(weight(parts));
            }
        }
        Self {
            gzip: gzip.or(any).unwrap_or(0),
            zstd: zstd.unwrap_or(0),
            identity: match identity.or(any.filter(|any| *any == 0)) {
                Some(0) => None,
                known => Some(known.unwrap_or(0)),
            },
        }
    }
}

/// Whether `Accept-Encoding` accepts gzip and does not prefer `identity`.
pub(super) fn accepts_gzip<'a>(headers: impl IntoIterator<Item = &'a HeaderValue>) -> bool {
    let accepted = Accepted::read(headers);
    accepted.gzip > 0 && accepted.identity.is_none_or(|it| it <= accepted.gzip)
}

/// The bytes in gzip. Level 1: a response is small and sent once.
pub(super) fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Whether `Accept` names a media type. A range such as `*/*` does not count.
pub(super) fn accepts_named(headers: &HeaderMap, media_type: &str) -> bool {
    headers.get_all(ACCEPT).iter().any(|value| {
        let mut ranges = value.to_str().unwrap_or_default().split(',');
        ranges.any(|range| {
            let mut parts = range.split(';');
            let name = parts.next().unwrap_or_default().trim();
            name.eq_ignore_ascii_case(media_type) && weight(parts) > 0
        })
    })
}

/// The `q` parameter of a list item in a header, in thousandths (default 1000).
/// A malformed one counts as 0.
fn weight<'a>(mut parameters: impl Iterator<Item = &'a str>) -> u16 {
    let weight = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| value.trim())
    });
    let Some(weight) = weight else {
        return 1000;
    };
    let (whole, fraction) = weight.split_once('.').unwrap_or((weight, ""));
    let digits = fraction.bytes().all(|byte| byte.is_ascii_digit());
    match whole {
        "1" if fraction.bytes().all(|byte| byte == b'0') => 1000,
        "0" | "" if digits => format!("{fraction:0<3.3}").parse().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &'static str) -> Accepted {
        Accepted::read([&HeaderValue::from_static(header)])
    }

    #[test]
    fn gzip_is_taken_by_name_or_star_unless_it_weighs_nothing() {
        for (header, wanted) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip;q=0.000", false),
            ("*", true),
            ("*;q=0", false),
            ("gzip;q=0, *", false),
            ("identity", false),
            ("", false),
            ("br;q=1.0, x-gzip", true),
            ("gzip;q=what", false),
            ("gzip;q=-1", false),
            ("gzip;q=7", false),
            ("gzip;q=1.000", true),
            ("gzip;q=1.1", false),
            ("gzip;q=.5", true),
            ("gzip;q=", false),
            ("gzip; Q=0.5", true),
        ] {
            let value = HeaderValue::from_static(header);
            assert_eq!(accepts_gzip([&value]), wanted, "{header:?}");
        }
        assert!(!accepts_gzip([]));
    }

    #[test]
    fn each_coding_has_a_weight() {
        for (header, gzip, zstd, identity) in [
            ("", 0, 0, Some(0)),
            ("zstd, gzip", 1000, 1000, Some(0)),
            ("zstd;q=0.5, gzip;q=0.25", 250, 500, Some(0)),
            ("*", 1000, 0, Some(0)),
            ("*;q=0.5, identity;q=0.1", 500, 0, Some(100)),
            ("*;q=0", 0, 0, None),
            ("*;q=0, zstd", 0, 1000, None),
            ("identity;q=0, gzip", 1000, 0, None),
            ("identity, *;q=0", 0, 0, Some(1000)),
        ] {
            let wanted = Accepted {
                gzip,
                zstd,
                identity,
            };
            assert_eq!(read(header), wanted, "{header:?}");
        }
    }

    #[test]
    fn a_media_type_is_accepted_where_the_client_names_it() {
        let problem = "application/problem+json";
        for (accept, media_type, wanted) in [
            ("application/problem+json", problem, true),
            (
                "application/jsonl, Application/Problem+JSON;q=0.5",
                problem,
                true,
            ),
            ("application/problem+json;q=0", problem, false),
            ("application/json", problem, false),
            ("*/*", problem, false),
            ("", problem, false),
            (
                "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8",
                "text/html",
                true,
            ),
            ("application/json, Text/HTML; q=0.5", "text/html", true),
            ("*/*", "text/html", false),
            ("application/json", "text/html", false),
            ("text/htmlx", "text/html", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(accepts_named(&headers, media_type), wanted, "{accept}");
        }
        assert!(!accepts_named(&HeaderMap::new(), problem));
    }
}
