//! The problems of all catalogs, or of one.

use std::collections::BTreeSet;

use axum::response::Response;
use maud::html;

use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::parts::{code, empty, notice, problem_counts, problems};
use crate::serve::http::pages::request::{NOTHING_TO_SERVE, UNREAD, configured};
use crate::serve::http::pages::{links, request};
use crate::serve::http::queries::across::AcrossQuery;
use crate::serve::http::queries::across::problems::{SEVERITIES, problems as found};
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::request::{LOOKUPS, QueryRequest};
use crate::snapshot::{Stale, State};

/// How many problems of a catalog are shown.
const SHOWN: usize = 200;

pub(super) async fn of_all(request: QueryRequest) -> Response {
    const KNOWN: &[&str] = &["catalog", "severity", "code"];
    let request = request.repeating(&["catalog"]);
    request::run(request, &LOOKUPS, KNOWN, |query| {
        page("Problems", query, None)
    })
    .await
}

pub(super) async fn of_one(request: QueryRequest) -> Response {
    request::run(request, &LOOKUPS, &["severity", "code"], |query| {
        let (catalog, _) = configured(query)?;
        let name = catalog.name.as_str();
        let page = page(&format!("Problems of {name}"), query, Some(name))?;
        Ok(page.at([
            ("Catalogs".to_owned(), "/".to_owned()),
            (name.to_owned(), links::catalog(name, "")),
            ("Problems".to_owned(), links::catalog(name, "/problems")),
        ]))
    })
    .await
}

fn page(title: &str, query: &AcrossQuery, only: Option<&str>) -> Result<Page, Problem> {
    let parameters = &query.parameters;
    let (severity, code_wanted) = (parameters.get("severity"), parameters.get("code"));
    let chosen = parameters.get("catalog");
    let found = found(query, only)?;
    let none = found
        .iter()
        .all(|one| one.refused.is_empty() && one.served.is_empty());
    let asked = query.catalogs.iter().filter(|(catalog, _)| {
        let name = catalog.name.as_str();
        only.or(chosen).is_none_or(|wanted| wanted == name)
    });
    let unread = asked.filter_map(|(catalog, snapshot)| {
        let text = match (snapshot, catalog.stale()) {
            // The problems of refused content tell why.
            _ if !catalog.refused().is_empty() => return None,
            (None, _) if catalog.state() == State::Failing => NOTHING_TO_SERVE,
            (Some(_), Some(Stale::Unread)) => UNREAD,
            _ => return None,
        };
        Some((catalog.name.as_str(), text))
    });
    let unread: Vec<(&str, &str)> = unread.collect();
    // The codes that there are, and the one that is asked for.
    let of_catalogs = query.catalogs.iter().map(|(catalog, _)| catalog.status());
    let codes = of_catalogs.flat_map(|status| {
        status
            .problems
            .iter()
            .chain(status.refused.iter())
            .map(|one| one.code.as_str())
            .collect::<Vec<_>>()
    });
    let codes: BTreeSet<&str> = codes.chain(code_wanted).collect();
    let filtered = severity.is_some() || code_wanted.is_some();
    let body = html! {
        h1 { (title) }
        form.inline {
            label { "Severity "
                select name="severity" {
                    option value="" { "all" }
                    @for one in SEVERITIES { option value=(one) selected[severity == Some(one)] { (one) } }
                }
            }
            label { "Code "
                select name="code" {
                    option value="" { "all" }
                    @for one in codes { option value=(one) selected[code_wanted == Some(one)] { (one) } }
                }
            }
            @if only.is_none() {
                label { "Catalog "
                    select name="catalog" {
                        option value="" { "all" }
                        @for (catalog, _) in &query.catalogs {
                            @let name = catalog.name.as_str();
                            option value=(name) selected[chosen == Some(name)] { (name) }
                        }
                    }
                }
            }
            button { "Filter" }
        }
        @for (name, text) in &unread {
            h2 { a href=(links::catalog(name, "")) { (name) } }
            (notice("error", html! { p { (text) } }))
        }
        @if none && filtered {
            (empty(html! { p { "No problem matches this filter. " a href=(if only.is_some() { links::catalog(only.unwrap_or_default(), "/problems") } else { "/problems".to_owned() }) { "All problems" } } }))
        } @else if none {
            @if unread.is_empty() { (empty(html! { p { "almanac found nothing wrong." } })) }
        } @else {
            p.soft { "A warning leaves a package as it is. An error leaves it out of the gRPC API; its documents stay in the HTTP API." }
        }
        @for one in &found {
            @for (problems_of, refused) in [(&one.refused, true), (&one.served, false)] {
                @if !problems_of.is_empty() {
                    h2 {
                        a href=(links::catalog(&one.catalog, "")) { (one.catalog) }
                        @if refused { " · refused content" }
                    }
                    @if refused { p { "The last pass refused the new content. The content before stays, if there was any." } }
                    p { (problem_counts(problems_of)) }
                    (problems(&one.catalog, &problems_of.iter().take(SHOWN).collect::<Vec<_>>()))
                    @if problems_of.len() > SHOWN { p { "… and " (problems_of.len() - SHOWN) " more" } }
                }
            }
        }
        @if !none {
            p { "Authors find the same before they publish:" }
            (code("Command", "almanac check file:CATALOG-FOLDER"))
        }
    };
    let twin = links::with(
        "/api/v1/problems",
        &[
            ("catalog", only.or(chosen).unwrap_or_default()),
            ("severity", severity.unwrap_or_default()),
            ("code", code_wanted.unwrap_or_default()),
        ],
    );
    Ok(Page::new(title, body).twin(twin))
}
