//! Header fields that the HTTP and the OCI API read and write alike.

use std::ops::Range;

use http::header::{HOST, IF_NONE_MATCH};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The longest `Host` that a response repeats.
const MAX_HOST: usize = 300;

/// Scheme and host of this server as the client sees them; `secure` tells whether
/// the connection has TLS. Behind a TLS proxy, they are the proxy's. A forged host
/// would only mislead the client itself.
pub(crate) fn origin(request: &Parts, secure: bool) -> String {
    let headers = &request.headers;
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let scheme = if secure || is_proxied_with_tls(headers) {
        "https"
    } else {
        "http"
    };
    let authority = request.uri.authority().map(Authority::as_str);
    let host = authority.or_else(|| header(HOST.as_str()));
    let good = |host: &&str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte);
        host.len() <= MAX_HOST && host.bytes().all(plain)
    };
    format!("{scheme}://{}", host.filter(good).unwrap_or("localhost"))
}

/// Whether a proxy says that the client has TLS to it.
pub(crate) fn is_proxied_with_tls(headers: &HeaderMap) -> bool {
    let protocol = headers.get("x-forwarded-proto");
    protocol.is_some_and(|protocol| protocol == "https")
}

/// A header value of visible ASCII, which is always valid.
pub(crate) fn header(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

/// Whether a header with a list of entity tags has a `good` one.
pub(crate) fn any_tag(headers: &HeaderMap, name: &HeaderName, good: impl Fn(&str) -> bool) -> bool {
    let values = headers.get_all(name).iter();
    let mut texts = values.filter_map(|value| value.to_str().ok());
    // Our entity tags contain no comma.
    texts.any(|text| text.split(',').any(|listed| good(listed.trim())))
}

/// Whether the client has the content of this entity tag already.
pub(crate) fn none_match(headers: &HeaderMap, etag: &str) -> bool {
    let same = |tag: &str| tag == "*" || strong(tag) == etag;
    any_tag(headers, &IF_NONE_MATCH, same)
}

/// An entity tag without its mark as a weak one.
pub(crate) fn strong(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

/// The list of ranges in a `Range` header with the unit `bytes`.
pub(crate) fn byte_ranges(header: &str) -> Option<&str> {
    let (unit, ranges) = header.split_once('=')?;
    unit.trim().eq_ignore_ascii_case("bytes").then_some(ranges)
}

/// One range, cut to the length; empty if it is behind the end. `None` if it is
/// malformed.
pub(crate) fn byte_range(range: &str, length: u64) -> Option<Range<u64>> {
    let (first, last) = range.split_once('-')?;
    Some(match (first.trim(), last.trim()) {
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

/// A number of any length. All beyond `u64` are behind the end of any content.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

/// The `Content-Range` of a range.
pub(crate) fn content_range(range: &Range<u64>, length: u64) -> String {
    format!("bytes {}-{}/{length}", range.start, range.end - 1)
}
