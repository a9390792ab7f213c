//! The two routes that everybody asks, without the router: finding the route
//! and going through all layers takes longer than finding the answer.
//!
//! Only what is plain and good is answered here. Whatever is not, the router
//! answers: it knows how to refuse.

use std::sync::Arc;

use axum::response::Response;
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;

use crate::serve::Peer;
use crate::serve::http::{ALL, METAS, Service, observe, parse_query, respond};
use crate::serve::net::in_flight::Answer;
use crate::snapshot::Query;

/// Answers a request, if this is all there is to it.
pub(super) fn answer(
    service: &Service,
    request: &Request<Incoming>,
    peer: Peer,
    sending: &Arc<Answer>,
) -> Option<Response> {
    let method = request.method();
    if !matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    // Then each answer says that it depends on the origin.
    if service.shared {
        return None;
    }
    let (name, route) = read(request.uri().path())?;
    let query = match route {
        ALL => Query::default(),
        _ => parse_query(request.uri().query().unwrap_or_default()).ok()?,
    };
    // No catalog comes while its rules are looked at: they come first.
    let found = || service.catalogs.snapshot(name);
    let snapshot = service.access.if_open(name, found)?;
    let response = respond(&snapshot.select(&query), request, route == ALL);
    let status = response.status();
    if !status.is_success() && status != StatusCode::NOT_MODIFIED {
        return None;
    }
    let seen = observe::Seen {
        began: sending.began(),
        method,
        route,
        catalog: name,
        path: request.uri().path(),
    };
    seen.answered(&response, Some(sending), Some(peer));
    Some(response)
}

/// The catalog and the route of a path without escapes.
fn read(path: &str) -> Option<(&str, &'static str)> {
    let (name, below) = path.strip_prefix("/catalogs/")?.split_once('/')?;
    let route = match below {
        "api/v1/all" => ALL,
        "api/v1/metas" => METAS,
        _ => return None,
    };
    Some((name, route))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_are_read() {
        assert_eq!(read("/catalogs/a/api/v1/all"), Some(("a", ALL)));
        assert_eq!(read("/catalogs/a-b/api/v1/metas"), Some(("a-b", METAS)));
        for path in [
            "/",
            "/catalogs/a/api/v1/all/",
            "/catalogs//a/api/v1/all",
            "/catalogs/a/api/v1/%61ll",
            "/catalogs/a/b/api/v1/all",
            "/catalogs/a/api/v1/packages",
        ] {
            assert_eq!(read(path), None, "{path}");
        }
    }
}
