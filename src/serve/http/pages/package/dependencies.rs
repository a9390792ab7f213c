//! The needs of a version with their providers, and the packages that depend on it.

use axum::response::Response;
use maud::{Markup, html};

use crate::queries::records::dependencies::{Need, NeededBy};
use crate::serve::http::api::across::dependencies::{needed_by, needs};
use crate::serve::http::api::request::{LOOKUPS, QueryRequest};
use crate::serve::http::pages::package::subject::{ShownVersion, Subject};
use crate::serve::http::pages::parts::{api_version, badge, code, counted, empty, table};
use crate::serve::http::pages::{links, request};
use fbc::presentation::{AccountRules, Permissions};

/// How many rules of an account, and how many dependents in a catalog, are listed.
const RULES: usize = 200;
const DEPENDENTS: usize = 200;
/// How many APIs of a dependent, and how many providers of an API in a catalog, are named.
const APIS: usize = 20;

pub(crate) async fn show(request: QueryRequest) -> Response {
    request::run(request, &LOOKUPS, &["version"], |query| {
        let subject = Subject::of(query)?;
        subject.of_version(query, |shown| {
            let (needs, beyond) = needs(query, &shown.view)?;
            let body = html! {
                (shown.heading("Needs"))
                @if needs.is_empty() {
                    (empty(html! { p { "This version needs no other package and no other API." } }))
                } @else {
                    ul.problems { @for need in &needs { li { (shown_need(need)) } } }
                    @if beyond > 0 { p { "… and " (counted(beyond, "further need")) } }
                    p.soft { "OLM v0 installs the needs of a version, too. OLM v1 refuses versions with dependencies." }
                }
                h2 { "Needed by" }
                (shown_dependents(&needed_by(query, &subject.record.summary.name)?))
                h2 { "Permissions" }
                (permissions(shown))
            };
            let twin = links::with(
                &subject.own_api("/dependencies"),
                &[("version", shown.name().unwrap_or_default())],
            );
            Ok(subject.page("dependencies", &body).twin(twin))
        })
    })
    .await
}

/// The permissions of the operator, where the catalog has the manifests that tell them.
fn permissions(shown: &ShownVersion<'_>) -> Markup {
    let found = Permissions::from_bundle(shown.line);
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
fn shown_dependents(found: &[NeededBy<'_>]) -> Markup {
    html! {
        @if found.is_empty() {
            (empty(html! { p { "No newest version of another package needs this one." } }))
        }
        @for of_catalog in found {
            p { "In " (of_catalog.catalog) ":" }
            ul.links { @for one in of_catalog.packages.iter().take(DEPENDENTS) {
                li {
                    a href=(links::package(of_catalog.catalog, one.package)) { (one.package) } " " (one.version)
                    @if let Some(range) = one.range { " " code { (range) } }
                    @for api in one.apis.iter().take(APIS) { " " code { (api.kind) } }
                    @if one.apis.len() > APIS { " …" }
                }
            } }
            @let beyond = of_catalog.packages.len().saturating_sub(DEPENDENTS);
            @if beyond > 0 { p { "… and " (counted(beyond, "further package")) } }
        }
    }
}

fn shown_need(need: &Need<'_>) -> Markup {
    html! {
        @match need {
            Need::Constraint { value } => { p { "A constraint:" } (code("Constraint", value.get())) },
            Need::Package { package, range, readable, catalogs } => {
                p {
                    "Package " strong { (package) } " " code { (range) }
                    @if !readable { " " (badge("error", "no range of versions")) }
                    @if catalogs.is_empty() { " " (badge("error", "in no catalog here")) }
                }
                @if !catalogs.is_empty() {
                    ul { @for one in catalogs {
                        li {
                            a href=(links::package(one.catalog, package)) { (one.catalog) } " "
                            @match (&one.version, one.reason) {
                                (Some(version), _) => { (version) " " (badge("good", "fits")) },
                                (None, why) => (badge("error", why.unwrap_or_default())),
                            }
                        }
                    } }
                }
            },
            Need::Api { api, catalogs } => {
                p {
                    "Kind "
                    @if catalogs.is_empty() { (api.kind) } @else {
                        a href=(links::kind(&api.group, &api.kind)) { (api.kind) }
                    }
                    " " code { (api_version(api)) }
                    @if catalogs.is_empty() { " " (badge("error", "in no catalog here")) }
                }
                @if !catalogs.is_empty() {
                    ul { @for one in catalogs {
                        li { (one.catalog) ": "
                            @for package in one.packages.iter().take(APIS) {
                                a href=(links::package(one.catalog, package)) { (package) } " "
                            }
                            @if one.packages.len() > APIS { "…" }
                        }
                    } }
                }
            },
        }
    }
}
