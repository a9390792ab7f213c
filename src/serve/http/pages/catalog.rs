//! One catalog: its content, its packages, and where programs read it.

use axum::response::Response;
use maud::{Markup, html};

use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest};
use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::pager::Part;
use crate::serve::http::pages::parts::{
    counted, empty, fold, icon, notice, problem_counts, short_name, states, table,
};
use crate::serve::http::pages::request::{configured, last_good, nothing_to_serve, run};
use crate::serve::http::pages::text::moment;
use crate::serve::http::pages::{home, links};
use crate::snapshot::{Catalog, Snapshot, State};

/// How many packages a page lists.
const ROWS: usize = 200;

pub(crate) async fn show(request: QueryRequest) -> Response {
    run(request, &LOOKUPS, &["page"], |query| {
        let (catalog, snapshot) = configured(query)?;
        let name = catalog.name.as_str();
        let trail = [
            ("Catalogs".to_owned(), "/".to_owned()),
            (name.to_owned(), links::catalog(name, "")),
        ];
        let Some(snapshot) = snapshot else {
            return Ok(Page::new(name, nothing(catalog)).at(trail));
        };
        let all = snapshot.packages();
        let part = Part::of(query.parameters.get("page"), all.len(), ROWS)?;
        let body = html! {
            h1 { (name) }
            p.lead {
                @let counts = &snapshot.revision().counts;
                (counted(counts.packages, "package")) ", " (counted(counts.bundles, "bundle"))
                ", " (counted(counts.channels, "channel"))
                @if counts.quarantined > 0 { "; " (counted(counts.quarantined, "package")) " left out for errors" }
            }
            (staleness(catalog))
            (facts(catalog, snapshot, query.site.options.sources))
            form.inline action="/search" {
                input type="hidden" name="catalog" value=(name);
                label { "Search this catalog " input type="search" name="q" maxlength="200" size="32"; }
                button { "Search" }
            }
            h2 { "Packages" }
            @if all.is_empty() { (empty(html! { p { "This catalog has no package." } })) }
            @else { (packages(name, snapshot, &part)?) }
            (part.links(|number| links::with(&links::catalog(name, ""), &[("page", number)])))
            (fold(html! { "For clusters" }, html! {
                p { "OLM v0 reads this catalog over gRPC, OLM v1 over HTTP at " code { "/catalogs/" (name) "/" }
                    ". The commands of " code { "almanac manifests" } " write the objects that a cluster needs." }
            }))
        };
        Ok(Page::new(name, body)
            .at(trail)
            .twin(links::catalog(name, "/api/v1/packages"))
            .content(snapshot))
    })
    .await
}

/// The page of a catalog without content.
fn nothing(catalog: &Catalog) -> Markup {
    let name = catalog.name.as_str();
    let refused = catalog.refused().len();
    html! {
        h1 { (name) }
        (notice("warning", html! {
            @if refused > 0 {
                p { "This catalog has nothing to serve: its content was refused for "
                    a href=(links::catalog(name, "/problems")) { (counted(refused, "problem")) } "." }
            } @else if catalog.state() == State::Failing { p { (nothing_to_serve(catalog)) } }
            @else { p { "This catalog has nothing to serve yet. Come back in some seconds." } }
        }))
    }
}

/// Why the content is not that of the last pass.
fn staleness(catalog: &Catalog) -> Markup {
    let problems = links::catalog(catalog.name.as_str(), "/problems");
    html! {
        @if let Some(text) = last_good(catalog) {
            (notice("warning", html! { p { (text) } }))
        } @else if catalog.stale().is_some() {
            (notice("warning", html! { p {
                "The new content was refused: "
                a href=(problems) { (counted(catalog.refused().len(), "problem")) }
                ". The last good content is served."
            } }))
        }
    }
}

fn facts(catalog: &Catalog, snapshot: &Snapshot, sources: bool) -> Markup {
    let (name, status) = (catalog.name.as_str(), catalog.status());
    let revision = snapshot.revision();
    let problems = problem_counts(status.problems.iter());
    html! {
        dl.facts {
            @if sources { dt { "Version" } dd { (home::source(&status.source)) } }
            dt { "Digest" } dd { code { (revision.digest) } }
            dt { "Content" } dd { code { (revision.content) } }
            dt { "Changed" } dd { (moment(revision.modified)) }
            dt { "Problems" } dd { a href=(links::catalog(name, "/problems")) {
                @if problems.is_empty() { "none" } @else { (problems) }
            } }
            dt { "History" } dd {
                a href=(links::catalog(name, "/changes")) { "changes" } " · "
                a href=(links::catalog(name, "/changes.atom")) { "Atom feed" }
            }
            dt { "Programs" } dd {
                a href=(links::catalog(name, "/api/v1/packages")) { "packages as JSON" } " · "
                a href=(links::catalog(name, "/api/v1/graphql")) { "GraphQL" }
            }
        }
    }
}

fn packages(name: &str, snapshot: &Snapshot, part: &Part) -> Result<Markup, Problem> {
    let mut packages = Vec::new();
    for package in &snapshot.packages()[part.items.clone()] {
        packages.push(snapshot.summary(package)?);
    }
    let head = ["Package", "Version", "Default channel", "Channels", "State"];
    Ok(table(
        "Packages",
        &head,
        html! {
            @for package in &packages {
                tr {
                    th scope="row" {
                        a.with-icon href=(links::package(name, &package.name)) {
                            (icon(name, snapshot, package)) span { (package.title()) br; code { (package.name) } }
                        }
                    }
                    td { (package.version) }
                    td { (short_name(&package.default_channel)) }
                    td.number { (package.channels.len()) }
                    td { (states(package)) }
                }
            }
        },
    ))
}
