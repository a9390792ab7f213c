//! catalogd's GraphQL API: `/catalogs/{name}/api/v1/graphql`.
//!
//! `limits` checks a query before it runs, `variables` its variables, `handler`
//! runs it on a worker pool. Browsers get a page to write queries in (`page`).

mod handler;
mod limits;
mod page;
mod variables;

use axum::extract::MatchedPath;
use http::Method;
use http::request::Parts;

use crate::serve::http::encoding::accepts_named;

pub(crate) use handler::route;
pub(crate) use page::respond as page;

/// The route.
pub(crate) const GRAPHQL: &str = "/catalogs/{name}/api/v1/graphql";

/// Whether a request has a query.
pub(crate) fn is_query(parts: &Parts) -> bool {
    is_of_route(parts) && parts.method == Method::POST
}

fn is_of_route(parts: &Parts) -> bool {
    let route = parts.extensions.get::<MatchedPath>();
    route.is_some_and(|route| route.as_str() == GRAPHQL)
}

/// Whether a browser asks for the page.
pub(crate) fn wants_page(parts: &Parts) -> bool {
    is_of_route(parts)
        && matches!(parts.method, Method::GET | Method::HEAD)
        && accepts_named(&parts.headers, "text/html")
}
