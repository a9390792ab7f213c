//! The kinds that a version of a package owns, with their descriptions and examples.

use std::collections::HashSet;

use axum::extract::Path;
use axum::response::Response;
use serde_json::Value;

use crate::answers::rest::install::documents;
use crate::queries::records::examples::{ApiRecord, ExamplesRecord, Unreadable};
use crate::serve::http::api::bundles::{entry, line};
use crate::serve::http::api::operation::{
    Answer, Content, FIELDS, Operation, Parameter, QueryAnswer,
};
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::api::request::{
    LOOKUPS, PackagePath, ParsedQuery, QueryRequest, json, read,
};
use crate::serve::http::api::response::QueryResponse;
use fbc::document::Gvk;
use fbc::presentation::{ApiDescriptions, BundleView};

/// `/catalogs/{catalog}/api/v1/packages/{package}/examples`.
pub(crate) static EXAMPLES: Operation = Operation {
    id: "examples",
    summary: "The kinds of a version with descriptions and examples",
    description: "As JSON, the kinds that the version owns. As YAML, only their examples, one document \
each.",
    parameters: &[
        Parameter::text(
            "version",
            "The version, by its number or its bundle; by default the head of the default \
channel.",
        ),
        Parameter::text("group", "Only kinds of this group."),
        Parameter::text("kind", "Only this kind.").example("Ferry"),
        Parameter::choice(
            "format",
            "How the answer is written.",
            &["json", "yaml", ""],
        )
        .default("json"),
        FIELDS,
    ],
    answer: Answer::Query(
        QueryAnswer::object::<ExamplesRecord<'_>>().or(&[Content::Any("application/yaml")]),
    ),
};

/// The examples of a version.
pub(crate) async fn list(request: QueryRequest, Path(path): Path<PackagePath>) -> Response {
    let work = move |query: &ParsedQuery| work(query, &path);
    request.run(&LOOKUPS, &EXAMPLES, work).await
}

fn work(query: &ParsedQuery, path: &PackagePath) -> Result<QueryResponse, Problem> {
    let parameters = &query.parameters;
    let package = query.package(&path.package)?;
    let stored = query.channels(package);
    let all = read(&stored)?;
    let chosen = entry(&all, parameters.get("version"))?;
    let line = chosen.and_then(|entry| line(&query.snapshot, &package.name, &entry.name));
    let line = line.unwrap_or_default();
    let view = BundleView::new(&line);
    let described = ApiDescriptions::from_bundle(&line);
    let (group, kind) = (parameters.get("group"), parameters.get("kind"));
    let wanted = |api: &&Gvk| {
        group.is_none_or(|group| api.group == group) && kind.is_none_or(|kind| api.kind == kind)
    };
    let apis: Vec<&Gvk> = view.provides.iter().filter(wanted).collect();
    let examples = described.examples_by_api(&view.provides);
    match parameters.get("format") {
        None | Some("json") => {}
        Some("yaml") => {
            // An API that is given twice has its examples once.
            let mut seen = HashSet::new();
            let apis = apis.into_iter().filter(|api| seen.insert(*api));
            let examples = apis.flat_map(|api| examples.of(api));
            let examples: Vec<Value> = examples.map(|example| Value::clone(example)).collect();
            return Ok(QueryResponse::Text {
                bytes: documents(&examples).into(),
                media_type: "application/yaml",
            });
        }
        Some(other) => {
            let detail = format!("format is json or yaml, and not {:?}", cut(other));
            return Err(Problem::invalid_parameter("format", detail));
        }
    }
    let kinds = described.by_kind();
    let records = apis.into_iter().map(|api| {
        let known = kinds.get(&(api.group.as_str(), api.kind.as_str()));
        ApiRecord {
            group: &api.group,
            version: &api.version,
            kind: &api.kind,
            display_name: known.map_or("", |one| &one.display_name),
            description: known.map_or("", |one| &one.description),
            examples: examples.of(api).to_vec(),
        }
    });
    let record = ExamplesRecord {
        package: &package.name,
        bundle: chosen.map_or("", |entry| &entry.name),
        version: chosen.map_or("", |entry| &entry.version),
        apis: records.collect(),
        unreadable: described
            .unreadable
            .as_ref()
            .map(|(text, reason)| Unreadable { text, reason }),
    };
    Ok(QueryResponse::object::<ExamplesRecord<'_>>(json(&record)?))
}
