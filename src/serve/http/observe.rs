//! Metrics and log lines of HTTP requests, and the time limit of a response.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::CONTENT_ENCODING;
use http::{Method, StatusCode};
use tokio::time::Instant;

use crate::serve::http::catalog_route::CatalogRoute;
use crate::serve::http::rejection::HttpRejection;
use crate::serve::net::in_flight::InFlight;
use crate::serve::net::listen::Peer;
use crate::serve::request_metrics::{Labels, RequestMetrics};
use crate::snapshot::Catalogs;

/// How long it may take until a response begins, reading the request's body
/// included.
const TIMEOUT: Duration = Duration::from_mins(1);
/// The response after that time.
const TIMED_OUT: HttpRejection = HttpRejection::Text(
    StatusCode::SERVICE_UNAVAILABLE,
    "the answer took too long, try again later",
);
/// How much of a path is logged, in characters.
const MAX_PATH: usize = 256;

pub(super) async fn observe(
    State(catalogs): State<Catalogs>,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let in_flight: Option<Arc<InFlight>> = request.extensions().get().cloned();
    let peer: Option<Peer> = request.extensions().get().copied();
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("unknown", MatchedPath::as_str).to_owned();
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
        catalog: catalog.as_ref().map_or("", |catalog| catalog.name.as_str()),
        path: &path,
    };
    observed.responded(&response, in_flight.as_ref(), peer);
    response
}

/// A request whose response is ready to send.
pub(super) struct Observed<'a> {
    pub(super) began: Instant,
    pub(super) method: &'a Method,
    pub(super) route: &'a str,
    /// The name of an existing catalog, or empty.
    pub(super) catalog: &'a str,
    pub(super) path: &'a str,
}

impl Observed<'_> {
    /// Counts it, and logs it once the response is sent.
    pub(super) fn responded(
        &self,
        response: &Response,
        in_flight: Option<&Arc<InFlight>>,
        peer: Option<Peer>,
    ) {
        let method = method_label(self.method);
        let code = response.status().as_u16();
        let encoding = response.headers().get(CONTENT_ENCODING);
        let encoding = encoding.and_then(|encoding| encoding.to_str().ok());
        let metrics = RequestMetrics::of(&Labels::Http {
            method,
            route: Cow::Borrowed(self.route),
            code,
            catalog: Cow::Borrowed(self.catalog),
            encoding: Cow::Borrowed(encoding.unwrap_or("identity")),
        });
        metrics.count(self.began.elapsed().as_secs_f64());
        let Some(in_flight) = in_flight else { return };
        // The log line costs more than the counters, and is off by default.
        if !tracing::enabled!(target: "almanac::access", tracing::Level::DEBUG) {
            in_flight.count_bytes(metrics);
            return;
        }
        let path: String = self.path.chars().take(MAX_PATH).collect();
        let catalog = self.catalog.to_owned();
        in_flight.report(move |sent| {
            metrics.count_sent(sent.bytes);
            tracing::debug!(
                target: "almanac::access",
                method,
                path,
                catalog,
                code,
                peer = peer.map(|peer| tracing::field::display(peer.address)),
                bytes = sent.bytes,
                elapsed = ?sent.elapsed,
                "request"
            );
        });
    }
}

/// The label of a method: clients can make up methods.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
