//! The HTTP API of OLM v1's catalogd, for all catalogs.
//!
//! `/catalogs/{name}/api/v1/all` is the whole catalog, `…/metas` a selection
//! of it, both as lines of JSON; `…/graphql` answers queries (`graphql`). What
//! is sent of the first two are slices of stored files, plain or compressed;
//! `form` chooses between them, `conditional` and `range` decide what of it a
//! client needs. `queries` has the routes that the peer does not have. `direct`
//! gives good answers of the first two without going through the router and all
//! that stands around. Around all routes stand `access` (who may read a
//! catalog), `path` (paths that could be shorter), `refusal` (what is said
//! instead of an answer), `cors` (pages of other origins) and `observe` (metrics
//! and log).

mod conditional;
mod cors;
mod direct;
mod encoding;
mod form;
mod graphql;
mod observe;
mod path;
mod queries;
mod range;
pub(crate) mod refusal;

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Router, middleware};
use bytes::Bytes;
use futures_util::stream;
use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HOST,
    IF_RANGE, LAST_MODIFIED, RANGE, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use hyper::body::Incoming;

use crate::name::CatalogName;
use crate::serve::access::{self, Access};
use crate::serve::net::body::Slices;
use crate::serve::net::in_flight::Answer;
use crate::serve::{Answers, Peer};
use crate::snapshot::{Catalogs, Encoded, Query, Selection, Snapshot};
use conditional::Precondition;
use form::{Chosen, Form, SMALLEST_COMPRESSED};
use range::Asked;
use refusal::Refusal;

pub use cors::Origins;

const ALL: &str = "/catalogs/{name}/api/v1/all";
const METAS: &str = "/catalogs/{name}/api/v1/metas";
/// The media type of a catalog.
const JSON_LINES: &str = "application/jsonl";
/// What is said to a request for no host, or for several.
const NO_HOST: &str = "400 Bad Request: one Host header is required\n";
/// How many headers most answers have at most. The map of one more would be too
/// large for what the allocator has at hand.
const HEADERS: usize = 6;
/// How long a client should wait for a catalog that is not loaded, in seconds.
const LOADING: &str = "5";

/// The name in a path, if it is text.
type Named = Result<Path<String>, PathRejection>;

/// What answers on the HTTP port. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    catalogs: Catalogs,
    access: Access,
    /// Whether pages of other origins may ask.
    shared: bool,
    /// All routes, with what stands around them.
    router: Router,
}

impl Service {
    /// All catalogs; `others` are routes beside those of catalogs.
    pub fn new(catalogs: Catalogs, access: Access, origins: Origins, others: Router) -> Self {
        Self {
            shared: origins != Origins::None,
            router: router(catalogs.clone(), access.clone(), origins).merge(others),
            catalogs,
            access,
        }
    }
}

impl Answers for Service {
    async fn answer(
        &self,
        request: http::Request<Incoming>,
        peer: Peer,
        sending: &Arc<Answer>,
    ) -> Response {
        if !names_one_host(&request) {
            return (StatusCode::BAD_REQUEST, NO_HOST).into_response();
        }
        match direct::answer(self, &request, peer, sending) {
            Some(response) => response,
            // Apart, for this future is moved around, and the other is large.
            None => Box::pin(self.router.answer(request, peer, sending)).await,
        }
    }
}

/// Whether a request says once which host it is for, as HTTP/1.1 wants it (RFC
/// 9112, section 3.2). What differs from one reader to the next could be taken
/// for another's.
fn names_one_host<B>(request: &http::Request<B>) -> bool {
    request.version() != Version::HTTP_11 || request.headers().get_all(HOST).iter().count() == 1
}

fn router(catalogs: Catalogs, access: Access, origins: Origins) -> Router {
    let routes = Router::new()
        .route(ALL, any(all))
        .route(METAS, any(metas))
        .merge(queries::routes())
        .route("/catalogs/{name}/api/v1/graphql", graphql::route())
        .fallback(async || Refusal::UnknownPath)
        .layer(middleware::from_fn_with_state(access, access::guard))
        .layer(middleware::from_fn(path::clean))
        .layer(middleware::from_fn(refusal::describe));
    let routes = match cors::layer(origins) {
        Some(layer) => routes.layer(layer),
        None => routes,
    };
    routes
        .layer(middleware::from_fn_with_state(
            catalogs.clone(),
            observe::observe,
        ))
        .with_state(catalogs)
}

async fn all(
    State(catalogs): State<Catalogs>,
    name: Named,
    request: Request,
) -> Result<Response, Refusal> {
    let Path(name) = name.map_err(|_| Refusal::Path)?;
    check_method(request.method())?;
    let selection = select(&catalogs, &name, &Query::default())?;
    Ok(respond(&selection, &request, true))
}

async fn metas(
    State(catalogs): State<Catalogs>,
    name: Named,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Refusal> {
    let Path(name) = name.map_err(|_| Refusal::Path)?;
    check_method(request.method())?;
    let query = parse_query(query.as_deref().unwrap_or_default())?;
    let selection = select(&catalogs, &name, &query)?;
    Ok(respond(&selection, &request, false))
}

fn check_method(method: &Method) -> Result<(), Refusal> {
    match *method {
        Method::GET | Method::HEAD => Ok(()),
        _ => Err(Refusal::Method("GET, HEAD")),
    }
}

/// Says that an answer is what its type says.
fn no_sniffing(headers: &mut HeaderMap) {
    headers.insert(
        "x-content-type-options",
        HeaderValue::from_static("nosniff"),
    );
}

fn find(catalogs: &Catalogs, name: &str) -> Result<Arc<Snapshot>, Refusal> {
    let name: CatalogName = name.parse().map_err(Refusal::Name)?;
    let catalog = catalogs
        .get(name.as_str())
        .filter(|catalog| !catalog.routing.withheld)
        .ok_or(Refusal::UnknownCatalog)?;
    catalog.snapshot().ok_or(Refusal::NotLoaded(name))
}

fn select(catalogs: &Catalogs, name: &str, query: &Query<'_>) -> Result<Selection, Refusal> {
    Ok(find(catalogs, name)?.select(query))
}

/// The first value of each key counts, an empty one as none at all; a key that
/// the peer does not know is refused.
fn parse_query(query: &str) -> Result<Query<'_>, Refusal> {
    let mut parsed = Query::default();
    let mut seen = [false; 3];
    let plain = memchr::memchr2(b'+', b'%', query.as_bytes()).is_none();
    let unescape = |text| {
        if plain {
            Ok(Cow::Borrowed(text))
        } else {
            unescape(text)
        }
    };
    let mut rest = query;
    while !rest.is_empty() {
        let (pair, behind) = cut(rest, b'&');
        rest = behind;
        if pair.is_empty() {
            continue;
        }
        let (key, value) = cut(pair, b'=');
        let key = unescape(key)?;
        let (number, field) = match &*key {
            "schema" => (0, &mut parsed.schema),
            "package" => (1, &mut parsed.package),
            "name" => (2, &mut parsed.name),
            _ => return Err(Refusal::Query),
        };
        let value = unescape(value)?;
        if !std::mem::replace(&mut seen[number], true) {
            *field = Some(value).filter(|value| !value.is_empty());
        }
    }
    Ok(parsed)
}

/// What stands before the first of these characters of ASCII, and behind it.
fn cut(text: &str, at: u8) -> (&str, &str) {
    match memchr::memchr(at, text.as_bytes()) {
        Some(found) => (&text[..found], &text[found + 1..]),
        None => (text, ""),
    }
}

fn unescape(text: &str) -> Result<Cow<'_, str>, Refusal> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        bytes.push(match first {
            b'+' => b' ',
            b'%' => {
                let (code, behind) = rest.split_at_checked(2).ok_or(Refusal::Query)?;
                rest = behind;
                let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(Refusal::Query);
                (digit(code[0])? << 4 | digit(code[1])?) as u8
            }
            other => other,
        });
    }
    String::from_utf8(bytes)
        .map(Cow::Owned)
        .map_err(|_| Refusal::Query)
}

/// Answers with a selection, or with as much of it as the client needs.
fn respond<B>(selection: &Selection, request: &http::Request<B>, ranges: bool) -> Response {
    let (method, asked_with) = (request.method(), request.headers());
    let plain = !conditional::any_asked(asked_with);
    // Ranges are defined for GET alone (RFC 9110, section 14.2).
    let range = (ranges && !plain && *method == Method::GET).then(|| asked_with.get(RANGE));
    let range = range.flatten();
    let Chosen {
        form,
        validators,
        mut encoded,
    } = form::choose(selection, asked_with, range.is_some(), plain);
    let mut headers = HeaderMap::with_capacity(HEADERS);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON_LINES));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.insert(LAST_MODIFIED, validators.last_modified());
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
        validators.check(asked_with)
    };
    let mut status = match precondition {
        Precondition::Send => StatusCode::OK,
        Precondition::NotModified => StatusCode::NOT_MODIFIED,
        Precondition::Failed => StatusCode::PRECONDITION_FAILED,
    };
    if status != StatusCode::OK {
        headers.insert(ETAG, validators.into_etag());
        return bare(status, headers);
    }
    let whole = encoded.length;
    // A piece of a compressed answer is only sent to who has the rest of it.
    let allowed = |_: &&HeaderValue| match form {
        Form::Identity => validators.allow_range(asked_with),
        _ => asked_with.contains_key(IF_RANGE) && validators.allow_range(asked_with),
    };
    let asked = range.filter(allowed).map_or(Asked::Whole, |range| {
        Asked::read(range.to_str().unwrap_or_default(), whole)
    });
    match asked {
        Asked::Whole => {}
        Asked::One(range) => {
            status = StatusCode::PARTIAL_CONTENT;
            let told = range::content_range(&range, whole);
            headers.insert(CONTENT_RANGE, header(told));
            encoded = encoded.slice(range);
        }
        Asked::Several(_) if form != Form::Identity => {}
        Asked::Several(ranges) => {
            status = StatusCode::PARTIAL_CONTENT;
            let boundary = validators.tag().trim_matches('"');
            let kind = format!("multipart/byteranges; boundary={boundary}");
            headers.insert(CONTENT_TYPE, header(kind));
            encoded = range::multipart(&encoded, &ranges, JSON_LINES, boundary);
        }
        Asked::Nothing => {
            headers.insert(CONTENT_RANGE, header(format!("bytes */{whole}")));
            headers.insert(ETAG, validators.into_etag());
            return bare(StatusCode::RANGE_NOT_SATISFIABLE, headers);
        }
    }
    headers.insert(ETAG, validators.into_etag());
    let body = if *method == Method::HEAD {
        headers.insert(CONTENT_LENGTH, encoded.length.into());
        Body::empty()
    } else {
        // The body knows its length, which hyper writes with less effort.
        let Encoded { parts, .. } = encoded;
        Body::new(Slices::new(parts).over(request.version()))
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// An answer without a body: what describes one is left out.
fn bare(status: StatusCode, mut headers: HeaderMap) -> Response {
    headers.remove(CONTENT_TYPE);
    headers.remove(CONTENT_ENCODING);
    let body = match status {
        // The length of 304 is that of the answer it stands for (RFC 9110,
        // section 8.6), not the 0 that would be put there for an empty body;
        // of this one no length is known.
        StatusCode::NOT_MODIFIED => Body::from_stream(stream::empty::<Result<Bytes, Infallible>>()),
        _ => Body::empty(),
    };
    (status, headers, body).into_response()
}

/// A header of text that was just put together of ASCII.
fn header(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_takes_three_keys_and_no_other() {
        fn query(text: &str) -> Option<Query<'_>> {
            parse_query(text).ok()
        }
        let some = |text| Some(Cow::Borrowed(text));
        assert_eq!(query(""), Some(Query::default()));
        assert_eq!(
            query("schema=olm.bundle&package=a%2Db&name=x+y&schema=later"),
            Some(Query {
                schema: some("olm.bundle"),
                package: some("a-b"),
                name: some("x y"),
            })
        );
        assert_eq!(query("schema=&name"), Some(Query::default()));
        for bad in [
            "bogus=1",
            "schema=a&bogus",
            "schema=%",
            "schema=%zz",
            "schema=%+1",
            "schema=%ff",
        ] {
            assert_eq!(query(bad), None, "{bad}");
        }
    }
}
