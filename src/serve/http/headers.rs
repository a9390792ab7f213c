//! Headers and header-only responses that several routes send.

use std::convert::Infallible;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, VARY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::serve::http::options::PageOptions;

/// `Retry-After` of a catalog that is not loaded, in seconds.
pub(super) const RETRY_SECONDS: &str = "5";

/// Keeps browsers from guessing another media type.
pub(super) fn no_sniffing(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Marks the response as dependent on `Accept`, once.
pub(super) fn vary_by_accept(headers: &mut HeaderMap) {
    let accept = HeaderValue::from_static("Accept");
    if !headers.get_all(VARY).iter().any(|value| *value == accept) {
        headers.append(VARY, accept);
    }
}

/// Marks the response as dependent on the address of the request, unless the configuration
/// has that address.
pub(super) fn vary_by_host(headers: &mut HeaderMap, options: &PageOptions) {
    if options.url.is_none() {
        headers.append(VARY, HeaderValue::from_static("Host, X-Forwarded-Proto"));
    }
}

/// A response without a body, and without the headers that describe one.
pub(super) fn bare(status: StatusCode, mut headers: HeaderMap) -> Response {
    headers.remove(CONTENT_TYPE);
    headers.remove(CONTENT_ENCODING);
    let body = match status {
        // An empty body would set `Content-Length: 0`. In 304 that header has
        // the length of the full response (RFC 9110, section 8.6), so a stream
        // of unknown length is sent.
        StatusCode::NOT_MODIFIED => Body::from_stream(stream::empty::<Result<Bytes, Infallible>>()),
        _ => Body::empty(),
    };
    (status, headers, body).into_response()
}
