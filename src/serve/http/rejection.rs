//! Error responses: with catalogd's texts, or as `application/problem+json`
//! (RFC 9457) for clients that accept it.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};

use crate::name::{CatalogName, NameError};
use crate::serve::http::api::problem::Problem;
use crate::serve::http::encoding::accepts_named;
use crate::serve::http::headers::{RETRY_SECONDS, no_sniffing, vary_by_accept};

/// The media type of problems.
const PROBLEM: &str = "application/problem+json";

/// Why a request is rejected. The texts begin with catalogd's.
#[derive(Clone, Debug)]
pub(super) enum HttpRejection {
    UnknownPath,
    /// The method is not one of these.
    Method(&'static str),
    /// The escapes of the path are not UTF-8.
    Path,
    /// The query of `metas` is malformed or has unknown keys.
    Query,
    Name(NameError),
    /// There is no such catalog, or it is set unavailable.
    UnknownCatalog(Box<Problem>),
    NotLoaded(CatalogName),
    /// The cluster announces another digest than the one that is served.
    NotAnnounced(CatalogName),
    /// Any other reason, with its text.
    Text(StatusCode, &'static str),
}

impl HttpRejection {
    fn status(&self) -> StatusCode {
        match self {
            Self::UnknownPath | Self::UnknownCatalog(_) => StatusCode::NOT_FOUND,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Path | Self::Query | Self::Name(_) => StatusCode::BAD_REQUEST,
            Self::NotLoaded(_) | Self::NotAnnounced(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Text(status, _) => *status,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::UnknownPath => "404 page not found".into(),
            Self::Method(_) => "Method Not Allowed".into(),
            Self::Path => "invalid catalog name: it is no UTF-8".into(),
            Self::Query => "400 Bad Request".into(),
            Self::Name(error) => format!("invalid catalog name: {error}"),
            // catalogd's line, then the names of catalogs.
            Self::UnknownCatalog(problem) => format!("404 Not Found\n{}", problem.detail()),
            Self::NotLoaded(name) => format!("catalog {name} is not loaded yet"),
            Self::NotAnnounced(name) => {
                format!("the announced digest of the catalog {name} is not loaded yet")
            }
            Self::Text(_, text) => (*text).into(),
        }
    }

    fn problem(self) -> Problem {
        let status = self.status();
        match self {
            Self::UnknownPath => {
                let detail = "there is no such path; /openapi.json lists the paths";
                Problem::new(status, "unknown-path", detail)
            }
            Self::Path => Problem::path(),
            Self::Method(_) => Problem::plain(
                status,
                "this path has other methods; /openapi.json lists them",
            ),
            Self::Query => {
                let detail =
                    "the query is malformed, or has other keys than schema, package and name";
                Problem::new(status, "invalid-query", detail)
            }
            Self::Name(error) => Problem::catalog_name(error),
            Self::UnknownCatalog(problem) => *problem,
            Self::NotLoaded(name) | Self::NotAnnounced(name) => Problem::not_loaded(&name),
            Self::Text(_, text) => Problem::plain(status, text),
        }
    }
}

impl IntoResponse for HttpRejection {
    fn into_response(self) -> Response {
        let status = self.status();
        let mut response = (status, format!("{}\n", self.text())).into_response();
        let headers = response.headers_mut();
        no_sniffing(headers);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static(RETRY_SECONDS));
        }
        // catalogd omits it; RFC 9110 (section 15.5.6) requires it.
        if let Self::Method(allowed) = self {
            headers.insert(ALLOW, HeaderValue::from_static(allowed));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// The problem of an error response, if it has one.
pub(super) fn problem_of(response: &Response) -> Option<Problem> {
    let extensions = response.extensions();
    let rejection = extensions.get::<HttpRejection>().cloned();
    rejection
        .map(HttpRejection::problem)
        .or_else(|| extensions.get::<Problem>().cloned())
}

/// Turns rejections into problems for clients that accept them.
pub(super) async fn describe(request: Request, next: Next) -> Response {
    // A client that accepts anything gets the text, as from catalogd.
    let named = accepts_named(request.headers(), PROBLEM);
    let own = is_of_own_api(request.uri().path());
    let mut response = next.run(request).await;
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE);
    let plain = kind.is_none_or(|kind| kind.as_bytes().starts_with(b"text/plain"));
    if !(status.is_client_error() || status.is_server_error()) || !plain {
        return response;
    }
    let unknown = matches!(
        response.extensions().get::<HttpRejection>(),
        Some(HttpRejection::UnknownPath)
    );
    if named || (own && unknown) {
        let rejection = response.extensions_mut().remove::<HttpRejection>();
        // The problem does not know which methods the route has.
        let allowed = response.headers().get(ALLOW).cloned();
        let problem = match rejection {
            Some(rejection) => rejection.problem(),
            None => Problem::plain(status, detail(status)),
        };
        let (mut parts, _) = response.into_parts();
        let problem = problem.into_response();
        let (mut described, body) = problem.into_parts();
        if let Some(allowed) = allowed {
            described.headers.insert(ALLOW, allowed);
        }
        parts.headers.extend(described.headers);
        parts.extensions.extend(described.extensions);
        parts.headers.remove(http::header::CONTENT_LENGTH);
        response = Response::from_parts(parts, body);
    }
    vary_by_accept(response.headers_mut());
    response
}

/// Whether a path belongs to the queries, which catalogd does not have. Its clients
/// ask for three paths of a catalog, and get its texts for all others.
fn is_of_own_api(path: &str) -> bool {
    let own = |below: &str| {
        let first = below.split('/').next().unwrap_or_default();
        !first.is_empty() && !["all", "metas", "graphql"].contains(&first)
    };
    if let Some(below) = path.strip_prefix("/api/v1/") {
        return own(below);
    }
    let Some((name, below)) = path
        .strip_prefix("/catalogs/")
        .and_then(|path| path.split_once('/'))
    else {
        return false;
    };
    let is_query = below.strip_prefix("api/v1/").is_some_and(own);
    !name.is_empty() && (below.is_empty() || is_query)
}

/// The detail of a response without a text.
fn detail(status: StatusCode) -> &'static str {
    match status {
        StatusCode::PRECONDITION_FAILED => "a precondition of the request does not hold",
        StatusCode::RANGE_NOT_SATISFIABLE => "the requested range lies outside of the response",
        _ => "the request cannot be answered",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_catalogd_get_its_texts_where_they_ask() {
        for path in [
            "/catalogs/a/",
            "/catalogs/a/api/v1/nope",
            "/catalogs/a/api/v1/package/b",
            "/api/v1/package/b",
        ] {
            assert!(is_of_own_api(path), "{path}");
        }
        for path in [
            "/",
            "/nope",
            "/catalogs/",
            "/catalogs//",
            "/catalogs/a",
            "/catalogs/a/api/v1/",
            "/catalogs/a/api/v1/all/",
            "/catalogs/a/api/v1/metas/b",
            "/catalogs/a/api/v1/graphql/",
            "/catalogs/a/api/v2/all",
            "/a/api/v1/nope",
        ] {
            assert!(!is_of_own_api(path), "{path}");
        }
    }
}
