//! What a version needs, and who has it.

use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use crate::serve::http::pages::package::subject::{Subject, version_field};
use crate::serve::http::pages::parts::{badge, code, empty};
use crate::serve::http::pages::records::PackageRecord;
use crate::serve::http::pages::{links, request};
use crate::serve::http::queries::across::AcrossQuery;
use crate::serve::http::queries::dependents::dependents;
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::request::{LOOKUPS, QueryRequest, read};
use fbc::document::Gvk;
use fbc::presentation::BundleView;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PackageRequired {
    package_name: String,
    version_range: String,
}

pub(in crate::serve::http::pages) async fn show(request: QueryRequest) -> Response {
    request::run(request, &LOOKUPS, &["version"], |query| {
        let subject = Subject::of(query)?;
        let stored = subject.channels();
        let all = read(&stored)?;
        let chosen = subject.chosen(query.parameters.get("version"), &all)?;
        let line = chosen.as_ref().and_then(|chosen| subject.line(&chosen.name));
        let line = line.unwrap_or_default();
        let view = BundleView::of(&line);
        let current = chosen.as_ref().map(|chosen| chosen.name.as_str());
        let mut needs = Vec::new();
        for (kind, value) in &view.dependencies {
            needs.push(if kind == "olm.package.required" {
                package_need(query, value.get())?
            } else {
                html! { p { "A constraint:" } (code("Constraint", value.get())) }
            });
        }
        for api in &view.requires {
            needs.push(api_need(query, api));
        }
        let body = html! {
            h2 { "Needs " @if let Some(chosen) = &chosen { "of " (chosen.version) } }
            form.inline {
                (version_field("Version", "version", &all, current, None))
                button { "Show" }
            }
            @if needs.is_empty() {
                (empty(html! { p { "This version needs no other package and no other API." } }))
            } @else {
                ul.problems { @for need in &needs { li { (need) } } }
                p.soft { "OLM v0 installs what a version needs. OLM v1 refuses versions with dependencies." }
            }
            h2 { "Needed by" }
            (needed_by(query, &subject))
            h2 { "Permissions" }
            @if view.image.is_empty() {
                p { "This version has no image that would tell them." }
            } @else {
                p { "A catalog tells permissions only where it has the manifests of a bundle. They are in the bundle image:" }
                (code("Bundle image", &view.image))
            }
        };
        let twin = match current {
            Some(name) => subject.api(&format!("bundles/{name}?fields=name,dependencies,requiredApis")),
            None => subject.api("packages"),
        };
        Ok(subject.page("dependencies", &body).twin(twin))
    })
    .await
}

/// The packages that need this one, in each catalog that has it.
fn needed_by(query: &AcrossQuery, subject: &Subject<'_>) -> Markup {
    let name = &subject.record.name;
    let found = query.loaded().filter_map(|(catalog, snapshot)| {
        let package = snapshot.package_answers(name)?;
        let found = dependents(snapshot, package);
        (!found.is_empty()).then_some((catalog.as_str(), found))
    });
    let found: Vec<_> = found.collect();
    html! {
        @if found.is_empty() {
            (empty(html! { p { "No newest version of another package needs this one." } }))
        }
        @for (catalog, dependents) in &found {
            p { (catalog) }
            ul.links { @for one in dependents {
                li {
                    a href=(links::package(catalog, one.package)) { (one.package) } " " (one.version)
                    @if let Some(range) = one.range { " " code { (range) } }
                    @for api in &one.apis { " " code { (api.kind) } }
                }
            } }
        }
    }
}

fn package_need(query: &AcrossQuery, value: &str) -> Result<Markup, Problem> {
    let need: PackageRequired = serde_json::from_str(value).unwrap_or_default();
    let mut found = Vec::new();
    for (catalog, snapshot) in query.loaded() {
        if let Some(package) = snapshot.package_answers(&need.package_name) {
            found.push((catalog.as_str(), PackageRecord::summary(snapshot, package)?));
        }
    }
    Ok(html! {
        p {
            "Package " strong { (need.package_name) } " " code { (need.version_range) }
            @if found.is_empty() { " " (badge("error", "in no catalog here")) }
        }
        @if !found.is_empty() {
            ul { @for (catalog, package) in &found {
                li { a href=(links::package(catalog, &package.name)) { (catalog) } " " (package.version) }
            } }
        }
    })
}

fn api_need(query: &AcrossQuery, api: &Gvk) -> Markup {
    let found: Vec<(&str, Vec<&str>)> = query
        .loaded()
        .map(|(catalog, snapshot)| {
            let provided = snapshot.provided(|one| one == api);
            let mut packages: Vec<&str> = provided.iter().map(|one| one.package).collect();
            packages.dedup();
            (catalog.as_str(), packages)
        })
        .filter(|(_, packages)| !packages.is_empty())
        .collect();
    html! {
        p {
            "Kind "
            @if found.is_empty() { (api.kind) } @else {
                a href=(links::kind(&api.group, &api.kind)) { (api.kind) }
            }
            " " code { (api.group) "/" (api.version) }
            @if found.is_empty() { " " (badge("error", "in no catalog here")) }
        }
        @if !found.is_empty() {
            ul { @for (catalog, packages) in &found {
                li { (catalog) ": " @for package in packages {
                    a href=(links::package(catalog, package)) { (package) } " "
                } }
            } }
        }
    }
}
