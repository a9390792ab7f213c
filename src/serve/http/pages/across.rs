//! A package in every catalog that has it: the heads of its channels side by side.

use std::collections::{BTreeSet, HashMap};

use axum::response::Response;
use maud::{Markup, html};

use crate::answers::rest::records::{ChannelSummary, PackageSummary};
use crate::queries::records::packages::NextVersion;
use crate::serve::http::api::across::AcrossQuery;
use crate::serve::http::api::across::packages::{
    PackageOf, high_enough, installed_in, lowest, with_package,
};
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest};
use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::parts::{badge, count, icon, notice, short_name, states};
use crate::serve::http::pages::text::sentence;
use crate::serve::http::pages::{links, request};

/// How many channels a page lists.
const SHOWN: usize = 500;

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
                        (false, Some(next)) => (badge("good", &format!("takes it by {}", edges(next)))),
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

/// The edges to a bundle, in words.
fn edges(next: &NextVersion) -> String {
    let edges: Vec<&str> = next.edges.iter().map(|edge| edge.as_str()).collect();
    edges.join(" and ")
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

/// The heads of channels, a column for each catalog.
fn side_by_side(name: &str, found: &[(&str, PackageSummary<'_>)], rows: &BTreeSet<&str>) -> Markup {
    let of_catalogs = found.iter().map(|(_, record)| {
        // Of channels with one name the first counts.
        let channels = record.channels.iter().rev();
        channels.map(|one| (&*one.name, one)).collect()
    });
    let of_catalogs: Vec<HashMap<&str, &ChannelSummary<'_>>> = of_catalogs.collect();
    html! {
        div.scroll role="region" aria-label="Heads of channels by catalog" tabindex="0" {
            table {
                thead {
                    tr {
                        th scope="col" { "Channel" }
                        @for (catalog, record) in found {
                            th scope="col" { a href=(links::package(catalog, name)) { (catalog) } " " (states(record)) }
                        }
                    }
                }
                tbody {
                    @for channel in rows.iter().take(SHOWN) {
                        tr {
                            th scope="row" { (short_name(channel)) }
                            @for ((catalog, record), channels) in found.iter().zip(&of_catalogs) {
                                td {
                                    @match channels.get(channel) {
                                        Some(head) => {
                                            a href=(links::with(&links::tab(catalog, name, "versions"), &[("channel", channel)])) {
                                                @if head.version.is_empty() { "no single head" } @else { (head.version) }
                                            }
                                            @if record.default_channel == *channel { " (default)" }
                                            @if head.deprecation.is_some() { " (deprecated)" }
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
    }
}

pub(crate) async fn show(request: QueryRequest) -> Response {
    request::run(request, &LOOKUPS, &["min", "installed"], |query| {
        let name = query.path("package");
        let with = with_package(query, name)?;
        let lowest = lowest(&query.parameters)?;
        let mut found = Vec::new();
        for (catalog, snapshot, package) in &with {
            found.push((catalog.as_str(), snapshot.summary(package)?));
        }
        let heads = found.iter().flat_map(|(_, record)| &record.channels);
        let heads = heads.map(|channel| (&*channel.name, &*channel.version));
        let rows = high_enough(lowest.as_ref(), heads);
        let body = html! {
            div.subject {
                @if let (Some((catalog, first)), Some((_, snapshot, _))) = (found.first(), with.first()) {
                    (icon(catalog, snapshot, first))
                    div { h1 { bdi { (first.title()) } " " code { (name) } } p { bdi { (first.summary) } } }
                }
            }
            (form(query))
            @if let Some(version) = query.parameters.get("installed") {
                (of_installed(&with, name, version)?)
            }
            (side_by_side(name, &found, &rows))
            @if rows.is_empty() { p { "No channel has such a version." } }
            @if rows.len() > SHOWN { p { "The first " (SHOWN) " of " (count(rows.len() as u64)) " channels are shown." } }
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
