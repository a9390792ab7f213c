//! The routes below `/v2/`, with their metrics and log lines.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use http::HeaderValue;
use http::header::X_CONTENT_TYPE_OPTIONS;
use tokio::time::Instant;

use crate::serve::net::in_flight::InFlight;
use crate::serve::net::listen::Peer;
use crate::serve::observed::Observed;
use crate::serve::oci::gate::Gate;
use crate::serve::oci::path::OciRequest;
use crate::serve::oci::registry::Registry;
use crate::serve::oci::rejection::OciRejection;
use crate::snapshot::Images;

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
    let observed = Observed {
        began,
        method: &request.method,
        route,
        catalog: None,
        path,
    };
    observed.responded(&response, in_flight.as_ref(), peer);
    response
}
