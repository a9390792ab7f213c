//! The parts of the API's description that several operations refer to.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use crate::serve::http::api::operation::{CONTINUE, FIELDS, LIMIT, Parameter};

pub(super) fn reference(kind: &str, name: &str) -> Value {
    json!({"$ref": format!("#/components/{kind}/{name}")})
}

pub(super) fn path_parameter(name: &str, description: &str, example: &str) -> Value {
    json!({
        "name": name,
        "in": "path",
        "description": description,
        "schema": {"type": "string", "minLength": 1},
        "example": example,
        "required": true,
    })
}

pub(super) fn response(
    description: &str,
    headers: &[&'static str],
    contents: Map<String, Value>,
) -> Value {
    let mut response = json!({"description": description});
    if !headers.is_empty() {
        let headers = headers.iter().map(|name| {
            let name = (*name).to_owned();
            let header = reference("headers", &name);
            (name, header)
        });
        response["headers"] = Value::Object(headers.collect());
    }
    if !contents.is_empty() {
        response["content"] = contents.into();
    }
    response
}

pub(super) fn problem() -> Value {
    json!({"schema": reference("schemas", "Problem")})
}

/// The parameters that several operations have.
pub(super) fn shared_parameters() -> IndexMap<&'static str, Value> {
    let mut parameters = IndexMap::new();
    parameters.insert(
        "catalog",
        json!({
            "name": "catalog",
            "in": "path",
            "description": "The catalog, as it is configured.",
            "schema": {
                "type": "string",
                "pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$",
                "maxLength": 253,
            },
            "example": "community",
            "required": true,
        }),
    );
    parameters.insert(
        "package",
        path_parameter("package", "The package.", "ferry-operator"),
    );
    for shared in [&LIMIT, &CONTINUE, &FIELDS] {
        parameters.insert(shared.name, Parameter::describe(shared));
    }
    parameters
}

/// The headers of responses.
pub(super) fn shared_headers() -> IndexMap<&'static str, Value> {
    let optional = BTreeSet::from(["Link", "Almanac-Hint"]);
    let headers = [
        ("ETag", "Changes with the answer."),
        (
            "Last-Modified",
            "When the content of the catalog last changed.",
        ),
        (
            "Cache-Control",
            "`no-cache`: what is kept has to be checked.",
        ),
        (
            "Link",
            "With `rel=\"next\"` to the next page, when there is one.",
        ),
        ("Retry-After", "When to try again, in seconds."),
        ("Allow", "What is answered here."),
        ("WWW-Authenticate", "The challenge for a bearer token."),
        (
            "Almanac-Hint",
            "Why nothing matches, with similar names; absent when anything does.",
        ),
    ];
    let headers = headers.into_iter().map(|(name, description)| {
        let mut header = json!({"description": description, "schema": {"type": "string"}});
        if !optional.contains(name) {
            header["required"] = true.into();
        }
        if name == "Retry-After" {
            header["schema"]["pattern"] = "^[0-9]+$".into();
        }
        (name, header)
    });
    headers.collect()
}

/// The responses that several operations have.
pub(super) fn shared_responses() -> IndexMap<&'static str, Value> {
    const PROBLEM: &[&str] = &["application/problem+json"];
    const SENTENCE: &[&str] = &["text/plain", "application/problem+json"];
    let busy = "The catalog is not loaded yet, or a worker or memory limit is reached.";
    let responses: [(_, _, &[&str], &[&'static str]); 13] = [
        (
            "BadRequest",
            "A parameter or a name that cannot be used.",
            PROBLEM,
            &[],
        ),
        ("NotFound", "There is nothing of that name.", PROBLEM, &[]),
        (
            "Gone",
            "The catalog changed since the first page.",
            PROBLEM,
            &[],
        ),
        (
            "MethodNotAllowed",
            "Only GET and HEAD are answered here.",
            PROBLEM,
            &["Allow"],
        ),
        (
            "Internal",
            "Something that is not the client's fault.",
            PROBLEM,
            &[],
        ),
        (
            "NotModified",
            "The client has it already (`If-None-Match`, `If-Modified-Since`).",
            &[],
            &[],
        ),
        (
            "PreconditionFailed",
            "The answer is not the one that `If-Match` or `If-Unmodified-Since` asks for.",
            &[],
            &[],
        ),
        (
            "Sentence",
            "A sentence, as catalogd writes it, or a problem when `Accept` names that.",
            SENTENCE,
            &[],
        ),
        (
            "OtherMethod",
            "Other methods are answered here. A problem says in `Allow` which.",
            SENTENCE,
            &[],
        ),
        ("TryAgain", busy, SENTENCE, &["Retry-After"]),
        (
            "Unauthorized",
            "The catalog is read with a bearer token, and this is none that counts.",
            SENTENCE,
            &["WWW-Authenticate"],
        ),
        (
            "Forbidden",
            "The catalog is read with a client certificate.",
            SENTENCE,
            &[],
        ),
        ("Unavailable", busy, PROBLEM, &["Retry-After"]),
    ];
    let responses = responses
        .into_iter()
        .map(|(name, description, media_types, headers)| {
            let contents = media_types.iter().map(|media_type| {
                let content = match *media_type {
                    "text/plain" => json!({"schema": {"type": "string"}}),
                    _ => problem(),
                };
                ((*media_type).to_owned(), content)
            });
            (name, response(description, headers, contents.collect()))
        });
    responses.collect()
}
