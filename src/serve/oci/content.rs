//! Sending manifests and blobs: exact bytes, whole or a range, and never with a
//! content encoding.

use std::ops::Range;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    IF_RANGE, RANGE,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::serve::net::body::Slices;
use crate::serve::oci::rejection::OciRejection;
use ::images::digest::Digest;

/// The header with the digest of the content.
pub(super) const DIGEST: &str = "docker-content-digest";
/// Content with a digest as its reference never changes.
const IMMUTABLE: &str = "max-age=31536000, immutable";

/// A manifest or blob to send.
pub(super) struct Content<'a> {
    pub(super) digest: Digest,
    pub(super) media_type: &'a str,
    pub(super) bytes: Bytes,
    /// Whether its reference is a digest.
    pub(super) fixed: bool,
}

impl Content<'_> {
    /// The response to a GET or HEAD with these headers.
    pub(super) fn respond(
        self,
        method: &Method,
        request: &HeaderMap,
    ) -> Result<Response, OciRejection> {
        let length = self.bytes.len();
        let digest = text(self.digest.to_string());
        let etag = text(format!("\"{}\"", self.digest));
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, text(self.media_type.to_owned()));
        headers.insert(DIGEST, digest);
        headers.insert(ETAG, etag.clone());
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if self.fixed {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static(IMMUTABLE));
        }
        if lists(request, &etag) {
            return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
        }
        // Ranges are defined for GET alone (RFC 9110, section 14.2).
        let requested = match *method {
            Method::HEAD => None,
            _ => range(request, &etag, length)?,
        };
        let (status, bytes) = match requested {
            None => (StatusCode::OK, self.bytes),
            Some(range) => {
                let stated = format!("bytes {}-{}/{length}", range.start, range.end - 1);
                headers.insert(CONTENT_RANGE, text(stated));
                (StatusCode::PARTIAL_CONTENT, self.bytes.slice(range))
            }
        };
        headers.insert(CONTENT_LENGTH, bytes.len().into());
        let body = if *method == Method::HEAD {
            Body::empty()
        } else {
            Body::new(Slices::new([bytes]))
        };
        Ok((status, headers, body).into_response())
    }
}

/// The requested range of `length` bytes. `None` for the whole content, also with
/// several ranges and with other units.
fn range(
    request: &HeaderMap,
    etag: &HeaderValue,
    length: usize,
) -> Result<Option<Range<usize>>, OciRejection> {
    let Some(header) = request.get(RANGE) else {
        return Ok(None);
    };
    if request
        .get(IF_RANGE)
        .is_some_and(|condition| condition != etag)
    {
        return Ok(None);
    }
    let Some(range) = header.to_str().ok().and_then(bytes) else {
        return Ok(None);
    };
    if range.contains(',') {
        return Ok(None);
    }
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number that does not fit is behind the end of any content.
        digits.then(|| text.parse().unwrap_or(usize::MAX))
    };
    let range = match range.trim().split_once('-') {
        Some(("", last)) => number(last).map(|count| length.saturating_sub(count)..length),
        Some((first, "")) => number(first).map(|first| first..length),
        Some((first, last)) => match (number(first), number(last)) {
            (Some(first), Some(last)) => Some(first..last.saturating_add(1).min(length)),
            _ => None,
        },
        None => None,
    };
    match range {
        Some(range) if range.start < range.end => Ok(Some(range)),
        _ => Err(OciRejection::Range(length as u64)),
    }
}

/// The ranges of the unit `bytes`.
fn bytes(range: &str) -> Option<&str> {
    let (unit, range) = range.split_once('=')?;
    unit.trim().eq_ignore_ascii_case("bytes").then_some(range)
}

/// Whether the client has the content already.
fn lists(request: &HeaderMap, etag: &HeaderValue) -> bool {
    let values = request.get_all(IF_NONE_MATCH).iter();
    let mut values = values.filter_map(|value| value.to_str().ok());
    values.any(|value| {
        let mut tags = value.split(',').map(str::trim);
        tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
    })
}

/// A header of text that was validated before.
pub(super) fn text(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_to_the_length_or_rejected() {
        let etag = HeaderValue::from_static("\"a\"");
        let of = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(RANGE, HeaderValue::from_static(text));
            range(&headers, &etag, 2048).map_err(|_| ())
        };
        for (text, wanted) in [
            ("bytes=500-1499", Ok(Some(500..1500))),
            ("bytes=500-", Ok(Some(500..2048))),
            ("bytes=-500", Ok(Some(1548..2048))),
            ("bytes=2000-5000", Ok(Some(2000..2048))),
            ("bytes=0-99999999999999999999999", Ok(Some(0..2048))),
            ("Bytes=0-0", Ok(Some(0..1))),
            ("bytes=500-0", Err(())),
            ("bytes=5000-10000", Err(())),
            ("bytes=2048-", Err(())),
            ("bytes=-0", Err(())),
            ("bytes=-", Err(())),
            ("bytes=a-b", Err(())),
            ("bytes=7", Err(())),
            ("bytes=0-1,5-6", Ok(None)),
            ("lines=0-1", Ok(None)),
        ] {
            assert_eq!(of(text), wanted, "{text}");
        }
    }
}
