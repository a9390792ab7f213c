//! The routes of the HTTP API, made from its description.

use std::sync::LazyLock;

use axum::response::Response;
use maud::html;
use serde_json::Value;

use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::parts::table;
use crate::serve::http::pages::{links, request};
use crate::serve::http::queries::request::{LOOKUPS, QueryRequest};

static DESCRIPTION: LazyLock<Value> = LazyLock::new(|| {
    // A test reads it.
    serde_json::from_slice(include_bytes!("../queries/openapi.json")).unwrap_or_default()
});

pub(super) async fn show(request: QueryRequest) -> Response {
    request::run(request, &LOOKUPS, &[], |query| {
        let none = serde_json::Map::new();
        let paths = DESCRIPTION["paths"].as_object().unwrap_or(&none);
        let body = html! {
            h1 { "API" }
            p.lead { "Programs read the same as these pages. " a href="/openapi.json" { "openapi.json" } " describes each answer." }
            p { "GraphQL of: "
                @for (name, _) in query.loaded() {
                    a href=(links::catalog(name.as_str(), "/api/v1/graphql")) { (name) } " "
                }
            }
            @for (path, methods) in paths {
                @let get = &methods["get"];
                section.route {
                    h2 { code { "GET " (path) } }
                    p { (text(&get["summary"])) }
                    @if let Some(parameters) = get["parameters"].as_array() {
                        (table(&format!("Parameters of {path}"), &["Parameter", "In", "Meaning"], html! {
                            @for parameter in parameters {
                                @let parameter = resolved(parameter);
                                tr {
                                    th scope="row" { code { (text(&parameter["name"])) } @if parameter["required"] == true { " *" } }
                                    td { (text(&parameter["in"])) }
                                    td { (text(&parameter["description"])) }
                                }
                            }
                        }))
                    }
                }
            }
        };
        Ok(Page::new("API", body).twin("/openapi.json"))
    })
    .await
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A parameter, also where only its name stands.
fn resolved(parameter: &Value) -> &Value {
    match parameter["$ref"].as_str() {
        Some(reference) => DESCRIPTION
            .pointer(reference.trim_start_matches('#'))
            .unwrap_or(parameter),
        None => parameter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_has_paths_with_summaries() {
        let paths = DESCRIPTION["paths"].as_object().unwrap();
        assert!(paths.len() > 10);
        for (path, methods) in paths {
            for parameter in methods["get"]["parameters"]
                .as_array()
                .into_iter()
                .flatten()
            {
                assert!(!text(&resolved(parameter)["name"]).is_empty(), "{path}");
            }
        }
    }
}
