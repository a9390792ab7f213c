//! Access control of the HTTP API: a layer around every route below
//! `/catalogs/{name}/`, so that no route can be forgotten. A catalog that the client may not
//! read is answered like one that does not exist.

use axum::body::Body;
use axum::extract::{FromRequestParts as _, MatchedPath, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::WWW_AUTHENTICATE;
use http::request::Parts;
use http::{HeaderValue, StatusCode};

use crate::name::CatalogName;
use crate::serve::access::{Access, Denied, Reader, count_denied};
use crate::serve::http::api::problem::Problem;
use crate::serve::http::catalogd::graphql;
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
    if is_error(&response) {
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
            if !access.rules().admit(&name, reader.credentials()) {
                count_denied(&name);
            }
            let page =
                graphql::wants_page(&parts).then(|| graphql::page(&parts.extensions, catalogs));
            let is_query = graphql::is_query(&parts);
            let before = Decision::of(&name, access, catalogs, reader);
            if let Decision::Deny(denied) = before {
                return respond(denied, page);
            }
            // Some errors of GraphQL come with 200, before the catalog is looked for.
            let may_succeed = is_query && matches!(before, Decision::Hide);
            let response = next.run(Request::from_parts(parts, body)).await;
            // A reload may have added the catalog or its rule meanwhile.
            match Decision::of(&name, access, catalogs, reader) {
                Decision::Deny(denied) => respond(denied, page),
                Decision::Hide if !is_error(&response) && !may_succeed => {
                    absent(&name, catalogs, reader)
                }
                Decision::Pass | Decision::Hide => response,
            }
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

/// What becomes of a request for a catalog. It is the same for a catalog that the client
/// may not read and for one that does not exist.
enum Decision {
    /// The client may read the catalog or could until it was removed, or its name is
    /// malformed.
    Pass,
    /// The client has proved something, so it gets the error of its route for an absent
    /// catalog: routes find only catalogs that their client may read.
    Hide,
    /// The client has proved nothing.
    Deny(Denied),
}

impl Decision {
    fn of(name: &str, access: &Access, catalogs: &Catalogs, reader: &Reader) -> Self {
        if name.parse::<CatalogName>().is_err() {
            return Self::Pass;
        }
        let rules = access.rules();
        let credentials = reader.credentials();
        let exists = || catalogs.get(name).is_some() || catalogs.is_unavailable(name);
        if rules.admit(name, credentials) && (exists() || rules.was_open(name)) {
            Self::Pass
        } else if reader.is_known() {
            Self::Hide
        } else {
            Self::Deny(rules.denial(credentials))
        }
    }
}

fn is_error(response: &Response) -> bool {
    response.status().is_client_error() || response.status().is_server_error()
}

/// The error for an absent catalog.
fn absent(name: &str, catalogs: &Catalogs, reader: &Reader) -> Response {
    Problem::unknown_catalog(name, catalogs, reader).into_response()
}

/// The response to a client that has proved nothing. A browser may ask for the `page` of
/// GraphQL, which has a field for the token.
fn respond(denied: Denied, page: Option<Response>) -> Response {
    let (status, text, challenge) = match denied {
        Denied::TokenMissing => (
            StatusCode::UNAUTHORIZED,
            "a bearer token is needed, or there is no such catalog",
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
            "a client certificate is needed, or there is no such catalog",
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use axum::routing::{get, post};
    use axum::{Router, middleware};
    use http::Method;
    use http::header::AUTHORIZATION;
    use tower::ServiceExt as _;

    use super::*;
    use crate::serve::access::{AccessSettings, Rule};
    use crate::serve::http::catalogd::content::ALL;
    use crate::serve::http::catalogd::graphql::GRAPHQL;
    use crate::snapshot::{CatalogsPublisher, Routing};

    /// A catalog, with a rule that asks for this token.
    fn closed(name: &str, token: &str) -> (CatalogName, Rule) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), token).unwrap();
        let name: CatalogName = name.parse().unwrap();
        let settings = AccessSettings {
            token_files: vec![file.path().to_owned()],
            ..AccessSettings::default()
        };
        let (rule, _) = Rule::open(&name, &settings).unwrap();
        (name, rule)
    }

    /// The status for a client with the token of the catalog `other`, whose request makes
    /// the rules change to `later`.
    async fn status(
        (method, path): (Method, &str),
        later: &'static [(&'static str, &'static str)],
    ) -> StatusCode {
        let (publisher, catalogs) = CatalogsPublisher::new();
        let slots = ["a", "other"].map(|name| {
            let slot = publisher.slot(name.parse().unwrap(), Routing::default());
            Arc::new(slot.0)
        });
        publisher.set(slots, None);
        let access = Access::default();
        access.set([closed("other", "good")]);
        let changing = access.clone();
        let answer = move || async move {
            changing.set(later.iter().map(|(name, token)| closed(name, token)));
            "content"
        };
        let guard = middleware::from_fn_with_state((access, catalogs), guard);
        let routes = Router::new()
            .route(ALL, get(answer.clone()))
            .route(GRAPHQL, post(answer))
            .layer(guard);
        let request = Request::builder().method(method).uri(path);
        let request = request.header(AUTHORIZATION, "Bearer good");
        let response = routes.oneshot(request.body(Body::empty()).unwrap());
        response.await.unwrap().status()
    }

    #[tokio::test]
    async fn nobody_gets_content_of_a_catalog_that_was_restricted_meanwhile() {
        let unchanged = &[("other", "good")];
        let restricted = &[("other", "good"), ("a", "secret")];
        for (request, route) in [(Method::GET, "all"), (Method::POST, "graphql")] {
            let path = format!("/catalogs/a/api/v1/{route}");
            let asked = (request.clone(), &*path);
            assert_eq!(status(asked.clone(), unchanged).await, StatusCode::OK);
            assert_eq!(status(asked, restricted).await, StatusCode::NOT_FOUND);
        }
        // The response of the route for an absent catalog.
        let absent = (Method::POST, "/catalogs/absent/api/v1/graphql");
        assert_eq!(status(absent, restricted).await, StatusCode::OK);
    }
}
