//! What encodings a client takes (RFC 9110, section 12.5.3).

use http::HeaderValue;

/// Whether `Accept-Encoding` takes gzip. Without the header nothing is
/// compressed: the client did not say that it can read that.
pub(super) fn accepts_gzip<'a>(headers: impl IntoIterator<Item = &'a HeaderValue>) -> bool {
    let mut named = None;
    let mut any = None;
    for header in headers {
        for coding in header.to_str().unwrap_or_default().split(',') {
            let mut parts = coding.split(';');
            let name = parts.next().unwrap_or_default().trim();
            let weight = parts
                .find_map(|part| part.trim().strip_prefix("q="))
                .map_or(1.0, |weight| weight.trim().parse().unwrap_or(0.0_f32));
            if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") {
                named = Some(weight > 0.0);
            } else if name == "*" {
                any = Some(weight > 0.0);
            }
        }
    }
    named.or(any).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_taken_by_name_or_star_unless_it_weighs_nothing() {
        for (header, wanted) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("*", true),
            ("*;q=0", false),
            ("gzip;q=0, *", false),
            ("identity", false),
            ("", false),
            ("br;q=1.0, x-gzip", true),
            ("gzip;q=what", false),
        ] {
            let value = HeaderValue::from_static(header);
            assert_eq!(accepts_gzip([&value]), wanted, "{header:?}");
        }
        assert!(!accepts_gzip([]));
    }
}
