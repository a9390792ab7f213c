//! Plain requests for `all` and `metas` without the router: finding the route and
//! passing all layers takes longer than finding the response.
//!
//! Only successful responses are made here. The router handles everything else,
//! and words the errors.

use std::sync::Arc;

use axum::response::Response;
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;

use crate::serve::access::Access;
use crate::serve::http::content::{ALL, METAS};
use crate::serve::http::query::parse_query;
use crate::serve::http::respond::respond;
use crate::serve::net::in_flight::InFlight;
use crate::serve::net::listen::Peer;
use crate::serve::observed::Observed;
use crate::snapshot::{Catalogs, Query};

/// The routes that need no router.
#[derive(Clone)]
pub(super) struct Direct {
    pub(super) catalogs: Catalogs,
    pub(super) access: Access,
    pub(super) enabled: bool,
}

impl Direct {
    /// The response, if it can be made here.
    pub(super) fn respond(
        &self,
        request: &Request<Incoming>,
        peer: Peer,
        in_flight: &Arc<InFlight>,
    ) -> Option<Response> {
        let method = request.method();
        if !self.enabled || !matches!(*method, Method::GET | Method::HEAD) {
            return None;
        }
        let (name, route) = read(request.uri().path())?;
        let query = match route {
            ALL => Query::default(),
            // No query selects everything.
            _ => parse_query(request.uri().query().unwrap_or_default()).ok()?,
        };
        // A reload sets rules before it adds catalogs. So the catalog is looked
        // up while the rules cannot change.
        let find = || self.catalogs.snapshot(name);
        let snapshot = self.access.if_open(name, find)?;
        let response = respond(&snapshot.select(&query), request, route == ALL);
        let status = response.status();
        if !status.is_success() && status != StatusCode::NOT_MODIFIED {
            return None;
        }
        let observed = Observed {
            began: in_flight.began(),
            method,
            route,
            catalog: Some(name),
            path: request.uri().path(),
        };
        observed.responded(&response, Some(in_flight), Some(peer));
        Some(response)
    }
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
