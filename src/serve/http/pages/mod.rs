//! Pages for people: every catalog, package, version and problem has an address.
//!
//! A page is rendered here as a whole; the script only adds comfort. It answers from
//! the same stored records as the JSON route that its footer links.
//!
//! - `request` runs a page on a worker, `frame` puts it between head and footer,
//!   `policy` adds the headers of all pages, `failure` makes pages of errors, `meant` leads from
//!   addresses without a page to those with one.
//! - `links` has the addresses, `parts` what several pages show, `pager` splits long lists, `markdown` renders texts of catalogs, `assets` sends files of this program.
//! - The other files are one page each; `package` has the pages of one package.

pub(super) mod across;
pub(super) mod api;
pub(super) mod apis;
pub(super) mod assets;
pub(super) mod bundle;
mod catalog;
pub(super) mod changes;
pub(super) mod compare;
mod failure;
mod frame;
mod home;
pub(super) mod icon;
mod links;
mod markdown;
mod meant;
pub(super) mod mirror;
pub(super) mod package;
mod pager;
mod parts;
pub(super) mod policy;
pub(super) mod problems;
mod request;
pub(super) mod search;
pub(super) mod sign_in;
mod text;

use axum::extract::{FromRequestParts as _, MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::Method;

use crate::serve::http::api::request::QueryRequest;
use crate::serve::http::encoding::accepts_named;
use crate::serve::http::headers::vary_by_accept;
use crate::snapshot::Catalogs;

pub(super) use failure::describe;
pub(crate) use text::date;

/// Answers browsers with the page of an address that programs read JSON from.
pub(crate) async fn instead(
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
