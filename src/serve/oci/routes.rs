//! The routes below `/v2/`, with their metrics and log lines.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use http::header::X_CONTENT_TYPE_OPTIONS;
use http::{HeaderValue, Method};

use crate::serve::net::in_flight::InFlight;
use crate::serve::net::listen::Peer;
use crate::serve::oci::gate::Gate;
use crate::serve::oci::path::OciRequest;
use crate::serve::oci::registry::Registry;
use crate::serve::oci::rejection::OciRejection;
use crate::serve::request_metrics::{Labels, RequestMetrics};
use crate::snapshot::Images;

/// How much of a path is logged, in characters.
const MAX_PATH: usize = 256;

/// The routes below `/v2/`; `secure` says whether the port has TLS.
pub fn router(images: Images, gate: Gate, secure: bool) -> Router {
    let registry = Arc::new(Registry {
        images,
        gate,
        secure,
    });
    Router::new()
        .route("/v2", any(respond))
        .route("/v2/", any(respond))
        .route("/v2/{*path}", any(respond))
        .with_state(registry)
}

/// Responds, counts and logs.
async fn respond(State(registry): State<Arc<Registry>>, request: Request) -> Response {
    let began = Instant::now();
    // No request has a body; one that comes is ignored.
    let (request, _) = request.into_parts();
    let in_flight: Option<Arc<InFlight>> = request.extensions.get().cloned();
    let peer: Option<Peer> = request.extensions.get().copied();
    let path = request.uri.path();
    // `/v2` is the same as `/v2/`.
    let parsed = OciRequest::read(path.strip_prefix("/v2/").unwrap_or_default());
    let method = match request.method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    };
    let route = parsed.as_ref().map_or("/v2/*", OciRequest::route);
    let mut response = registry
        .respond(parsed, &request, peer.as_ref())
        .await
        .unwrap_or_else(OciRejection::into_response);
    let headers = response.headers_mut();
    headers.insert(
        "docker-distribution-api-version",
        HeaderValue::from_static("registry/2.0"),
    );
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let code = response.status().as_u16();
    let metrics = RequestMetrics::of(&Labels::Http {
        method,
        route: Cow::Borrowed(route),
        code,
        catalog: Cow::Borrowed(""),
        encoding: Cow::Borrowed("identity"),
    });
    metrics.count(began.elapsed().as_secs_f64());
    if let Some(in_flight) = in_flight {
        let path: String = path.chars().take(MAX_PATH).collect();
        in_flight.report(move |sent| {
            metrics.count_sent(sent.bytes);
            tracing::debug!(
                target: "almanac::access",
                method,
                path,
                code,
                peer = peer.map(|peer| tracing::field::display(peer.address)),
                bytes = sent.bytes,
                elapsed = ?sent.elapsed,
                "request"
            );
        });
    }
    response
}
