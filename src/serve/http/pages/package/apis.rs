//! The kinds that a version provides and needs, with examples.

use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;

use crate::answers::rest::install::documents;
use crate::serve::http::pages::package::subject::{Subject, version_field};
use crate::serve::http::pages::parts::{code, empty, fold, notice};
use crate::serve::http::pages::{links, request};
use crate::serve::http::queries::across::AcrossQuery;
use crate::serve::http::queries::request::{LOOKUPS, QueryRequest, read};
use fbc::document::Gvk;
use fbc::presentation::{ApiDescriptions, BundleView};
use fbc::text::display::clip;

/// The longest example text, in bytes.
const SHOWN: usize = 64 << 10;

pub(in crate::serve::http::pages) async fn show(request: QueryRequest) -> Response {
    request::run(request, &LOOKUPS, &["version"], |query| {
        let subject = Subject::of(query)?;
        let stored = subject.channels();
        let all = read(&stored)?;
        let chosen = subject.chosen(query.parameters.get("version"), &all)?;
        let line = chosen
            .as_ref()
            .and_then(|chosen| subject.line(&chosen.name));
        let line = line.unwrap_or_default();
        let view = BundleView::of(&line);
        let described = ApiDescriptions::of(&line);
        let current = chosen.as_ref().map(|chosen| chosen.name.as_str());
        let body = html! {
            h2 { "APIs " @if let Some(chosen) = &chosen { "of " (chosen.version) } }
            form.inline {
                (version_field("Version", "version", &all, current, None))
                button { "Show" }
            }
            @if view.provides.is_empty() {
                (empty(html! { p { "This version provides no API." } }))
            }
            @for api in &view.provides { (provided(api, &described)) }
            @if let Some((text, reason)) = &described.unreadable {
                (notice("warning", html! { p { "Its examples are not JSON: " (reason) "." } }))
                (code("Examples", &clip(text, SHOWN)))
            }
            @if !view.requires.is_empty() {
                h2 { "Needed APIs" }
                ul.links { @for api in &view.requires {
                    li {
                        @if is_provided(query, api) {
                            a href=(links::kind(&api.group, &api.kind)) { (api.kind) }
                        } @else {
                            (api.kind)
                        }
                        " " code { (api.group) "/" (api.version) }
                    }
                } }
            }
        };
        let twin = match current {
            Some(name) => subject.api(&format!(
                "bundles/{name}?fields=name,providedApis,requiredApis"
            )),
            None => subject.api("packages"),
        };
        Ok(subject.page("apis", &body).twin(twin))
    })
    .await
}

/// Whether a package of any catalog provides the kind, in some version.
fn is_provided(query: &AcrossQuery, api: &Gvk) -> bool {
    let mut apis = query.loaded().flat_map(|(_, snapshot)| snapshot.apis());
    apis.any(|one| one.group == api.group && one.kind == api.kind)
}

fn provided(api: &Gvk, described: &ApiDescriptions) -> Markup {
    let kinds = described.by_kind();
    let description = kinds.get(&(api.group.as_str(), api.kind.as_str()));
    let examples: Vec<&Value> = described.examples_of(&api.group, &api.kind).collect();
    html! {
        section.api {
            h3 {
                a href=(links::kind(&api.group, &api.kind)) { (api.kind) } " "
                code { (api.group) "/" (api.version) }
            }
            @if let Some(description) = description {
                @if !description.description.is_empty() { p { (description.description) } }
            }
            @for (number, example) in examples.iter().enumerate() {
                (fold(
                    html! { "Example" @if examples.len() > 1 { " " (number + 1) } },
                    code("Example", &clip(&documents(std::slice::from_ref(example)), SHOWN)),
                ))
            }
        }
    }
}
