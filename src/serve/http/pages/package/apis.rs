//! The kinds that a version provides and needs, with examples.

use std::collections::{HashMap, HashSet};

use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;

use crate::answers::rest::install::documents;
use crate::serve::http::api::across::AcrossQuery;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest};
use crate::serve::http::pages::package::subject::Subject;
use crate::serve::http::pages::parts::{api_version, code, empty, fold, notice};
use crate::serve::http::pages::{links, request};
use fbc::document::Gvk;
use fbc::presentation::{ApiDescriptions, Examples, KindDescription};
use fbc::text::display::clip;

/// The longest example text, in bytes.
const SHOWN: usize = 64 << 10;
/// How many APIs are listed, and how many examples of each. Real packages have 66 examples.
const APIS: usize = 200;
const EXAMPLES: usize = 100;

pub(crate) async fn show(request: QueryRequest) -> Response {
    request::run(request, &LOOKUPS, &["version"], |query| {
        let subject = Subject::of(query)?;
        subject.of_version(query, |shown| {
            let view = &shown.view;
            let described = ApiDescriptions::from_bundle(shown.line);
            let (kinds, examples) = (
                described.by_kind(),
                described.examples_by_api(&view.provides),
            );
            let needed = &view.requires[..view.requires.len().min(APIS)];
            let linked = provided_here(query, needed);
            let version = shown.name().unwrap_or_default();
            let twin = links::with(&subject.own_api("/examples"), &[("version", version)]);
            let body = html! {
                (shown.heading("APIs"))
                @if view.provides.is_empty() {
                    (empty(html! { p { "This version provides no API." } }))
                }
                @for api in view.provides.iter().take(APIS) { (provided(&subject, version, api, &kinds, &examples)) }
                @if view.provides.len() > APIS { p { "… and " (view.provides.len() - APIS) " more" } }
                @for example in examples.others.iter().take(EXAMPLES) {
                    (fold(html! { "Example of another kind" }, example_code(example)))
                }
                @if let Some((text, reason)) = &described.unreadable {
                    (notice("warning", html! { p { "Its examples are not JSON: " (reason) "." } }))
                    (code("Examples", &clip(text, SHOWN)))
                }
                @if !needed.is_empty() {
                    h2 { "Needed APIs" }
                    ul.links { @for api in needed {
                        li {
                            @if linked.contains(&(&api.group, &api.kind)) {
                                a href=(links::kind(&api.group, &api.kind)) { (api.kind) }
                            } @else {
                                (api.kind)
                            }
                            " " code { (api_version(api)) }
                        }
                    } }
                    @if needed.len() < view.requires.len() { p { "… and " (view.requires.len() - needed.len()) " more" } }
                }
            };
            Ok(subject.page("apis", &body).twin(twin))
        })
    })
    .await
}

/// The groups and kinds among these that a package of any catalog provides, in some version.
fn provided_here<'a>(query: &'a AcrossQuery, apis: &[Gvk]) -> HashSet<(&'a str, &'a str)> {
    let kinds = apis.iter().map(|api| (&*api.group, &*api.kind));
    let wanted: HashSet<(&str, &str)> = kinds.collect();
    let all = query.loaded().flat_map(|(_, snapshot)| snapshot.apis());
    let all = all.map(|api| (&*api.group, &*api.kind));
    all.filter(|kind| wanted.contains(kind)).collect()
}

fn provided<'a>(
    subject: &Subject<'_>,
    version: &str,
    api: &'a Gvk,
    kinds: &HashMap<(&str, &str), &KindDescription>,
    examples: &Examples<'a>,
) -> Markup {
    let download = links::with(
        &subject.own_api("/examples"),
        &[
            ("version", version),
            ("group", &api.group),
            ("kind", &api.kind),
            ("format", "yaml"),
        ],
    );
    let description = kinds.get(&(api.group.as_str(), api.kind.as_str()));
    let examples = examples.of(api);
    html! {
        section.api {
            h3 {
                a href=(links::kind(&api.group, &api.kind)) { (api.kind) } " "
                code { (api_version(api)) }
            }
            @if let Some(description) = description {
                @if !description.description.is_empty() { p { (description.description) } }
            }
            @if !examples.is_empty() {
                p { a href=(download) download=(file(&api.kind)) { "Download as YAML" } }
            }
            @for (number, example) in examples.iter().enumerate().take(EXAMPLES) {
                (fold(
                    html! { "Example" @if examples.len() > 1 { " " (number + 1) } },
                    example_code(example),
                ))
            }
        }
    }
}

fn example_code(example: &Value) -> Markup {
    code(
        "Example",
        &clip(&documents(std::slice::from_ref(example)), SHOWN),
    )
}

/// The name of a downloaded file.
fn file(kind: &str) -> String {
    let kind: String = kind
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(60)
        .collect();
    format!("{}.yaml", kind.to_lowercase())
}
