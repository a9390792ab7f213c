//! The service of the HTTP port: all routes with their layers.

use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Router, middleware};
use http::header::HOST;
use http::{StatusCode, Version};
use hyper::body::Incoming;

use crate::serve::access::Access;
use crate::serve::http::content::{ALL, METAS, all, metas};
use crate::serve::http::cors::{self, Origins};
use crate::serve::http::direct::Direct;
use crate::serve::http::guard::guard;
use crate::serve::http::rejection::{self, HttpRejection};
use crate::serve::http::{graphql, observe, path, queries};
use crate::serve::net::connection::RequestHandler;
use crate::serve::net::in_flight::InFlight;
use crate::serve::net::listen::Peer;
use crate::snapshot::Catalogs;

/// The body of the response to a request with no host, or with several.
const NO_HOST: &str = "400 Bad Request: one Host header is required\n";

/// The service of the HTTP port. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    direct: Direct,
    /// All routes with their layers.
    router: Router,
}

impl Service {
    /// A service for all catalogs. `others` are further routes, of other APIs.
    pub fn new(catalogs: Catalogs, access: Access, origins: Origins, others: Router) -> Self {
        // With CORS, every response depends on the origin.
        let cors = origins != Origins::None;
        Self {
            router: router(catalogs.clone(), access.clone(), origins).merge(others),
            direct: Direct {
                catalogs,
                access,
                enabled: !cors,
            },
        }
    }
}

impl RequestHandler for Service {
    async fn handle(
        &self,
        request: http::Request<Incoming>,
        peer: Peer,
        in_flight: &Arc<InFlight>,
    ) -> Response {
        if !names_one_host(&request) {
            return (StatusCode::BAD_REQUEST, NO_HOST).into_response();
        }
        match self.direct.respond(&request, peer, in_flight) {
            Some(response) => response,
            // The router's future is large, and this one is moved: so box it.
            None => Box::pin(self.router.handle(request, peer, in_flight)).await,
        }
    }
}

/// Whether a request of HTTP/1.1 has exactly one `Host` header (RFC 9112,
/// section 3.2). Proxies and servers that read several differently can be made
/// to confuse requests.
fn names_one_host<B>(request: &http::Request<B>) -> bool {
    request.version() != Version::HTTP_11 || request.headers().get_all(HOST).iter().count() == 1
}

fn router(catalogs: Catalogs, access: Access, origins: Origins) -> Router {
    let routes = Router::new()
        .route(ALL, any(all))
        .route(METAS, any(metas))
        .merge(queries::routes())
        .route("/catalogs/{name}/api/v1/graphql", graphql::route())
        .fallback(async || HttpRejection::UnknownPath)
        .layer(middleware::from_fn_with_state(access, guard))
        .layer(middleware::from_fn(path::clean))
        .layer(middleware::from_fn(rejection::describe));
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
