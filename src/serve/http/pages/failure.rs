//! Errors as pages, with the same sentence and suggestions as the problem that
//! programs get. Routes of the API keep their own errors.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, VARY};
use http::{HeaderValue, Method, StatusCode};
use maud::{Markup, html};

use crate::serve::access::Reader;
use crate::serve::http::encoding::accepts_named;
use crate::serve::http::headers::vary_by_accept;
use crate::serve::http::pages::frame::{Around, Page, render};
use crate::serve::http::pages::package::subject::tabs;
use crate::serve::http::pages::text::sentence;
use crate::serve::http::pages::{links, mirror, policy, sign_in};
use crate::serve::http::problem_count::problem_count;
use crate::serve::http::queries::parameters::MAX_PARAMETERS;
use crate::serve::http::queries::problem::{Problem, cut};
use crate::serve::http::query::unescape;
use crate::serve::http::rejection::problem_of;
use crate::snapshot::Catalogs;

/// Turns errors into pages for browsers.
pub(in crate::serve::http) async fn describe(
    State(catalogs): State<Catalogs>,
    request: Request,
    next: Next,
) -> Response {
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
    // Absent where the guard did not come to the request.
    let reader = response.extensions().get::<Reader>();
    let around = Around {
        problems: reader.map_or(0, |reader| problem_count(reader.catalogs(&catalogs))),
        ..Around::default()
    };
    let text = render(
        &page(&problem, &path, query.as_deref().unwrap_or_default()),
        &around,
    );
    let (mut parts, _) = response.into_parts();
    parts
        .headers
        .insert(CONTENT_TYPE, HeaderValue::from_static(policy::HTML));
    parts
        .headers
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    parts.headers.insert(CONTENT_LENGTH, text.len().into());
    vary_by_accept(&mut parts.headers);
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
    let pairs = pairs(query);
    let near = problem.suggestions().iter();
    let near: Vec<_> = near
        .filter_map(|name| {
            Some((
                name,
                similar_address(problem.kind(), path, name)
                    .or_else(|| instead(problem, path, &pairs, name))?,
            ))
        })
        .collect();
    let (trail, of_package) = trail(problem, path);
    let body = html! {
        @if let Some((catalog, package)) = &of_package { (tabs(catalog, package, None, |_| 0)) }
        h1 { (problem.title()) }
        @if problem.kind() == "unknown-path" {
            p.lead { "There is no such page." }
        } @else {
            p.lead { (sentence(problem.detail())) }
        }
        @if problem.status() == 401 && path != "/sign-in" {
            p { a href="/sign-in" { "Sign in" } ": give the token of the catalog as the password; any user name will do." }
        }
        @if !near.is_empty() {
            h2 { "Similar names" }
            ul.links { @for (name, link) in &near { li { a href=(link) { (name) } } } }
        }
        (correction(problem, path, &pairs))
        @if path == "/mirror" { (mirror::removable(query, problem)) }
        @else if !query.is_empty() { p { a href=(path) { "The same page without parameters" } } }
        p { a href="/" { "All catalogs" } " · " a href="/search" { "All packages" } }
        p.soft { "Status " (problem.status()) }
    };
    Page::new(problem.title(), body).at(trail)
}

/// A form with the parameters of the address, where one of them is wrong or missing.
fn correction(problem: &Problem, path: &str, pairs: &[(String, String)]) -> Markup {
    let parameter = problem.parameter().unwrap_or_default();
    let is_unknown = problem.kind() == "unknown-parameter";
    let is_missing = problem.kind() == "missing-parameter";
    let is_wrong = |(key, value): &(String, String)| {
        (!is_unknown && key == parameter) || is_named(problem, value)
    };
    let wrong = !parameter.is_empty() || path == "/mirror" || pairs.iter().any(is_wrong);
    // The items of a basket have links of their own.
    let (items, fields): (Vec<_>, Vec<_>) = pairs
        .iter()
        .filter(|(key, _)| !(is_unknown && key == parameter) && key != "at")
        .take(MAX_PARAMETERS)
        .partition(|(key, _)| is_item(key));
    let has_fields = is_missing || fields.iter().any(|(key, _)| key != "fields");
    html! {
        @if wrong && has_fields {
            form.fields action=(path) {
                @for (_, value) in &items { input type="hidden" name="pick" value=(value); }
                @for pair in &fields {
                    label { (pair.0) " " input name=(pair.0) value=(pair.1) maxlength="1024" aria-invalid=[is_wrong(pair).then_some("true")]; }
                }
                @if is_missing && !pairs.iter().any(|(key, _)| key == parameter) {
                    label { (parameter) " " input name=(parameter) maxlength="1024"; }
                }
                button { "Try again" }
            }
        }
    }
}

/// Whether a parameter is an item of a basket.
fn is_item(key: &str) -> bool {
    matches!(key, "pick" | "add")
}

/// Whether this name is the unknown one. The detail may propose others.
fn is_unknown(problem: &Problem, what: &str, name: &str) -> bool {
    let begin = format!("there is no {what} {:?}", cut(name));
    problem.detail().starts_with(&begin)
}

/// Whether the detail of a problem names a value.
fn is_named(problem: &Problem, value: &str) -> bool {
    !value.is_empty() && problem.detail().contains(&format!("{:?}", cut(value)))
}

/// The parameters of a query, without those that are no text.
fn pairs(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.filter_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (key, value) = (unescape(key).ok()?, unescape(value).ok()?);
        Some((key.into_owned(), value.into_owned()))
    });
    pairs.collect()
}

/// The address with a similar name in the place of the unknown value of a parameter.
fn instead(
    problem: &Problem,
    path: &str,
    pairs: &[(String, String)],
    name: &str,
) -> Option<String> {
    let of_value = problem.kind().starts_with("unknown-") && problem.kind() != "unknown-parameter";
    // The items of a basket have links of their own.
    let mut all = pairs.iter();
    let at = all.position(|(key, value)| !is_item(key) && is_named(problem, value));
    let at = at.filter(|_| of_value)?;
    let mut all: Vec<(&str, &str)> = pairs
        .iter()
        .map(|(key, value)| (&**key, &**value))
        .collect();
    all[at].1 = name;
    Some(links::with(path, &all))
}

/// A text with its address.
type TextLink = (String, String);
/// A catalog and a package of it.
type PackageName = (String, String);

/// The path to a page of a catalog or of a package, as far as its names are known; and the
/// catalog and the package, if both are.
fn trail(problem: &Problem, path: &str) -> (Vec<TextLink>, Option<PackageName>) {
    let kind = problem.kind();
    let segments: Option<Vec<_>> = path
        .split('/')
        .skip(1)
        .map(|one| unescape(one).ok())
        .collect();
    let segments = segments.unwrap_or_default();
    let mut trail = vec![("Catalogs".to_owned(), "/".to_owned())];
    let ["catalogs", catalog, rest @ ..] =
        &segments.iter().map(|one| &**one).collect::<Vec<_>>()[..]
    else {
        return (Vec::new(), None);
    };
    // A parameter may be the unknown name, too.
    let known = match kind {
        "unknown-catalog" => !is_unknown(problem, "catalog", catalog),
        _ => !matches!(
            kind,
            "unknown-path" | "invalid-catalog-name" | "unavailable-catalog"
        ),
    };
    if !known {
        return (trail, None);
    }
    trail.push(((*catalog).to_owned(), links::catalog(catalog, "")));
    let mut of_package = None;
    if let ["packages", package, below @ ..] = rest {
        trail.push(((*package).to_owned(), links::package(catalog, package)));
        if let Some(below) = below.last() {
            trail.push(((*below).to_owned(), path.to_owned()));
        }
        // Without a kind, the client may not read the catalog.
        let is_there = match kind {
            "unknown-package" => !is_unknown(problem, "package", package),
            _ => !matches!(kind, "not-loaded" | "blank"),
        };
        of_package = is_there.then(|| ((*catalog).to_owned(), (*package).to_owned()));
    } else if let Some(below) = rest.last() {
        trail.push(((*below).to_owned(), path.to_owned()));
    }
    (trail, of_package)
}

/// The address with a similar name in the place of the unknown one.
fn similar_address(kind: &str, path: &str, name: &str) -> Option<String> {
    let what = match kind {
        "unknown-catalog" => "catalogs",
        "unknown-package" => "packages",
        "unknown-bundle" => "bundles",
        "unknown-page" => return Some(format!("{}/{name}", path.rsplit_once('/')?.0)),
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
            assert_eq!(
                similar_address(kind, path, "n/").as_deref(),
                wanted,
                "{kind}"
            );
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
