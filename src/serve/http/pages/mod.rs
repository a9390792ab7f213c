//! Pages for people: every catalog, package, version and problem has an address.
//!
//! A page is rendered here as a whole; the script only adds comfort. It answers from
//! the same stored records as the JSON route that its footer links.
//!
//! - `request` runs a page on a worker, `frame` puts it between head and footer,
//!   `policy` adds the headers of all pages, `failure` makes pages of errors, `meant` leads from
//!   addresses without a page to those with one.
//! - `links` has the addresses, `parts` what several pages show, `pager` splits long lists, `records` the stored
//!   answers as pages read them, `markdown` renders texts of catalogs, `assets` sends files of this program.
//! - The other files are one page each; `package` has the pages of one package.

mod across;
mod api;
mod apis;
mod assets;
mod bundle;
mod catalog;
mod changes;
mod compare;
mod failure;
mod frame;
mod home;
mod icon;
mod links;
mod markdown;
mod meant;
mod mirror;
mod package;
mod pager;
mod parts;
mod policy;
mod problems;
mod records;
mod request;
mod search;
mod sign_in;
mod text;

use axum::extract::{FromRequestParts as _, MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Router, middleware};
use http::Method;

use crate::serve::http::api::history;
use crate::serve::http::api::request::QueryRequest;
use crate::serve::http::encoding::accepts_named;
use crate::serve::http::headers::vary_by_accept;
use crate::snapshot::Catalogs;

pub(super) use failure::describe;
pub(crate) use text::date;

/// The routes that only pages have.
pub(super) fn routes() -> Router<Catalogs> {
    Router::new()
        .route("/search", any(search::show))
        .route("/suggest", any(search::suggest))
        .route("/apis", any(apis::list))
        .route("/apis/{group}/{kind}", any(apis::one))
        .route("/compare", any(compare::matrix))
        .route("/compare/diff", any(compare::diff))
        .route("/changes", any(changes::of_all))
        .route("/problems", any(problems::of_all))
        .route("/mirror", any(mirror::show))
        .route("/api", any(api::show))
        .route("/packages/{package}", any(across::show))
        .route("/catalogs/{name}/changes", any(changes::of_one))
        .route("/catalogs/{name}/changes.atom", any(history::atom))
        .route("/catalogs/{name}/problems", any(problems::of_one))
        .route("/catalogs/{name}/icons/{digest}", any(icon::show))
        .merge(package::routes())
        .route(
            "/catalogs/{name}/packages/{package}/bundles/{bundle}",
            any(bundle::show),
        )
        .route("/assets/{hash}/{name}", any(assets::show))
        .route("/sign-in", any(sign_in::show))
        .route("/robots.txt", any(assets::robots))
        .route("/opensearch.xml", any(assets::opensearch))
        .layer(middleware::from_fn(policy::add))
}

/// Answers browsers with the page of an address that programs read JSON from.
pub(super) async fn instead(
    State(catalogs): State<Catalogs>,
    request: Request,
    next: Next,
) -> Response {
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map(MatchedPath::as_str);
    let of_catalog = route.is_some_and(|route| route.contains("{name}"));
    let has_page = of_catalog || matches!(route, Some("/" | "/catalogs"));
    let mut response = if has_page && is_get && accepts_named(request.headers(), "text/html") {
        let authorized = policy::is_private(&request);
        let (mut parts, _) = request.into_parts();
        let request = QueryRequest::from_request_parts(&mut parts, &catalogs).await;
        let mut response = match request {
            Ok(request) if of_catalog => catalog::show(request).await,
            Ok(request) => home::show(request).await,
            Err(problem) => problem.into_response(),
        };
        policy::set(&mut response, authorized);
        response
    } else {
        next.run(request).await
    };
    vary_by_accept(response.headers_mut());
    response
}
