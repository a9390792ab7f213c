//! The problems of all catalogs, or of one.

use std::collections::BTreeSet;

use axum::response::Response;
use maud::{Markup, html};

use crate::serve::http::api::across::AcrossQuery;
use crate::serve::http::api::across::problems::{ProblemsOfCatalog, SEVERITIES, problems as found};
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest};
use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::parts::{code, empty, notice, problem_counts, problems};
use crate::serve::http::pages::request::{configured, last_good, nothing_to_serve};
use crate::serve::http::pages::{links, request};
use crate::snapshot::State;

/// How many problems of a catalog are shown.
const SHOWN: usize = 200;

pub(crate) async fn of_all(request: QueryRequest) -> Response {
    const KNOWN: &[&str] = &["catalog", "severity", "code"];
    let request = request.repeating(&["catalog"]);
    request::run(request, &LOOKUPS, KNOWN, |query| {
        page("Problems", query, None)
    })
    .await
}

pub(crate) async fn of_one(request: QueryRequest) -> Response {
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

/// The filters of the address.
struct Filters<'a> {
    /// The catalog of the path.
    only: Option<&'a str>,
    /// The catalogs that are asked for; all if it is empty.
    catalogs: Vec<&'a str>,
    severity: Option<&'a str>,
    code: Option<&'a str>,
}

impl<'a> Filters<'a> {
    fn of(query: &'a AcrossQuery, only: Option<&'a str>) -> Self {
        Self {
            only,
            catalogs: query.parameters.all("catalog").chain(only).collect(),
            severity: query.parameters.get("severity"),
            code: query.parameters.get("code"),
        }
    }

    /// Whether they leave problems out.
    fn narrow(&self) -> bool {
        self.severity.is_some() || self.code.is_some()
    }

    /// The page without them.
    fn without(&self) -> String {
        self.only.map_or_else(
            || "/problems".to_owned(),
            |name| links::catalog(name, "/problems"),
        )
    }
}

fn page(title: &str, query: &AcrossQuery, only: Option<&str>) -> Result<Page, Problem> {
    let filters = Filters::of(query, only);
    let found = found(query, only)?;
    let mut found_some = found.iter();
    let none = found_some.all(|one| one.refused.is_empty() && one.served.is_empty());
    let unread = unread(query, &filters);
    let body = html! {
        h1 { (title) }
        (form(query, &filters))
        @for (name, text) in &unread {
            h2 { a href=(links::catalog(name, "")) { (name) } }
            (notice("error", html! { p { (text) } }))
        }
        @if none && filters.narrow() {
            (empty(html! { p { "No problem matches this filter. " a href=(filters.without()) { "All problems" } } }))
        } @else if none {
            @if unread.is_empty() { (empty(html! { p { "almanac found nothing wrong." } })) }
        } @else {
            p.soft { "A warning leaves a package as it is. An error leaves it out of the gRPC API; its documents stay in the HTTP API." }
        }
        @for one in &found { (of_catalog(one)) }
        @if !none {
            p { "Authors find the same before they publish:" }
            (code("Command", "almanac check file:CATALOG-FOLDER"))
        }
    };
    let catalogs = filters.catalogs.iter().map(|name| ("catalog", *name));
    let mut twin: Vec<(&str, &str)> = catalogs.collect();
    twin.push(("severity", filters.severity.unwrap_or_default()));
    twin.push(("code", filters.code.unwrap_or_default()));
    Ok(Page::new(title, body).twin(links::with("/api/v1/problems", &twin)))
}

/// The catalogs whose source cannot be read, each with a sentence about it.
fn unread<'a>(query: &'a AcrossQuery, filters: &Filters<'_>) -> Vec<(&'a str, &'static str)> {
    let wanted = &filters.catalogs;
    let asked = query
        .catalogs
        .iter()
        .filter(|(catalog, _)| wanted.is_empty() || wanted.contains(&catalog.name.as_str()));
    let unread = asked.filter_map(|(catalog, snapshot)| {
        let text = match snapshot {
            // The problems of refused content tell why.
            _ if !catalog.refused().is_empty() => return None,
            None if catalog.state() == State::Failing => nothing_to_serve(catalog),
            None => return None,
            Some(_) => last_good(catalog)?,
        };
        Some((catalog.name.as_str(), text))
    });
    unread.collect()
}

fn form(query: &AcrossQuery, filters: &Filters<'_>) -> Markup {
    // The codes that there are, and the one that is asked for.
    let mut codes: BTreeSet<&str> = filters.code.into_iter().collect();
    for (catalog, _) in &query.catalogs {
        let status = catalog.status();
        let all = status.problems.iter().chain(status.refused.iter());
        codes.extend(all.map(|one| one.code.as_str()));
    }
    let names = query
        .catalogs
        .iter()
        .map(|(catalog, _)| catalog.name.as_str());
    html! {
        form.inline {
            (choice("Severity ", "severity", SEVERITIES, filters.severity))
            (choice("Code ", "code", codes, filters.code))
            @if filters.only.is_none() { (choice("Catalog ", "catalog", names, filters.catalogs.first().copied())) }
            button { "Filter" }
        }
    }
}

/// A field to choose a value of a filter, or all.
fn choice<'a>(
    label: &str,
    name: &str,
    values: impl IntoIterator<Item = &'a str>,
    chosen: Option<&str>,
) -> Markup {
    html! {
        label { (label)
            select name=(name) {
                option value="" { "all" }
                @for one in values { option value=(one) selected[chosen == Some(one)] { (one) } }
            }
        }
    }
}

fn of_catalog(one: &ProblemsOfCatalog) -> Markup {
    html! {
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
}
