//! Errors as pages, with the same sentence and suggestions as the problem that
//! programs get. Routes of the API keep their own errors.

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, VARY};
use http::{HeaderValue, Method, StatusCode};
use maud::html;

use crate::serve::http::encoding::accepts_named;
use crate::serve::http::pages::frame::{Page, render};
use crate::serve::http::pages::{links, mirror, policy, sign_in};
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::rejection::problem_of;

/// Turns errors into pages for browsers.
pub(in crate::serve::http) async fn describe(request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    let head = *request.method() == Method::HEAD;
    let wanted = is_get && accepts_named(request.headers(), "text/html") && !is_of_api(&path);
    let query = request.uri().query().map(str::to_owned);
    let safe = sign_in::is_safe(&request);
    let response = next.run(request).await;
    let status = response.status();
    if !wanted || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let Some(problem) = problem_of(&response) else {
        return response;
    };
    if problem.kind() == "unknown-path"
        && let Some(shorter) = without_slash(&path, query.as_deref())
    {
        let vary = HeaderValue::from_static("Accept");
        let headers = [(LOCATION, shorter), (VARY, vary)];
        return (StatusCode::PERMANENT_REDIRECT, headers).into_response();
    }
    let text = render(
        &page(&problem, &path, query.as_deref().unwrap_or_default()),
        None,
    );
    let (mut parts, _) = response.into_parts();
    parts
        .headers
        .insert(CONTENT_TYPE, HeaderValue::from_static(policy::HTML));
    parts
        .headers
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    parts.headers.insert(CONTENT_LENGTH, text.len().into());
    parts
        .headers
        .append(VARY, HeaderValue::from_static("Accept"));
    let body = if head {
        Body::empty()
    } else {
        Body::from(text)
    };
    let mut response = Response::from_parts(parts, body);
    policy::set(&mut response, false);
    if safe {
        sign_in::ask(&mut response);
    }
    response
}

/// The address without a slash at its end, if it has one.
fn without_slash(path: &str, query: Option<&str>) -> Option<HeaderValue> {
    let shorter = path.strip_suffix('/').filter(|path| !path.is_empty())?;
    // Two slashes at the beginning would name another host.
    if shorter.starts_with("//") {
        return None;
    }
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    HeaderValue::try_from(format!("{shorter}{query}")).ok()
}

/// Whether a path belongs to an API: its clients expect its own errors.
fn is_of_api(path: &str) -> bool {
    let below = |start: &str| path.starts_with(start);
    let of_catalog = path
        .strip_prefix("/catalogs/")
        .and_then(|rest| rest.split_once('/'))
        .is_some_and(|(_, below)| below == "api" || below.starts_with("api/"));
    of_catalog || below("/api/") || below("/v2") || below("/openapi.json")
}

fn page(problem: &Problem, path: &str, query: &str) -> Page {
    let near = problem.suggestions().iter();
    let near: Vec<_> = near
        .filter_map(|name| Some((name, beside(problem.kind(), path, name)?)))
        .collect();
    let body = html! {
        h1 { (problem.title()) }
        p.lead { (sentence(problem.detail())) }
        @if !near.is_empty() {
            h2 { "Similar names" }
            ul.links { @for (name, link) in &near { li { a href=(link) { (name) } } } }
        }
        @if path == "/mirror" { (mirror::removable(query)) }
        p { a href="/" { "All catalogs" } " · " a href="/search" { "All packages" } }
        p.soft { "Status " (problem.status()) }
    };
    Page::new(problem.title(), body)
}

/// The address with a similar name in the place of the unknown one.
fn beside(kind: &str, path: &str, name: &str) -> Option<String> {
    let what = match kind {
        "unknown-catalog" => "catalogs",
        "unknown-package" => "packages",
        "unknown-bundle" => "bundles",
        _ => return None,
    };
    let mut segments: Vec<String> = path.split('/').map(str::to_owned).collect();
    let at = segments.iter().position(|segment| segment == what)?;
    let place = segments.get_mut(at + 1)?;
    // Only the last segment of an address made of one name.
    let escaped = links::across(name);
    escaped.rsplit('/').next()?.clone_into(place);
    Some(segments.join("/"))
}

/// A detail with a capital at its beginning and a point at its end.
fn sentence(detail: &str) -> String {
    let mut signs = detail.chars();
    let mut text: String = signs
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    text.extend(signs);
    if !text.ends_with(['.', '?', '!']) {
        text.push('.');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_name_takes_the_place_of_the_unknown_one() {
        let path = "/catalogs/a/packages/b/versions";
        for (kind, wanted) in [
            (
                "unknown-package",
                Some("/catalogs/a/packages/n%2F/versions"),
            ),
            (
                "unknown-catalog",
                Some("/catalogs/n%2F/packages/b/versions"),
            ),
            ("unknown-bundle", None),
            ("busy", None),
        ] {
            assert_eq!(beside(kind, path, "n/").as_deref(), wanted, "{kind}");
        }
    }

    #[test]
    fn a_slash_at_the_end_is_left_out_and_leads_to_no_other_host() {
        let shorter = |path: &str, query| {
            let value = without_slash(path, query)?;
            Some(value.to_str().unwrap().to_owned())
        };
        assert_eq!(
            shorter("/search/", Some("q=a")).as_deref(),
            Some("/search?q=a")
        );
        for path in ["/", "/search", "//example.com/"] {
            assert_eq!(shorter(path, None), None, "{path}");
        }
    }

    #[test]
    fn routes_of_apis_keep_their_errors() {
        for path in [
            "/catalogs/a/api/v1/x",
            "/api/v1/search",
            "/v2/",
            "/openapi.json",
        ] {
            assert!(is_of_api(path), "{path}");
        }
        for path in [
            "/",
            "/api",
            "/apis/a/b",
            "/catalogs/api/packages/b",
            "/catalogs/a",
        ] {
            assert!(!is_of_api(path), "{path}");
        }
    }
}
