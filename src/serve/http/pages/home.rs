//! The catalogs with their states, ages and counts.

use std::collections::BTreeSet;

use axum::response::Response;
use maud::{Markup, html};
use tokio::runtime::Handle;

use crate::serve::http::api::across::AcrossQuery;
use crate::serve::http::api::across::changes::{CatalogUpdate, UpdateFilter, updates};
use crate::serve::http::api::request::{LOOKUPS, QueryRequest};
use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::parts::{badge, count, counted, empty, problem_counts, table};
use crate::serve::http::pages::text::{date, moment, short};
use crate::serve::http::pages::{links, request};
use crate::snapshot::{Catalog, Snapshot, Stale, State};

/// How many updates of a catalog are looked through for the last one with changes.
const LATEST: u32 = 3;

pub(crate) async fn show(request: QueryRequest) -> Response {
    let runtime = Handle::current();
    let work = move |query: &AcrossQuery| {
        let filter = UpdateFilter {
            most: LATEST,
            ..UpdateFilter::default()
        };
        let updates = updates(query, runtime, filter)?;
        let catalogs = &query.catalogs;
        let sources = query.site.options.sources;
        let total: u64 = query
            .loaded()
            .map(|(_, snapshot)| snapshot.packages().len() as u64)
            .sum();
        let head: Vec<&str> = [
            "Name", "State", "Version", "Content", "Changed", "Packages", "Bundles", "Problems",
        ]
        .into_iter()
        .filter(|title| sources || *title != "Version")
        .collect();
        let body = html! {
            h1 { "Catalogs" }
            @if query.awaits_cluster() {
                (empty(html! { p { "The catalogs of the cluster are not known yet. The log and the admin port have the reason." } }))
            } @else if catalogs.is_empty() {
                (empty(html! { p { "There is no catalog that you may read. If yours has a token, " a href="/sign-in" { "sign in" } "." } }))
            }
            @if !catalogs.is_empty() {
                p.lead {
                    (counted(total, "package")) " in " (counted(catalogs.len(), "catalog"))
                    @if catalogs.len() > 1 { "; a package counts once for each catalog that has it" }
                    @if !query.reader.is_known() { " · " a href="/sign-in" { "sign in" } }
                }
                (table("Catalogs", &head, html! {
                    @for (catalog, snapshot) in catalogs { (row(catalog, snapshot.as_deref(), sources)) }
                }))
            }
            (latest(&updates))
            h2 { "Start with" }
            ul.links {
                li { a href="/search" { "All packages, by category, provider and more" } }
                li { a href="/apis" { "All kinds with their providers" } }
                li { a href="/search" { "Plan an update: choose a package, then Updates" } }
                li { a href="/compare" { "Compare catalogs" } }
                li { a href="/mirror" { "Plan a mirror" } }
            }
        };
        Ok(Page::new("", body).twin("/api/v1/catalogs"))
    };
    request::run(request, &LOOKUPS, &[], work).await
}

/// The last update of each catalog in a line.
fn latest(updates: &[CatalogUpdate]) -> Markup {
    let mut seen = BTreeSet::new();
    let told = updates.iter().map(CatalogUpdate::line);
    let told: Vec<_> = told.filter(|(name, ..)| seen.insert(*name)).collect();
    html! {
        @if !told.is_empty() {
            h2 { "Latest changes" }
            ul.links {
                @for (name, time, text) in &told {
                    li { a href=(links::catalog(name, "/changes")) { (name) } " " (date(time)) ": " (text) }
                }
                li { a href="/changes" { "All changes" } }
            }
        }
    }
}

fn row(catalog: &Catalog, snapshot: Option<&Snapshot>, sources: bool) -> Markup {
    let name = catalog.name.as_str();
    let status = catalog.status();
    let state = snapshot.map_or_else(|| catalog.state(), |_| State::Serving);
    html! {
        tr {
            th scope="row" { a href=(links::catalog(name, "")) { (name) } }
            td { (state_of(state, catalog.stale(), status.last_pass)) }
            @if sources { td { (source(&status.source)) } }
            @if let Some(snapshot) = snapshot {
                @let revision = snapshot.revision();
                td { code.digest { (short(&revision.content.hex())) } }
                td.when { (moment(revision.modified)) }
                td.number { (count(revision.counts.packages + revision.counts.quarantined)) }
                td.number { (count(revision.counts.bundles)) }
                td { a href=(links::catalog(name, "/problems")) {
                    @let problems = problem_counts(status.problems.iter());
                    @if problems.is_empty() { "none" } @else { (problems) }
                } }
            } @else {
                td { "–" } td { "–" } td.number { "–" } td.number { "–" }
                @let refused = status.refused.len();
                td { @if refused > 0 {
                    a href=(links::catalog(name, "/problems")) { "refused for " (counted(refused, "problem")) }
                } @else { "–" } }
            }
        }
    }
}

/// The state in words. Why a source cannot be read is told on the admin port only.
fn state_of(state: State, why: Option<Stale>, last: Option<std::time::SystemTime>) -> Markup {
    html! {
        @match state {
            State::Serving if why.is_some() => {
                (badge("warning", if why == Some(Stale::Refused) { "new content refused" } else { "not refreshed" }))
                @if let Some(last) = last { " last tried " (moment(last)) }
            },
            State::Serving => (badge("good", "serving")),
            State::Loading => { (badge("plain", "loading")) " nothing to serve yet" },
            State::Failing => { (badge("error", "failing")) " nothing to serve yet" },
            State::Damaged => { (badge("error", "damaged")) " being rebuilt" },
            State::Unavailable => (badge("plain", "unavailable")),
        }
    }
}

/// A source as repository and tag. Folders, layouts and selections from other catalogs,
/// which the reader may not know, are named by their kind only.
pub(super) fn source(source: &str) -> String {
    for (scheme, kind) in [
        ("curated:", "curated"),
        ("file:", "folder"),
        ("oci:", "layout"),
        ("oci-archive:", "archive"),
        ("docker-archive:", "archive"),
    ] {
        if source.starts_with(scheme) {
            return kind.to_owned();
        }
    }
    let last = source.rsplit('/').next().unwrap_or(source);
    match last.split_once("@sha256:") {
        Some((name, digest)) => format!("{name}@{}", short(digest)),
        None => last.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_tells_no_folder_no_registry_and_no_other_catalog() {
        for (given, wanted) in [
            ("file:/srv/secret", "folder"),
            ("oci:/srv/secret:tag", "layout"),
            ("curated:closed,open", "curated"),
            ("registry.internal/team/catalog:latest", "catalog:latest"),
            (
                "registry.internal/catalog@sha256:0123456789abcdef",
                "catalog@0123456789ab",
            ),
        ] {
            assert_eq!(source(given), wanted);
        }
    }
}
