//! Access control of the HTTP API: a layer around every route below
//! `/catalogs/{name}/`, so that no route can be forgotten.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts as _, MatchedPath, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::WWW_AUTHENTICATE;
use http::request::Parts;
use http::{HeaderValue, StatusCode};

use crate::serve::access::{Access, Denied, Reader, count_denied};
use crate::serve::http::graphql;
use crate::serve::http::rejection::HttpRejection;
use crate::serve::net::listen::Peer;
use crate::snapshot::Catalogs;

/// Routes whose first parameter is the name of a catalog begin with this.
const CATALOGS: &str = "/catalogs/{";

/// The part of the API that a request is for.
pub(super) enum CatalogRoute {
    /// A route of the catalog of this name, which may not exist.
    Named(String),
    /// A route of a catalog whose name is not UTF-8.
    Invalid,
    /// Any other path.
    Elsewhere,
}

impl CatalogRoute {
    /// Reads the name as the routes do, escapes included.
    pub(super) async fn of(parts: &mut Parts) -> Self {
        let route = parts.extensions.get::<MatchedPath>();
        if !route.is_some_and(|route| route.as_str().starts_with(CATALOGS)) {
            return Self::Elsewhere;
        }
        let Ok(parameters) = RawPathParams::from_request_parts(parts, &()).await else {
            return Self::Invalid;
        };
        match parameters.iter().next() {
            Some((_, name)) => Self::Named(name.to_owned()),
            None => Self::Invalid,
        }
    }
}

/// Passes requests for a catalog on to its route if they may read it.
pub(super) async fn guard(
    State((access, catalogs)): State<(Access, Catalogs)>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let certified = (parts.extensions.get::<Peer>()).is_some_and(|peer| peer.certified);
    let reader = Reader::of(&access, &parts.headers, certified);
    // Handlers name only the catalogs that the client may read.
    parts.extensions.insert(reader.clone());
    let mut response = guarded(parts, body, next, (&access, &catalogs), &reader).await;
    if response.status().is_client_error() || response.status().is_server_error() {
        // So do pages of errors, which are made outside of this layer.
        response.extensions_mut().insert(reader);
    }
    response
}

async fn guarded(
    mut parts: Parts,
    body: Body,
    next: Next,
    (access, catalogs): (&Access, &Catalogs),
    reader: &Reader,
) -> Response {
    match CatalogRoute::of(&mut parts).await {
        CatalogRoute::Elsewhere => next.run(Request::from_parts(parts, body)).await,
        CatalogRoute::Named(name) => {
            let page =
                graphql::wants_page(&parts).then(|| graphql::page(&parts.extensions, catalogs));
            let rules = access.rules();
            if let Err(denied) = rules.check(&name, reader.credentials()) {
                return respond(&name, denied, page);
            }
            let response = next.run(Request::from_parts(parts, body)).await;
            // A reload may have added the catalog and its rule meanwhile.
            let now = access.rules();
            if !Arc::ptr_eq(&rules, &now)
                && let Err(denied) = now.check(&name, reader.credentials())
            {
                return respond(&name, denied, page);
            }
            response
        }
        CatalogRoute::Invalid => {
            let response = next.run(Request::from_parts(parts, body)).await;
            // Every route rejects such a name. One that did not would bypass
            // the rules.
            if response.status().is_success() {
                StatusCode::BAD_REQUEST.into_response()
            } else {
                response
            }
        }
    }
}

/// The response to a client that may not read a catalog. A browser may ask for the `page`
/// of GraphQL, which has a field for the token.
fn respond(catalog: &str, denied: Denied, page: Option<Response>) -> Response {
    count_denied(catalog);
    let (status, text, challenge) = match denied {
        Denied::TokenMissing => (
            StatusCode::UNAUTHORIZED,
            "a bearer token is needed",
            Some("Bearer realm=\"almanac\""),
        ),
        Denied::TokenInvalid => (
            StatusCode::UNAUTHORIZED,
            "the token is not valid",
            Some("Bearer realm=\"almanac\", error=\"invalid_token\""),
        ),
        // No header would help, so there is no challenge.
        Denied::CertificateMissing => (
            StatusCode::FORBIDDEN,
            "a client certificate is needed",
            None,
        ),
    };
    let mut response = HttpRejection::Text(status, text).into_response();
    if let Some(challenge) = challenge {
        if let Some(page) = page {
            response = page;
            *response.status_mut() = status;
        }
        let challenge = HeaderValue::from_static(challenge);
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}
