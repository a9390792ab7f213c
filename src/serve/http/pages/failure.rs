//! Errors as pages, with the same sentence and suggestions as the problem that
//! programs get. Routes of the API keep their own errors.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method};
use maud::{Markup, html};

use crate::serve::access::Reader;
use crate::serve::http::api::parameters::MAX_PARAMETERS;
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::encoding::accepts_named;
use crate::serve::http::headers::vary_by_accept;
use crate::serve::http::options::PageOptions;
use crate::serve::http::pages::frame::{Around, Page, render};
use crate::serve::http::pages::package::subject::tabs;
use crate::serve::http::pages::parts::counted;
use crate::serve::http::pages::text::sentence;
use crate::serve::http::pages::{links, meant, mirror, policy, sign_in};
use crate::serve::http::problem_count::problem_count;
use crate::serve::http::query::unescape;
use crate::serve::http::rejection::problem_of;
use crate::snapshot::{Catalog, Catalogs};

/// Turns errors into pages for browsers.
pub(crate) async fn describe(
    State(catalogs): State<Catalogs>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path().to_owned();
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    let head = *request.method() == Method::HEAD;
    let is_browser = is_get && accepts_named(request.headers(), "text/html");
    let query = request.uri().query().map(str::to_owned);
    let safe = sign_in::is_safe(&request);
    let options = request.extensions().get::<PageOptions>().cloned();
    let response = next.run(request).await;
    let status = response.status();
    if !is_browser || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let Some(problem) = problem_of(&response) else {
        return response;
    };
    let of_api = is_of_api(&path);
    let redirection = meant::redirection(&problem, &path, query.as_deref());
    if let Some(redirection) = redirection.filter(|_| !of_api || !path.ends_with('/')) {
        return redirection.into_response();
    }
    if of_api {
        return response;
    }
    // Absent where the guard did not come to the request.
    let reader = response.extensions().get::<Reader>();
    let readable = reader.map_or_else(Vec::new, |reader| reader.catalogs(&catalogs));
    let around = Around {
        problems: problem_count(readable.iter().map(|one| &**one)),
        ..Around::default()
    };
    let tells_sources = options.unwrap_or_default().sources;
    let remarks = missing(&problem, &path, &readable, tells_sources);
    let query = query.as_deref().unwrap_or_default();
    let text = render(&page(&problem, &path, query, &remarks), &around);
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

/// Whether a path belongs to an API: its clients expect its own errors.
fn is_of_api(path: &str) -> bool {
    let below = |start: &str| path.starts_with(start);
    let of_catalog = path
        .strip_prefix("/catalogs/")
        .and_then(|rest| rest.split_once('/'))
        .is_some_and(|(_, below)| below == "api" || below.starts_with("api/"));
    of_catalog || below("/api/") || below("/v2") || below("/openapi.json")
}

/// More about a package that the catalog of the path lacks: whether the catalog is a
/// selection, and which others have the package.
fn missing(
    problem: &Problem,
    path: &str,
    readable: &[Arc<Catalog>],
    tells_sources: bool,
) -> Markup {
    let segments = links::segments(path).unwrap_or_default();
    let [first, name, _, package, ..] = &segments[..] else {
        return html! {};
    };
    if *first != "catalogs" || !meant::is_unknown(problem, "package", package) {
        return html! {};
    }
    let own = readable.iter().find(|one| one.name.as_str() == *name);
    let curated = own.filter(|one| tells_sources && one.status().source.starts_with("curated:"));
    let selected = curated.and_then(|one| Some(one.snapshot()?.packages().len()));
    let has = |one: &&Arc<Catalog>| {
        let snapshot = one.snapshot();
        snapshot.is_some_and(|snapshot| snapshot.package_answers(package).is_some())
    };
    let others: Vec<&Arc<Catalog>> = readable.iter().filter(has).collect();
    html! {
        @if let Some(selected) = selected {
            p { (name) " is a selection of " (counted(selected, "package")) " from other catalogs." }
        }
        @if !others.is_empty() {
            h2 { "In other catalogs" }
            ul.links { @for one in others {
                @let catalog = one.name.as_str();
                li { a href=(links::package(catalog, package)) { (catalog) " has " (package) } }
            } }
        }
    }
}

/// `remarks` tell more about the problem than programs get.
fn page(problem: &Problem, path: &str, query: &str, remarks: &Markup) -> Page {
    let pairs = pairs(query);
    let near = problem.suggestions().iter();
    let near: Vec<_> = near
        .filter_map(|name| {
            Some((
                name,
                meant::similar(problem, path, name)
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
        (remarks)
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
    let segments = links::segments(path).unwrap_or_default();
    let mut trail = vec![("Catalogs".to_owned(), "/".to_owned())];
    let ["catalogs", catalog, rest @ ..] =
        &segments.iter().map(|one| &**one).collect::<Vec<_>>()[..]
    else {
        return (Vec::new(), None);
    };
    // A parameter may be the unknown name, too.
    let known = match kind {
        "unknown-catalog" => !meant::is_unknown(problem, "catalog", catalog),
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
            "unknown-package" => !meant::is_unknown(problem, "package", package),
            _ => !matches!(kind, "not-loaded" | "blank"),
        };
        of_package = is_there.then(|| ((*catalog).to_owned(), (*package).to_owned()));
    } else if let Some(below) = rest.last() {
        trail.push(((*below).to_owned(), path.to_owned()));
    }
    (trail, of_package)
}

#[cfg(test)]
mod tests {
    use super::*;

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
