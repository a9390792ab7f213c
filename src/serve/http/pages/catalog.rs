//! One catalog: its content, its packages, and where programs read it.

use axum::response::Response;
use maud::html;

use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::parts::{
    counted, fold, icon, notice, problem_counts, short_name, states, table,
};
use crate::serve::http::pages::records::PackageRecord;
use crate::serve::http::pages::request::{NOTHING_TO_SERVE, UNREAD, configured, run};
use crate::serve::http::pages::text::date;
use crate::serve::http::pages::{home, links};
use crate::serve::http::queries::request::{LOOKUPS, QueryRequest};
use crate::snapshot::{Stale, State};

pub(super) async fn show(request: QueryRequest) -> Response {
    run(request, &LOOKUPS, &[], |query| {
        let (catalog, snapshot) = configured(query)?;
        let name = catalog.name.as_str();
        let trail = [
            ("Catalogs".to_owned(), "/".to_owned()),
            (name.to_owned(), links::catalog(name, "")),
        ];
        let Some(snapshot) = snapshot else {
            let body = html! {
                h1 { (name) }
                @let refused = catalog.refused().len();
                (notice("warning", html! {
                    @if refused > 0 {
                        p { "This catalog has nothing to serve: its content was refused for "
                            a href=(links::catalog(name, "/problems")) { (counted(refused, "problem")) } "." }
                    } @else if catalog.state() == State::Failing { p { (NOTHING_TO_SERVE) } }
                    @else { p { "This catalog has nothing to serve yet. Come back in some seconds." } }
                }))
            };
            return Ok(Page::new(name, body).at(trail));
        };
        let status = catalog.status();
        let revision = snapshot.revision();
        let mut packages = Vec::new();
        for package in snapshot.packages() {
            packages.push(PackageRecord::summary(snapshot, package)?);
        }
        let problems = problem_counts(status.problems.iter());
        let body = html! {
            h1 { (name) }
            p.lead {
                @let counts = &revision.counts;
                (counted(counts.packages, "package")) ", " (counted(counts.bundles, "bundle"))
                ", " (counted(counts.channels, "channel"))
                @if counts.quarantined > 0 { "; " (counted(counts.quarantined, "package")) " left out for errors" }
            }
            @match catalog.stale() {
                None => {},
                Some(Stale::Unread) => (notice("warning", html! { p { (UNREAD) } })),
                Some(Stale::Refused) => (notice("warning", html! { p {
                    "The new content was refused: "
                    a href=(links::catalog(name, "/problems")) { (counted(status.refused.len(), "problem")) }
                    ". The last good content is served."
                } })),
            }
            dl.facts {
                @if query.site.options.sources { dt { "Version" } dd { (home::source(&status.source)) } }
                dt { "Digest" } dd { code { (revision.digest) } }
                dt { "Content" } dd { code { (revision.content) } }
                dt { "Changed" } dd { (date(&humantime::format_rfc3339_seconds(revision.modified).to_string())) }
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
            form.inline action="/search" {
                input type="hidden" name="catalog" value=(name);
                label { "Search this catalog " input type="search" name="q" maxlength="200" size="32"; }
                button { "Search" }
            }
            h2 { "Packages" }
            (table("Packages", &["Package", "Version", "Default channel", "Channels", "State"], html! {
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
            }))
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
