//! The needs of a version with their providers, and the packages that depend on it.

use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use crate::answers::rest::records::percent_encoded;
use crate::serve::http::pages::package::subject::{ShownVersion, Subject};
use crate::serve::http::pages::parts::{badge, code, empty, table};
use crate::serve::http::pages::{links, request};
use crate::serve::http::queries::across::AcrossQuery;
use crate::serve::http::queries::dependents::dependents;
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::request::{LOOKUPS, QueryRequest, channels, read};
use fbc::document::Gvk;
use fbc::presentation::{AccountRules, Permissions};
use fbc::text::semver::{Range, Version};

/// How many rules of an account are listed.
const RULES: usize = 200;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PackageRequired {
    package_name: String,
    version_range: String,
}

pub(in crate::serve::http::pages) async fn show(request: QueryRequest) -> Response {
    request::run(request, &LOOKUPS, &["version"], |query| {
        let subject = Subject::of(query)?;
        subject.of_version(query, |shown| {
            let view = &shown.view;
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
                (shown.heading("Needs"))
                @if needs.is_empty() {
                    (empty(html! { p { "This version needs no other package and no other API." } }))
                } @else {
                    ul.problems { @for need in &needs { li { (need) } } }
                    p.soft { "OLM v0 installs what a version needs. OLM v1 refuses versions with dependencies." }
                }
                h2 { "Needed by" }
                (needed_by(query, &subject))
                h2 { "Permissions" }
                (permissions(shown))
            };
            let twin = match shown.name() {
                Some(name) => links::with(
                    &subject.api(&format!("bundles/{}", percent_encoded(name))),
                    &[
                        ("package", subject.record.name.as_str()),
                        ("fields", "name,dependencies,requiredApis,permissions"),
                    ],
                ),
                None => subject.own_api(""),
            };
            Ok(subject.page("dependencies", &body).twin(twin))
        })
    })
    .await
}

/// The permissions of the operator, where the catalog has the manifests that tell them.
fn permissions(shown: &ShownVersion<'_>) -> Markup {
    let found = Permissions::of(shown.line);
    let accounts = |title: &str, all: &[AccountRules]| {
        html! {
            @for account in all {
                h3 {
                    (title)
                    @if !account.account.is_empty() { " · account " code { (account.account) } }
                    @if !account.role.is_empty() { " · role " code { (account.role) } }
                }
                @if account.rules.is_empty() { p.soft { "The bundle has no rules for it." } } @else {
                (table("Permissions", &["Verbs", "Resources", "API groups", "Names"], html! {
                    @for rule in account.rules.iter().take(RULES) {
                        tr {
                            td { (rule.verbs.join(", ")) }
                            td { (rule.resources.iter().chain(&rule.non_resource_urls).cloned().collect::<Vec<_>>().join(", ")) }
                            td { (rule.api_groups.iter().map(|group| if group.is_empty() { "core" } else { group }).collect::<Vec<_>>().join(", ")) }
                            td { (rule.resource_names.join(", ")) }
                        }
                    }
                }))
                }
                @if account.rules.len() > RULES { p { "… and " (account.rules.len() - RULES) " more rules" } }
            }
        }
    };
    html! {
        @match &found {
            Some(found) if found.is_empty() => p { "The manifests of this version ask for no permission." },
            Some(found) => {
                (accounts("In its namespaces", &found.namespaced))
                (accounts("In the whole cluster", &found.cluster))
                (accounts("For users, or given by others", &found.unbound))
            },
            None if shown.view.image.is_empty() => p { "This version has no image that would tell them." },
            None => {
                p { "Not in this catalog: it has no manifests of this version. They are in the bundle image:" }
                (code("Bundle image", &shown.view.image))
            },
        }
    }
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

/// A needed package: in each catalog, its highest version in the wanted range.
fn package_need(query: &AcrossQuery, value: &str) -> Result<Markup, Problem> {
    let need: PackageRequired = serde_json::from_str(value).unwrap_or_default();
    let range = Range::parse(&need.version_range).ok();
    let mut found = Vec::new();
    for (catalog, snapshot) in query.loaded() {
        let Some(package) = snapshot.package_answers(&need.package_name) else {
            continue;
        };
        let stored = channels(snapshot, package);
        let all = read(&stored)?;
        let entries = all.iter().flat_map(|channel| &channel.entries);
        let versions = entries.filter_map(|entry| Version::parse(&entry.version).ok());
        let fits = |version: &Version| range.as_ref().is_some_and(|range| range.contains(version));
        let best = if package.quarantined {
            Err("left out for its errors")
        } else {
            versions.filter(fits).max().ok_or("no version fits")
        };
        found.push((catalog.as_str(), best));
    }
    Ok(html! {
        p {
            "Package " strong { (need.package_name) } " " code { (need.version_range) }
            @if range.is_none() { " " (badge("error", "no range of versions")) }
            @if found.is_empty() { " " (badge("error", "in no catalog here")) }
        }
        @if !found.is_empty() {
            ul { @for (catalog, best) in &found {
                li {
                    a href=(links::package(catalog, &need.package_name)) { (catalog) } " "
                    @match best {
                        Ok(version) => { (version) " " (badge("good", "fits")) },
                        Err(why) => (badge("error", why)),
                    }
                }
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
