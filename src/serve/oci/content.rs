//! Sending manifests and blobs: exact bytes, whole or a range, and never with a
//! content encoding.

use std::ops::Range;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE,
    RANGE,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::serve::fields::{byte_range, byte_ranges, content_range, header, none_match};
use crate::serve::net::body::Slices;
use crate::serve::oci::rejection::OciRejection;
use crate::snapshot::RemotePart;
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
        let etag = format!("\"{}\"", self.digest);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, header(self.media_type.to_owned()));
        headers.insert(DIGEST, header(self.digest.to_string()));
        headers.insert(ETAG, header(etag.clone()));
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if self.fixed {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static(IMMUTABLE));
        }
        if none_match(request, &etag) {
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
                let stated = content_range(&(range.start as u64..range.end as u64), length as u64);
                headers.insert(CONTENT_RANGE, header(stated));
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

/// The response with a part of an image that is elsewhere.
pub(super) fn remote(digest: Digest, part: RemotePart, method: &Method) -> Response {
    let media_type = part.media_type;
    let media_type = media_type.unwrap_or_else(|| "application/octet-stream".to_owned());
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, header(media_type));
    headers.insert(DIGEST, header(digest.to_string()));
    headers.insert(ETAG, header(format!("\"{digest}\"")));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(IMMUTABLE));
    headers.insert(CONTENT_LENGTH, part.size.into());
    let body = if *method == Method::HEAD {
        Body::empty()
    } else {
        Body::from_stream(part.body)
    };
    (StatusCode::OK, headers, body).into_response()
}

/// The requested range of `length` bytes. `None` for the whole content, also with
/// several ranges and with other units.
fn range(
    request: &HeaderMap,
    etag: &str,
    length: usize,
) -> Result<Option<Range<usize>>, OciRejection> {
    let header = |name| {
        request
            .get(name)
            .map(|value: &HeaderValue| value.to_str().ok())
    };
    let same = header(IF_RANGE).is_none_or(|condition| condition == Some(etag));
    let requested = header(RANGE)
        .flatten()
        .filter(|_| same)
        .and_then(byte_ranges);
    let Some(requested) = requested.filter(|ranges| !ranges.contains(',')) else {
        return Ok(None);
    };
    let index = |at| usize::try_from(at).unwrap_or(length);
    match byte_range(requested, length as u64) {
        Some(range) if range.start < range.end => Ok(Some(index(range.start)..index(range.end))),
        _ => Err(OciRejection::Range(length as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_to_the_length_or_rejected() {
        let etag = "\"a\"";
        let of = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(RANGE, HeaderValue::from_static(text));
            range(&headers, etag, 2048).map_err(|_| ())
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
