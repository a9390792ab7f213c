//! The problems of all catalogs, or of one.

use axum::response::Response;
use maud::html;

use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::parts::{empty, problem_counts, problems};
use crate::serve::http::pages::request::configured;
use crate::serve::http::pages::{links, request};
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::request::{LOOKUPS, QueryRequest};
use crate::snapshot::Catalog;

/// How many problems of a catalog are shown.
const SHOWN: usize = 200;

pub(super) async fn of_all(request: QueryRequest) -> Response {
    request::run(request, &LOOKUPS, &["severity", "code"], |query| {
        let catalogs = query.catalogs.iter().map(|(catalog, _)| &**catalog);
        page("Problems", catalogs, &query.parameters)
    })
    .await
}

pub(super) async fn of_one(request: QueryRequest) -> Response {
    request::run(request, &LOOKUPS, &["severity", "code"], |query| {
        let (catalog, _) = configured(query)?;
        let name = catalog.name.as_str();
        let title = format!("Problems of {name}");
        let page = page(&title, [catalog], &query.parameters)?;
        Ok(page.at([
            ("Catalogs".to_owned(), "/".to_owned()),
            (name.to_owned(), links::catalog(name, "")),
            ("Problems".to_owned(), links::catalog(name, "/problems")),
        ]))
    })
    .await
}

fn page<'a>(
    title: &str,
    catalogs: impl IntoIterator<Item = &'a Catalog>,
    parameters: &crate::serve::http::queries::parameters::Parameters,
) -> Result<Page, Problem> {
    let (severity, code) = (parameters.get("severity"), parameters.get("code"));
    let severities = ["warning", "error"];
    if let Some(other) = severity.filter(|severity| !severities.contains(severity)) {
        let detail = format!("severity is warning or error, and not {other:?}");
        return Err(Problem::invalid_parameter("severity", detail));
    }
    let found: Vec<_> = catalogs
        .into_iter()
        .map(|catalog| {
            let mut problems = catalog.status().problems.to_vec();
            problems.retain(|problem| {
                let is_warning = problem.severity == fbc::problem::Severity::Warning;
                severity.is_none_or(|severity| (severity == "warning") == is_warning)
                    && code.is_none_or(|code| problem.code.as_str() == code)
            });
            (catalog, problems)
        })
        .collect();
    let none = found.iter().all(|(_, problems)| problems.is_empty());
    let body = html! {
        h1 { (title) }
        form.inline {
            label { "Severity "
                select name="severity" {
                    option value="" { "all" }
                    @for one in severities { option value=(one) selected[severity == Some(one)] { (one) } }
                }
            }
            label { "Code " input name="code" value=(code.unwrap_or_default()) maxlength="80"; }
            button { "Filter" }
        }
        @if none { (empty(html! { p { "almanac found nothing wrong." } })) }
        @for (catalog, problems_of) in &found {
            @if !problems_of.is_empty() {
                h2 { a href=(links::catalog(catalog.name.as_str(), "")) { (catalog.name) } }
                p { (problem_counts(problems_of)) }
                (problems(catalog.name.as_str(), &problems_of.iter().take(SHOWN).collect::<Vec<_>>()))
                @if problems_of.len() > SHOWN { p { "… and " (problems_of.len() - SHOWN) " more" } }
            }
        }
    };
    Ok(Page::new(title, body))
}
