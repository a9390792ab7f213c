//! A package in every catalog that has it: the heads of its channels side by side.

use std::collections::BTreeSet;

use axum::response::Response;
use maud::{Markup, html};

use crate::answers::rest::plan::successors;
use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::parts::{badge, icon, short_name, states};
use crate::serve::http::pages::records::PackageRecord;
use crate::serve::http::pages::{links, request};
use crate::serve::http::queries::across::AcrossQuery;
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::request::{LOOKUPS, QueryRequest, channels, read};
use crate::serve::http::queries::updates::installed;
use fbc::text::semver::Version;

/// Whether each catalog has an installed version, or an edge that takes it.
fn installed_in(query: &AcrossQuery, package: &str, version: &str) -> Result<Markup, Problem> {
    let mut rows = Vec::new();
    for (catalog, snapshot) in query.loaded() {
        let Some(answers) = snapshot.package_answers(package) else {
            continue;
        };
        let stored = channels(snapshot, answers);
        let all = read(&stored)?;
        let version = version.replace(' ', "+");
        let mut entries = all.iter().flat_map(|channel| &channel.entries);
        let has = entries.any(|entry| entry.name == version || entry.version == version);
        let next = match installed(&all, &version) {
            Ok(start) => {
                let next = successors(&all, &start);
                next.first()
                    .map(|one| (one.name.to_owned(), one.version.to_owned()))
            }
            // Neither an entry nor an edge names it.
            Err(_) => None,
        };
        rows.push((catalog.as_str(), has, next));
    }
    Ok(html! {
        ul.links {
            @for (catalog, has, next) in &rows {
                li {
                    a href=(links::package(catalog, package)) { (catalog) } " "
                    @match (has, next) {
                        (true, _) => (badge("good", "has it")),
                        (false, Some(_)) => (badge("good", "takes it by an edge")),
                        (false, None) => (badge("error", "not here, and no edge")),
                    }
                    @if let Some((name, version)) = next {
                        " updates to "
                        a href=(links::bundle(catalog, package, name)) { @if version.is_empty() { (name) } @else { (version) } }
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
        let mut found = Vec::new();
        let mut first_snapshot = None;
        for (catalog, snapshot) in query.loaded() {
            if let Some(package) = snapshot.package_answers(name) {
                found.push((catalog.as_str(), PackageRecord::details(snapshot, package)?));
                first_snapshot.get_or_insert(snapshot);
            }
        }
        let Some((first_catalog, first)) = found.first() else {
            let names = query.loaded().flat_map(|(_, snapshot)| snapshot.packages());
            return Err(Problem::unknown("package", name, names.map(|package| &*package.name)));
        };
        let written = query.parameters.get("min");
        let min = written
            .map(|text| {
                Version::parse(text).map_err(|error| {
                    let detail = format!("min is a version such as 2.1.0: {error}");
                    Problem::invalid_parameter("min", detail)
                })
            })
            .transpose()?;
        let channels: BTreeSet<&str> = found
            .iter()
            .flat_map(|(_, record)| &record.channels)
            .map(|channel| channel.name.as_str())
            .collect();
        let version = |record: &'_ PackageRecord, channel: &str| {
            let mut channels = record.channels.iter();
            let found = channels.find(|one| one.name == channel)?;
            Some((found.version.clone(), found.deprecation.is_some()))
        };
        let enough = |version: &str| {
            min.as_ref().is_none_or(|min| Version::parse(version).is_ok_and(|it| it >= *min))
        };
        let rows: Vec<&str> = channels
            .into_iter()
            .filter(|channel| {
                found.iter().any(|(_, record)| {
                    version(record, channel).is_some_and(|(version, _)| enough(&version))
                })
            })
            .collect();
        let body = html! {
            div.subject {
                @if let Some(snapshot) = first_snapshot { (icon(first_catalog, snapshot, first)) }
                div { h1 { (first.title()) " " code { (name) } } p { (first.summary) } }
            }
            (form(query))
            @if let Some(version) = query.parameters.get("installed") {
                (installed_in(query, name, version)?)
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
        Ok(Page::new(name, body).at(trail).twin(format!("/api/v1{}", links::across(name))))
    })
    .await
}
