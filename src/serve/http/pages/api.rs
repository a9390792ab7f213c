//! The routes of the HTTP API, made from its description, with a form to try each.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Extension;
use axum::response::{IntoResponse as _, Response};
use http::header::LOCATION;
use http::{HeaderValue, StatusCode};
use maud::{Markup, html};
use serde_json::Value;

use crate::answers::rest::records::percent_encoded;
use crate::serve::http::api::description::Description;
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::api::request::{LOOKUPS, QueryRequest};
use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::parts::{code, counted, fold, table};
use crate::serve::http::pages::{links, request};
use crate::serve::http::query::unescape;

/// The longest query of a form, in bytes.
const LONGEST: usize = 4_096;

/// The reference. A form comes back here with its `route` and leads to it.
pub(crate) async fn show(
    Extension(description): Extension<Arc<Description>>,
    request: QueryRequest,
) -> Response {
    if request
        .query()
        .split('&')
        .any(|pair| pair.starts_with("route="))
    {
        return match tried(description.value(), request.query()) {
            Ok(location) => (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response(),
            Err(problem) => problem.into_response(),
        };
    }
    request::run(request, &LOOKUPS, &[], move |query| {
        let document = description.value();
        let none = serde_json::Map::new();
        let paths = document["paths"].as_object().unwrap_or(&none);
        let origin = query.site.origin.as_str();
        let body = html! {
            h1 { "API" }
            p.lead { "Programs read the same as these pages. " a href="/openapi.json" { "openapi.json" } " describes each answer." }
            p { "GraphQL of: "
                @for (name, _) in query.loaded() {
                    a href=(links::catalog(name.as_str(), "/api/v1/graphql")) { (name) } " "
                }
            }
            (fold(html! { (counted(paths.len(), "route")) }, html! {
                ul.links { @for (path, methods) in paths {
                    @let get = &methods["get"];
                    li { a href={"#" (text(&get["operationId"]))} { code { (path) } } " " (prose(text(&get["summary"]))) }
                } }
            }))
            @for (path, methods) in paths { (route(document, origin, path, &methods["get"])) }
        };
        Ok(Page::new("API", body).twin("/openapi.json"))
    })
    .await
}

fn route(document: &Value, origin: &str, path: &str, get: &Value) -> Markup {
    let parameters = parameters(document, get);
    let schema = &get["responses"]["200"]["content"]["application/json"]["schema"];
    let schema = serde_json::to_string_pretty(resolved(document, schema)).unwrap_or_default();
    html! {
        section.route {
            h2 id=(text(&get["operationId"])) { code { "GET " (path) } }
            p { (prose(text(&get["summary"]))) }
            @if !parameters.is_empty() {
                (table(&format!("Parameters of {path}"), &["Parameter", "In", "Meaning"], html! {
                    @for parameter in &parameters {
                        tr {
                            th scope="row" { code { (text(&parameter["name"])) } @if parameter["required"] == true { " *" } }
                            td { (text(&parameter["in"])) }
                            td { (prose(text(&parameter["description"]))) (values(resolved(document, &parameter["schema"]))) }
                        }
                    }
                }))
            }
            (fold(html! { "Try" }, html! {
                form.fields action="/api" {
                    input type="hidden" name="route" value=(path);
                    @for parameter in &parameters { (field(document, parameter)) }
                    button { "Get" }
                }
                (code("curl", &example(origin, path, &parameters)))
            }))
            @if schema != "null" { (fold(html! { "Schema of the answer" }, code("Schema", &schema))) }
        }
    }
}

/// Text with its code marked.
fn prose(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// The default and the allowed values of a parameter.
fn values(schema: &Value) -> Markup {
    let of_items = &schema["items"];
    let schema = if of_items["enum"].is_array() {
        of_items
    } else {
        schema
    };
    let plain = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    html! {
        @if let Some(all) = schema["enum"].as_array() {
            " Values: " @for (at, one) in all.iter().enumerate() { @if at > 0 { ", " } code { (plain(one)) } } "."
        }
        @if !schema["default"].is_null() { " Default: " code { (plain(&schema["default"])) } "." }
    }
}

/// A field for a parameter: a list to choose from where its values are known.
fn field(document: &Value, parameter: &Value) -> Markup {
    let name = text(&parameter["name"]);
    let schema = resolved(document, &parameter["schema"]);
    let choices: Vec<&str> = match schema["enum"].as_array() {
        Some(all) => {
            let all = all.iter().filter_map(Value::as_str);
            all.filter(|choice| !choice.is_empty()).collect()
        }
        None if schema["type"] == "boolean" => vec!["false", "true"],
        None => Vec::new(),
    };
    html! {
        label { (name) " "
            @if choices.is_empty() {
                input name=(name) maxlength="300" placeholder=(example_of(parameter)) required[parameter["required"] == true];
            } @else {
                select name=(name) {
                    option value="" { "–" }
                    @for choice in &choices { option value=(choice) { (choice) } }
                }
            }
        }
    }
}

/// The command for a route, with the examples of its description.
fn example(origin: &str, path: &str, parameters: &[&Value]) -> String {
    let given = parameters.iter().filter(|one| one["required"] == true);
    let given = given.map(|one| (text(&one["name"]), example_of(one)));
    let given: Vec<(&str, &str)> = given.collect();
    format!("curl -fsS '{origin}{}'", filled(path, parameters, &given))
}

fn example_of(parameter: &Value) -> &str {
    let example = &parameter["example"];
    let first = example.as_array().and_then(|all| all.first());
    first.unwrap_or(example).as_str().unwrap_or_default()
}

/// A path with its parameters. Those of the path that are missing keep their names.
fn filled(path: &str, parameters: &[&Value], given: &[(&str, &str)]) -> String {
    let mut path = path.to_owned();
    let mut query = Vec::new();
    for (name, value) in given.iter().filter(|(_, value)| !value.is_empty()) {
        let mut all = parameters.iter();
        let Some(parameter) = all.find(|one| one["name"] == *name) else {
            continue;
        };
        if parameter["in"] == "path" {
            path = path.replace(&format!("{{{name}}}"), &percent_encoded(value));
        } else {
            query.push((*name, *value));
        }
    }
    links::with(&path, &query)
}

/// The address that a form leads to.
fn tried(document: &Value, query: &str) -> Result<HeaderValue, Problem> {
    if query.len() > LONGEST {
        let detail = format!("the parameters are longer than {LONGEST} bytes");
        return Err(Problem::invalid_parameter("", detail));
    }
    let mut given: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let read = |text| {
            unescape(text)
                .map_err(|_| Problem::invalid_parameter("", "the escapes do not make UTF-8 text"))
        };
        given.push((read(key)?, read(value)?));
    }
    let route = given.iter().find(|(key, _)| key == "route");
    let route = route.map_or("", |(_, route)| route);
    let get = &document["paths"][route]["get"];
    if !get.is_object() {
        let detail = format!("the API has no route {:?}", cut(route));
        return Err(Problem::invalid_parameter("route", detail));
    }
    let parameters = parameters(document, get);
    let given: Vec<(&str, &str)> = given
        .iter()
        .map(|(key, value)| (&**key, &**value))
        .collect();
    let path = filled(route, &parameters, &given);
    let missing = parameters.iter().find(|one| {
        let is_given = given
            .iter()
            .any(|(key, value)| one["name"] == *key && !value.is_empty());
        one["required"] == true && !is_given
    });
    if let Some(missing) = missing {
        let name = text(&missing["name"]);
        return Err(Problem::missing_parameter(
            name,
            &format!("{name} is needed"),
        ));
    }
    HeaderValue::try_from(path).map_err(|_| Problem::path())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn parameters<'a>(document: &'a Value, get: &'a Value) -> Vec<&'a Value> {
    let all = get["parameters"].as_array().into_iter().flatten();
    all.map(|one| resolved(document, one)).collect()
}

/// A parameter or a schema, also where only its name stands.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => document
            .pointer(reference.trim_start_matches('#'))
            .unwrap_or(value),
        None => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_form_leads_to_its_route_only() {
        let route = "%2Fcatalogs%2F%7Bcatalog%7D%2Fapi%2Fv1%2Fplan";
        let document = json!({"paths": {"/catalogs/{catalog}/api/v1/plan": {"get": {
            "parameters": [
                {"$ref": "#/catalog"},
                {"name": "package", "in": "query", "required": true},
                {"name": "from", "in": "query", "required": true},
                {"name": "to", "in": "query"},
            ],
        }}}, "catalog": {"name": "catalog", "in": "path", "required": true}});
        let tried = |query: &str| {
            let location =
                tried(&document, query).map_err(|problem| problem.detail().to_owned())?;
            Ok::<_, String>(location.to_str().unwrap().to_owned())
        };
        assert_eq!(
            tried(&format!(
                "route={route}&catalog=a%2Fb&package=p&from=1%2B2&to=&x=y"
            )),
            Ok("/catalogs/a%2Fb/api/v1/plan?package=p&from=1%2B2".to_owned())
        );
        assert!(tried(&format!("route={route}&catalog=a")).is_err());
        for bad in ["route=", "route=%2F%2Fexample.com", "route=%zz"] {
            assert!(tried(bad).is_err(), "{bad}");
        }
    }
}
