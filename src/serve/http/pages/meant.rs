//! Addresses that no page has, and the pages that they mean: shortened ones, those with
//! a slash at the end, and those with a typing error.

use http::header::{LOCATION, VARY};
use http::{HeaderName, HeaderValue, StatusCode};

use crate::answers::rest::records::percent_encoded;
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::pages::links;

/// A redirection for browsers.
type Redirection = (StatusCode, [(HeaderName, HeaderValue); 2]);

/// Leads from an address that has no page to one that has.
pub(super) fn redirection(
    problem: &Problem,
    path: &str,
    query: Option<&str>,
) -> Option<Redirection> {
    let (status, location) = match problem.kind() {
        "unknown-path" | "unknown-page" => match without_slash(path, query) {
            Some(shorter) => (StatusCode::PERMANENT_REDIRECT, shorter),
            // Such an address may have a page one day.
            None => (StatusCode::TEMPORARY_REDIRECT, page_of(path)?),
        },
        "missing-parameter" if path == "/compare/diff" && query.unwrap_or_default().is_empty() => {
            (StatusCode::TEMPORARY_REDIRECT, "/compare".to_owned())
        }
        _ => return None,
    };
    let location = HeaderValue::try_from(location).ok()?;
    let vary = HeaderValue::from_static("Accept");
    Some((status, [(LOCATION, location), (VARY, vary)]))
}

/// The address without a slash at its end, if it has one.
fn without_slash(path: &str, query: Option<&str>) -> Option<String> {
    let shorter = path.strip_suffix('/').filter(|path| !path.is_empty())?;
    // Two slashes at the beginning would name another host.
    if shorter.starts_with("//") {
        return None;
    }
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    Some(format!("{shorter}{query}"))
}

/// The page that is meant by the beginning of another address, or by a usual word in the
/// place of the one that pages have.
fn page_of(path: &str) -> Option<String> {
    let segments = links::segments(path)?;
    let segments: Vec<&str> = segments.iter().map(|segment| &**segment).collect();
    Some(match segments[..] {
        ["packages"] => "/search".to_owned(),
        ["packages", package, _] => links::across(package),
        ["apis", "core"] => "/apis".to_owned(),
        ["apis", group] => links::with("/apis", &[("q", group)]),
        ["api", "v1"] | ["catalogs", _, "api"] | ["catalogs", _, "api", "v1"] => "/api".to_owned(),
        [
            "catalogs",
            catalog,
            "packages" | "bundles" | "channels" | "icons",
        ] => links::catalog(catalog, ""),
        ["catalogs", catalog, "search"] => links::with("/search", &[("catalog", catalog)]),
        ["catalogs", catalog, "history"] => links::catalog(catalog, "/changes"),
        ["catalogs", catalog, "graphql"] => links::catalog(catalog, "/api/v1/graphql"),
        ["catalogs", _, page @ ("apis" | "compare" | "mirror")] => format!("/{page}"),
        ["catalogs", catalog, "packages", package, ref below @ ..] => match *below {
            ["bundles" | "channels" | "graph"] => links::tab(catalog, package, "versions"),
            ["plan"] => links::tab(catalog, package, "updates"),
            ["changes"] => links::tab(catalog, package, "history"),
            ["versions", bundle] => links::bundle(catalog, package, bundle),
            ["channels", channel] => {
                let versions = links::tab(catalog, package, "versions");
                links::with(&versions, &[("channel", channel)])
            }
            _ => return None,
        },
        _ => return None,
    })
}

/// Whether the problem is about a name of this kind. The detail may propose others.
pub(super) fn is_unknown(problem: &Problem, what: &str, name: &str) -> bool {
    let begin = format!("there is no {what} {:?}", cut(name));
    problem.detail().starts_with(&begin)
}

/// The address with a similar name in the place of the unknown one.
pub(super) fn similar(problem: &Problem, path: &str, name: &str) -> Option<String> {
    if problem.kind() == "unknown-page" {
        return Some(format!("{}/{name}", path.rsplit_once('/')?.0));
    }
    let what = problem.kind().strip_prefix("unknown-")?;
    let segments = links::segments(path)?;
    // Pairs of a word and a name, which may be such a word, too.
    let mut pairs = segments.chunks_exact(2);
    let at = pairs
        .position(|pair| pair[0] == format!("{what}s") && is_unknown(problem, what, &pair[1]))?;
    let mut raw: Vec<&str> = path.split('/').collect();
    let name = percent_encoded(name);
    // The first segment is empty.
    *raw.get_mut(2 * at + 2)? = &name;
    Some(raw.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_name_takes_the_place_of_the_unknown_one() {
        let path = "/catalogs/packages/packages/b%2Fc/versions";
        for (what, unknown, wanted) in [
            (
                "package",
                "b/c",
                Some("/catalogs/packages/packages/n%2F/versions"),
            ),
            (
                "catalog",
                "packages",
                Some("/catalogs/n%2F/packages/b%2Fc/versions"),
            ),
            // The name of a parameter is in none of the places.
            ("package", "other", None),
            ("catalog", "other", None),
            ("bundle", "b", None),
        ] {
            let problem = Problem::unknown(what, unknown, ["n/"]);
            let found = similar(&problem, path, "n/");
            assert_eq!(found.as_deref(), wanted, "{what} {unknown}");
        }
    }

    #[test]
    fn a_slash_at_the_end_is_left_out_and_leads_to_no_other_host() {
        let shorter = without_slash("/search/", Some("q=a"));
        assert_eq!(shorter.as_deref(), Some("/search?q=a"));
        for path in ["/", "/search", "//example.com/"] {
            assert_eq!(without_slash(path, None), None, "{path}");
        }
    }

    #[test]
    fn a_shortened_address_leads_to_the_page_that_it_means() {
        for (path, wanted) in [
            ("/packages", Some("/search")),
            ("/packages/a%2Fb/versions", Some("/packages/a%2Fb")),
            ("/apis/g.example.com", Some("/apis?q=g.example.com")),
            ("/catalogs/a/packages", Some("/catalogs/a")),
            (
                "/catalogs/a/packages/b/bundles",
                Some("/catalogs/a/packages/b/versions"),
            ),
            (
                "/catalogs/a/packages/b/channels/c+d",
                Some("/catalogs/a/packages/b/versions?channel=c%2Bd"),
            ),
            (
                "/catalogs/a/packages/b/versions/b.v1",
                Some("/catalogs/a/packages/b/bundles/b.v1"),
            ),
            ("/catalogs/a/api/v1", Some("/api")),
            ("/catalogs/a/packages/b/verions", None),
            ("/nowhere", None),
            ("//example.com", None),
        ] {
            assert_eq!(page_of(path).as_deref(), wanted, "{path}");
        }
    }
}
