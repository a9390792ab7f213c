//! A package in every catalog that has it: the heads of its channels side by side.

use axum::response::Response;
use maud::{Markup, html};

use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::parts::{badge, icon, notice, short_name, states};
use crate::serve::http::pages::records::PackageRecord;
use crate::serve::http::pages::text::sentence;
use crate::serve::http::pages::{links, request};
use crate::serve::http::queries::across::AcrossQuery;
use crate::serve::http::queries::across::packages::{
    PackageOf, high_enough, installed_in, lowest, with_package,
};
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::request::{LOOKUPS, QueryRequest};

/// Whether each catalog has an installed version, or an edge that takes it.
fn of_installed(with: &[PackageOf<'_>], package: &str, version: &str) -> Result<Markup, Problem> {
    let (found, hint) = installed_in(with, version)?;
    let names = with.iter().map(|(catalog, ..)| catalog.as_str());
    Ok(html! {
        @if let Some((hint, _)) = &hint { (notice("warning", html! { p { (sentence(hint)) } })) }
        ul.links {
            @for (catalog, one) in names.zip(&found) {
                li {
                    a href=(links::package(catalog, package)) { (catalog) } " "
                    @match (one.here, &one.update) {
                        (true, _) => (badge("good", "has it")),
                        (false, Some(_)) => (badge("good", "takes it by an edge")),
                        (false, None) => (badge("error", "not here, and no edge")),
                    }
                    @if let Some(next) = &one.update {
                        " updates to "
                        a href=(links::bundle(catalog, package, &next.name)) { @if next.version.is_empty() { (next.name) } @else { (next.version) } }
                    }
                }
            }
        }
    })
}

fn form(query: &AcrossQuery) -> Markup {
    html! {
        form.inline {
            label { "At least " input name="min" value=(query.parameters.get("min").unwrap_or_default()) maxlength="60" placeholder="2.1.0"; }
            label { "Installed " input name="installed" value=(query.parameters.get("installed").unwrap_or_default()) maxlength="200" placeholder="1.2.0"; }
            button { "Show" }
        }
    }
}

pub(super) async fn show(request: QueryRequest) -> Response {
    request::run(request, &LOOKUPS, &["min", "installed"], |query| {
        let name = query.path("package");
        let with = with_package(query, name)?;
        let lowest = lowest(&query.parameters)?;
        let mut found = Vec::new();
        for (catalog, snapshot, package) in &with {
            found.push((catalog.as_str(), PackageRecord::details(snapshot, package)?));
        }
        let heads = found.iter().flat_map(|(_, record)| &record.channels);
        let heads = heads.map(|channel| (channel.name.as_str(), channel.version.as_str()));
        let rows = high_enough(lowest.as_ref(), heads);
        let version = |record: &'_ PackageRecord, channel: &str| {
            let mut channels = record.channels.iter();
            let found = channels.find(|one| one.name == channel)?;
            Some((found.version.clone(), found.deprecation.is_some()))
        };
        let body = html! {
            div.subject {
                @if let (Some((catalog, first)), Some((_, snapshot, _))) = (found.first(), with.first()) {
                    (icon(catalog, snapshot, first))
                    div { h1 { (first.title()) " " code { (name) } } p { (first.summary) } }
                }
            }
            (form(query))
            @if let Some(version) = query.parameters.get("installed") {
                (of_installed(&with, name, version)?)
            }
            div.scroll role="region" aria-label="Heads of channels by catalog" tabindex="0" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Channel" }
                            @for (catalog, record) in &found {
                                th scope="col" { a href=(links::package(catalog, name)) { (catalog) } " " (states(record)) }
                            }
                        }
                    }
                    tbody {
                        @for channel in &rows {
                            tr {
                                th scope="row" { (short_name(channel)) }
                                @for (catalog, record) in &found {
                                    td {
                                        @match version(record, channel) {
                                            Some((version, old)) => {
                                                a href=(links::with(&links::tab(catalog, name, "versions"), &[("channel", channel)])) {
                                                    @if version.is_empty() { "no single head" } @else { (version) }
                                                }
                                                @if record.default_channel == *channel { " (default)" }
                                                @if old { " (deprecated)" }
                                            },
                                            None => "–",
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            @if rows.is_empty() { p { "No channel has such a version." } }
        };
        let trail = [
            ("Packages".to_owned(), "/search".to_owned()),
            (name.to_owned(), links::across(name)),
        ];
        let given = ["installed", "min"].map(|key| (key, query.parameters.get(key).unwrap_or_default()));
        let twin = links::with(&format!("/api/v1{}", links::across(name)), &given);
        Ok(Page::new(name, body).at(trail).twin(twin))
    })
    .await
}
