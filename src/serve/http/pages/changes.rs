//! Changes by updates: of all catalogs, of one, or of one package.

use std::collections::BTreeMap;

use axum::response::Response;
use maud::{Markup, html};
use tokio::runtime::Handle;

use crate::answers::changes::{Change, Kind, sentence};
use crate::serve::http::api::across::AcrossQuery;
use crate::serve::http::api::across::changes::{CatalogUpdate, UPDATES, UpdateFilter, updates};
use crate::serve::http::api::request::{QueryRequest, SCANS};
use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::parts::{badge, counted, empty, fold};
use crate::serve::http::pages::request::configured;
use crate::serve::http::pages::text::{date, day_before, short};
use crate::serve::http::pages::{links, request};

/// The updates as a list.
pub(super) fn list(told: &[CatalogUpdate], nothing: &str) -> Markup {
    html! {
        @if told.is_empty() {
            (empty(html! { p { (nothing) } }))
        } @else {
            ol.updates { @for one in told { li { (update(one)) } } }
        }
    }
}

fn update(told: &CatalogUpdate) -> Markup {
    let (update, entry) = (&told.update, &told.update.entry);
    let (catalog, time, words) = told.line();
    let more = update.total - update.changes.len();
    let mut packages: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
    for change in &update.changes {
        packages.entry(&change.package).or_default().push(change);
    }
    let content = entry.content.hex();
    let many = packages.len() > 8;
    let changes = html! {
        dl.changed {
            @for (package, changes) in &packages {
                dt {
                    @if package.is_empty() { "(catalog)" }
                    @else { a href=(links::package(catalog, package)) { (package) } }
                }
                dd { ul { @for change in changes { li { (sentence(change)) } } } }
            }
        }
        @if more > 0 { p { "… and " (counted(more, "more change")) } }
    };
    html! {
        p {
            (date(&time)) " "
            a href=(links::catalog(catalog, "/changes")) { (catalog) } " "
            code { (short(&update.content_before.hex())) } " → "
            code { (short(&content)) } " "
            (badge("plain", &counted(update.total, "change")))
        }
        p.soft { (words) }
        @if many { (fold(html! { (counted(packages.len(), "package")) }, changes)) } @else { (changes) }
    }
}

pub(crate) async fn of_all(request: QueryRequest) -> Response {
    shown(request, false).await
}

pub(crate) async fn of_one(request: QueryRequest) -> Response {
    shown(request, true).await
}

async fn shown(request: QueryRequest, one: bool) -> Response {
    let runtime = Handle::current();
    let work = move |query: &AcrossQuery| {
        let parameters = &query.parameters;
        let name = if one {
            Some(configured(query)?.0.name.as_str())
        } else {
            None
        };
        let filter = UpdateFilter {
            catalog: name,
            ..UpdateFilter::read(parameters)?
        };
        let told = updates(query, runtime, filter)?;
        let given = |key: &str| parameters.get(key).unwrap_or_default();
        let address = name.map_or_else(
            || "/changes".to_owned(),
            |name| links::catalog(name, "/changes"),
        );
        let body = html! {
            h1 { "Changes" @if let Some(name) = name { " of " (name) } }
            @if let Some(name) = name {
                p { a href=(links::catalog(name, "/changes.atom")) { "Atom feed" } }
            }
            form.inline {
                label { "Package " input type="search" name="package" value=(given("package")) maxlength="200"; }
                label { "Kind "
                    select name="kind" {
                        option value="" { "all" }
                        @for one in Kind::ALL {
                            @let name = one.as_str();
                            option value=(name) selected[given("kind") == name] { (name) }
                        }
                    }
                }
                label { "Since " input name="since" value=(given("since")) maxlength="30" placeholder="2026-01-31"; }
                button { "Filter" }
            }
            p.soft {
                "Since "
                @for (at, (days, text)) in [(1, "yesterday"), (7, "a week ago"), (30, "30 days ago")].into_iter().enumerate() {
                    @if at > 0 { " · " }
                    @let given = [("package", given("package")), ("kind", given("kind")), ("since", &day_before(days))];
                    a href=(links::with(&address, &given)) { (text) }
                }
                @if given("since").is_empty() { ". Without a day, the last " (UPDATES) " updates of each catalog are listed." }
            }
            (list(&told, if filter.is_narrow() {
                "No change among the recorded updates matches this filter."
            } else {
                "No update changed anything since the history began."
            }))
        };
        let title = match name {
            Some(name) => format!("Changes of {name}"),
            None => "Changes".to_owned(),
        };
        let twin = ["package", "kind", "since"].map(|key| (key, given(key)));
        let twin = [&[("catalog", name.unwrap_or_default())][..], &twin].concat();
        let page = Page::new(title, body).twin(links::with("/api/v1/changes", &twin));
        Ok(match name {
            Some(name) => page.at([
                ("Catalogs".to_owned(), "/".to_owned()),
                (name.to_owned(), links::catalog(name, "")),
                ("Changes".to_owned(), links::catalog(name, "/changes")),
            ]),
            None => page,
        })
    };
    request::run(request, &SCANS, &["package", "kind", "since"], work).await
}
