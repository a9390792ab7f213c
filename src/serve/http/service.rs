//! The service of the HTTP port: all routes with their layers.
//!
//! Plain requests for `all` and `metas` need no router: finding the route and passing
//! all layers takes longer than finding the response. Only successful responses are
//! made that way. The router handles everything else, and words the errors.

use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Router, middleware};
use http::header::{CACHE_CONTROL, ETAG, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Version};
use hyper::body::Incoming;

use crate::serve::access::Access;
use crate::serve::http::announced::{Gate, only_announced};
use crate::serve::http::api::description::Description;
use crate::serve::http::catalogd::content::{ALL, METAS, undamaged};
use crate::serve::http::catalogd::hint;
use crate::serve::http::cors::{self, Origins};
use crate::serve::http::guard::guard;
use crate::serve::http::options::PageOptions;
use crate::serve::http::pages::policy;
use crate::serve::http::query::parse_query;
use crate::serve::http::rejection::{self, HttpRejection};
use crate::serve::http::respond::respond;
use crate::serve::http::{observe, pages, path, routes};
use crate::serve::net::connection::RequestHandler;
use crate::serve::net::in_flight::InFlight;
use crate::serve::net::listen::Peer;
use crate::serve::observed::Observed;
use crate::snapshot::{Announcements, Catalogs, Comparing, Query};
use crate::store::damaged_uses;

/// The body of the response to a request with no host, or with several.
const NO_HOST: &str = "400 Bad Request: one Host header is required\n";

/// The service of the HTTP port. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    direct: Direct,
    /// All routes with their layers.
    router: Router,
    /// Whether caches have to ask before they answer.
    revalidated: bool,
}

impl Service {
    /// A service for all catalogs. `others` are further routes, of other APIs.
    /// `pages` says whether browsers get pages, and which. A catalog that a cluster
    /// names is answered at the digest in `announcements` only.
    pub fn new(
        catalogs: Catalogs,
        access: Access,
        origins: Origins,
        pages: PageOptions,
        announcements: Option<Arc<dyn Announcements>>,
        others: Router,
    ) -> Self {
        // With CORS, every response depends on the origin.
        let cors = origins != Origins::None;
        let has_announcements = announcements.is_some();
        let gate = announcements.map(|announcements| Gate {
            catalogs: catalogs.clone(),
            announcements,
        });
        let routes = router(catalogs.clone(), access.clone(), origins, pages, gate);
        Self {
            router: routes.merge(others),
            direct: Direct {
                catalogs,
                access,
                has_announcements,
                enabled: !cors,
            },
            revalidated: false,
        }
    }

    /// Whether responses with an entity tag tell caches to ask before they answer from
    /// what they have. A node alone tells them nothing: one header more costs time.
    #[must_use]
    pub fn revalidated(self, revalidated: bool) -> Self {
        Self {
            revalidated,
            ..self
        }
    }
}

impl Service {
    /// All routes, for callers in this process.
    pub fn into_routes(self) -> Router {
        self.router
    }
}

impl RequestHandler for Service {
    async fn handle(
        &self,
        request: Request<Incoming>,
        peer: Peer,
        in_flight: &Arc<InFlight>,
    ) -> Response {
        if !names_one_host(&request) {
            return (StatusCode::BAD_REQUEST, NO_HOST).into_response();
        }
        let mut response = match self.direct.respond(&request, peer, in_flight) {
            Some(response) => response,
            // The router's future is large, and this one is moved: so box it.
            None => Box::pin(self.router.handle(request, peer, in_flight)).await,
        };
        if self.revalidated {
            revalidate(response.headers_mut());
        }
        response
    }
}

/// Lets caches keep a response that has an entity tag, and ask before each use.
fn revalidate(headers: &mut HeaderMap) {
    if headers.contains_key(ETAG) && !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
}

/// The routes that need no router.
#[derive(Clone)]
struct Direct {
    catalogs: Catalogs,
    access: Access,
    has_announcements: bool,
    enabled: bool,
}

impl Direct {
    /// The response, if it is made without the router.
    fn respond(
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
        // To ask the cluster takes a while.
        if self.has_announcements && self.catalogs.is_announced(name) {
            return None;
        }
        let query = match route {
            ALL => Query::default(),
            // No query selects everything.
            _ => parse_query(request.uri().query().unwrap_or_default()).ok()?,
        };
        // A reload sets rules before it adds catalogs. So the catalog is looked
        // up while the rules cannot change.
        let find = || self.catalogs.snapshot(name);
        let snapshot = self.access.if_open(name, find)?;
        let selection = snapshot.select(&query);
        let before = damaged_uses();
        let responded = respond(&selection, request, route == ALL, Comparing::Few);
        let mut response = responded.ok()?;
        let status = response.status();
        let is_good = status.is_success() || status == StatusCode::NOT_MODIFIED;
        if !is_good || damaged_uses() != before {
            return None;
        }
        hint::add(&mut response, &selection, &query);
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

/// Whether a request of HTTP/1.1 has exactly one `Host` header (RFC 9112,
/// section 3.2). Proxies and servers that read several differently can be made
/// to confuse requests.
fn names_one_host<B>(request: &Request<B>) -> bool {
    request.version() != Version::HTTP_11 || request.headers().get_all(HOST).iter().count() == 1
}

fn router(
    catalogs: Catalogs,
    access: Access,
    origins: Origins,
    options: PageOptions,
    gate: Option<Gate>,
) -> Router {
    let with_pages = options.enabled;
    let blobs = routes::catalogd();
    let catalog_index = routes::catalogs();
    let mut queries = routes::queries();
    queries.extend(routes::queries_over_catalogs());
    let all = [&catalog_index, &blobs, &queries];
    let operations = all
        .into_iter()
        .flat_map(|routes| routes::operations(routes));
    let description = Arc::new(Description::new(operations.collect()));
    let mut index = routes::router(catalog_index);
    if with_pages {
        let instead = middleware::from_fn_with_state(catalogs.clone(), pages::instead);
        let pages = routes::pages().layer(middleware::from_fn(policy::add));
        index = index.layer(instead).merge(pages);
    }
    let routes = routes::router(blobs)
        .merge(index)
        .merge(routes::router(queries))
        .layer(Extension(description))
        .fallback(async || HttpRejection::UnknownPath)
        .layer(middleware::from_fn(undamaged));
    let routes = match gate {
        Some(gate) => routes.layer(middleware::from_fn_with_state(gate, only_announced)),
        None => routes,
    };
    let routes = routes
        .layer(middleware::from_fn_with_state(
            (access, catalogs.clone()),
            guard,
        ))
        .layer(middleware::from_fn(path::clean))
        .layer(middleware::from_fn(rejection::describe));
    let routes = if with_pages {
        let describe = middleware::from_fn_with_state(catalogs.clone(), pages::describe);
        routes.layer(describe)
    } else {
        routes
    };
    let routes = routes.layer(Extension(options));
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

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use futures_util::FutureExt as _;
    use tower::ServiceExt as _;

    use super::*;
    use crate::snapshot::Routing;
    use crate::snapshot::testing::Stored;

    #[tokio::test]
    async fn a_small_page_of_packages_waits_for_no_worker() {
        let stored = Stored::new(&"a".parse().unwrap(), "file:/a").await;
        let (catalogs, publishers) =
            Catalogs::new([("a".parse().unwrap(), Routing::default())], None);
        publishers[0].publish(stored.open());
        let (access, pages) = (Access::default(), PageOptions::default());
        let service = Service::new(catalogs, access, Origins::None, pages, None, Router::new());
        let path = "/catalogs/a/api/v1/packages";
        let request = Request::get(path).body(Body::empty()).unwrap();
        // Work on another thread would not end before the first look.
        let response = service.into_routes().oneshot(request).now_or_never();
        assert_eq!(response.unwrap().unwrap().status(), StatusCode::OK);
    }

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
