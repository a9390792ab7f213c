//! The response with a selection of a catalog: its form, its validators, and the
//! ranges of it that a client asks for.

use axum::body::Body;
use axum::response::Response;
use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE,
    LAST_MODIFIED, RANGE, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::serve::fields::{content_range, header};
use crate::serve::http::conditional::{self, Precondition};
use crate::serve::http::form::{self, Chosen, Form};
use crate::serve::http::headers::bare;
use crate::serve::http::range;
use crate::serve::net::body::Slices;
use crate::snapshot::{Comparing, Encoded, Selection, TooManyToCompare};

/// The media type of a catalog.
const JSON_LINES: &str = "application/jsonl";
/// How many headers most responses have at most. A header map with room for one
/// more takes the allocator's slow path.
const HEADERS: usize = 6;

/// The response with a selection: whole, a range of it, or none of it when the
/// client has it already.
///
/// # Errors
/// When too much has to be compared first.
pub(super) fn respond<B>(
    selection: &Selection,
    request: &http::Request<B>,
    ranges: bool,
    comparing: Comparing,
) -> Result<Response, TooManyToCompare> {
    let (method, request_headers) = (request.method(), request.headers());
    let plain = !conditional::has_conditions(request_headers);
    // Ranges are defined for GET alone (RFC 9110, section 14.2).
    let range = (ranges && !plain && *method == Method::GET).then(|| request_headers.get(RANGE));
    let range = range.flatten();
    let asks = (range.is_some(), plain);
    let Chosen {
        form,
        validators,
        mut encoded,
    } = form::choose(selection, request_headers, asks, comparing)?;
    let mut headers = HeaderMap::with_capacity(HEADERS);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON_LINES));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    if let Some(modified) = validators.last_modified() {
        headers.insert(LAST_MODIFIED, modified);
    }
    match form.coding() {
        Some(coding) => {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
        None if ranges => {
            headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        }
        None => {}
    }
    let precondition = if plain {
        Precondition::Send
    } else {
        validators.check(request_headers)
    };
    let mut status = match precondition {
        Precondition::Send => StatusCode::OK,
        Precondition::NotModified => StatusCode::NOT_MODIFIED,
        Precondition::Failed => StatusCode::PRECONDITION_FAILED,
    };
    if status != StatusCode::OK {
        headers.insert(ETAG, validators.into_etag());
        return Ok(bare(status, headers));
    }
    let whole = encoded.length;
    // A range of a compressed response is only useful to a client that has the
    // rest of it.
    let allowed = |_: &&HeaderValue| match form {
        Form::Identity => validators.allow_range(request_headers),
        _ => request_headers.contains_key(IF_RANGE) && validators.allow_range(request_headers),
    };
    let range = range.filter(allowed).and_then(|range| range.to_str().ok());
    let ranges = range.and_then(|range| range::ranges(range, whole));
    match ranges.as_deref() {
        None => {}
        Some([]) => {
            headers.insert(CONTENT_RANGE, header(format!("bytes */{whole}")));
            headers.insert(ETAG, validators.into_etag());
            return Ok(bare(StatusCode::RANGE_NOT_SATISFIABLE, headers));
        }
        Some([range]) => {
            status = StatusCode::PARTIAL_CONTENT;
            headers.insert(CONTENT_RANGE, header(content_range(range, whole)));
            encoded = encoded.slice(range.clone());
        }
        Some(_) if form != Form::Identity => {}
        Some(ranges) => {
            status = StatusCode::PARTIAL_CONTENT;
            let boundary = validators.tag().trim_matches('"');
            let kind = format!("multipart/byteranges; boundary={boundary}");
            headers.insert(CONTENT_TYPE, header(kind));
            encoded = range::multipart(&encoded, ranges, JSON_LINES, boundary);
        }
    }
    headers.insert(ETAG, validators.into_etag());
    let body = if *method == Method::HEAD {
        headers.insert(CONTENT_LENGTH, encoded.length.into());
        Body::empty()
    } else {
        // hyper takes `Content-Length` from the body, which is faster than a
        // header.
        let Encoded { parts, .. } = encoded;
        Body::new(Slices::new(parts).over(request.version()))
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}
