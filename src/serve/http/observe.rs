//! Metrics and log lines of HTTP requests, and the time limit of a response.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use tokio::time::Instant;

use crate::serve::http::catalogd::content::{ALL, METAS};
use crate::serve::http::catalogd::graphql::GRAPHQL;
use crate::serve::http::guard::CatalogRoute;
use crate::serve::http::rejection::HttpRejection;
use crate::serve::net::in_flight::InFlight;
use crate::serve::net::listen::Peer;
use crate::serve::observed::Observed;
use crate::snapshot::Catalogs;

/// How long it may take until a response begins, reading the request's body
/// included.
const TIMEOUT: Duration = Duration::from_mins(1);
/// The response after that time.
const TIMED_OUT: HttpRejection = HttpRejection::Text(
    StatusCode::SERVICE_UNAVAILABLE,
    "the answer took too long, try again later",
);

/// The label of a route. Those of a catalog count for each catalog, so all that catalogd does
/// not have share two.
fn label(route: &str) -> &str {
    match route {
        ALL | METAS | GRAPHQL => route,
        query if query.starts_with("/catalogs/{name}/api/v1/") => "/catalogs/{name}/api/v1/*",
        page if page.starts_with("/catalogs/{name}") => "/catalogs/{name}/*",
        other => other,
    }
}

pub(super) async fn observe(
    State(catalogs): State<Catalogs>,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let in_flight: Option<Arc<InFlight>> = request.extensions().get().cloned();
    let peer: Option<Peer> = request.extensions().get().copied();
    let route = request.extensions().get::<MatchedPath>();
    let route = label(route.map_or("unknown", MatchedPath::as_str)).to_owned();
    let (mut parts, body) = request.into_parts();
    let catalog_route = CatalogRoute::of(&mut parts).await;
    let request = Request::from_parts(parts, body);
    // Names that clients make up must not become labels.
    let catalog = match &catalog_route {
        CatalogRoute::Named(name) => catalogs.get(name),
        CatalogRoute::Invalid | CatalogRoute::Elsewhere => None,
    };
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let response = tokio::time::timeout(TIMEOUT, next.run(request)).await;
    let response = response.unwrap_or_else(|_| TIMED_OUT.into_response());
    let observed = Observed {
        began,
        method: &method,
        route: &route,
        catalog: Some(catalog.as_ref().map_or("", |one| one.name.as_str())),
        path: &path,
    };
    observed.responded(&response, in_flight.as_ref(), peer);
    response
}
