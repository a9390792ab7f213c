//! Kinds, and the packages that provide them in all catalogs.

use std::collections::{BTreeMap, BTreeSet};

use axum::response::Response;
use maud::html;

use crate::serve::http::api::across::problems::{kinds, near_kinds};
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::api::request::{QueryRequest, SCANS};
use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::pager::Part;
use crate::serve::http::pages::parts::{counted, empty, table};
use crate::serve::http::pages::{links, request};

/// How many kinds a page lists.
const ROWS: usize = 300;

/// The versions of an API, and the catalogs with the number of bundles.
type Found<'a> = (BTreeSet<&'a str>, BTreeMap<&'a str, usize>);

/// All kinds, or those with a word in their names.
pub(crate) async fn list(request: QueryRequest) -> Response {
    request::run(request, &SCANS, &["q", "page"], |query| {
        let words = query.parameters.get("q").unwrap_or_default();
        let kinds = kinds(query);
        let part = Part::of(query.parameters.get("page"), kinds.len(), ROWS)?;
        let shown = kinds.iter().skip(part.items.start).take(ROWS);
        let body = html! {
            h1 { "APIs" }
            p.lead { "Which package provides a kind." }
            form.inline {
                label { "Kind or group " input type="search" name="q" value=(words) maxlength="200"; }
                button { "Find" }
            }
            @if kinds.is_empty() {
                @let near = near_kinds(query);
                (empty(html! {
                    p { "No package of any catalog provides such a kind. " a href="/apis" { "All kinds" } }
                    @if !near.is_empty() {
                        p { "Similar kinds: " @for kind in &near { a href=(links::with("/apis", &[("q", kind)])) { (kind) } " " } }
                    }
                }))
            } @else {
                p { (counted(kinds.len(), "kind")) }
                (table("Kinds", &["Kind", "Group"], html! {
                    @for (kind, group) in shown {
                        tr { th scope="row" { a href=(links::kind(group, kind)) { (kind) } } td { code { (group) } } }
                    }
                }))
                (part.links(|number| links::with("/apis", &[("q", words), ("page", number)])))
            }
        };
        Ok(Page::new("APIs", body).twin(links::with("/api/v1/kinds", &[("q", words)])))
    })
    .await
}

/// One kind and its providers.
pub(crate) async fn one(request: QueryRequest) -> Response {
    request::run(request, &SCANS, &[], |query| {
        let (written, kind) = (query.path("group"), query.path("kind"));
        let group = if written == "core" { "" } else { written };
        let mut found: BTreeMap<&str, Found<'_>> = BTreeMap::new();
        for (catalog, snapshot) in query.loaded() {
            for provided in snapshot.provided(|api| api.kind == kind && api.group == group) {
                let (versions, catalogs) = found.entry(provided.package).or_default();
                versions.insert(&provided.api.version);
                *catalogs.entry(catalog.as_str()).or_default() += 1;
            }
        }
        if found.is_empty() {
            let apis = || query.loaded().flat_map(|(_, snapshot)| snapshot.apis());
            let groups: BTreeSet<&str> = apis()
                .filter(|api| api.kind == kind)
                .map(|api| api.group.as_str())
                .collect();
            if !groups.is_empty() {
                return Err(Problem::unknown("group", written, groups).remarking(&format!(
                    "these groups have a kind {:?}",
                    cut(kind)
                )));
            }
            let apis = apis();
            return Err(Problem::unknown("kind", kind, apis.map(|api| api.kind.as_str())));
        }
        let body = html! {
            h1 { (kind) " " code { (group) } }
            (table("Providers", &["Package", "Versions of the API", "Catalogs"], html! {
                @for (package, (versions, catalogs)) in &found {
                    tr {
                        th scope="row" { a href=(links::across(package)) { (package) } }
                        td { @for version in versions { code { (version) } " " } }
                        td { @for (catalog, bundles) in catalogs {
                            a href=(links::tab(catalog, package, "apis")) { (catalog) } " (" (bundles) ") "
                        } }
                    }
                }
            }))
            p.soft { "In brackets: how many versions of the package provide it." }
        };
        let twin = links::with("/api/v1/providers", &[("group", group), ("kind", kind), ("by", "package")]);
        let trail = [
            ("APIs".to_owned(), "/apis".to_owned()),
            (format!("{kind} {group}"), links::kind(written, kind)),
        ];
        Ok(Page::new(format!("{kind} {group}"), body).at(trail).twin(twin))
    })
    .await
}
