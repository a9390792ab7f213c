//! The support phases of a package, and the one that a day is in.

use std::sync::Arc;
use std::time::SystemTime;

use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};

use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::api::request::{LOOKUPS, ParsedQuery, QueryRequest, json, respond_dated};
use crate::serve::http::api::response::QueryResponse;
use crate::snapshot::{Query, Snapshot};
use fbc::lifecycle::{Lifecycle, SCHEMA, Support, VersionLifecycle, is_date, support};

/// The fields of the answer, in their order.
const FIELDS: &[&str] = &[
    "package", "date", "version", "state", "phase", "until", "versions",
];

#[derive(Serialize)]
struct LifecycleRecord<'a> {
    package: &'a str,
    date: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<&'a str>,
    versions: &'a [VersionLifecycle],
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Stored {
    version: String,
}

/// The lifecycles of a package: none, one, or two that contradict each other.
pub(crate) fn lifecycles(snapshot: &Arc<Snapshot>, package: &str) -> Vec<Lifecycle> {
    let query = Query {
        schema: Some(SCHEMA.into()),
        package: Some(package.into()),
        name: None,
    };
    let selection = Arc::clone(snapshot).select(&query);
    let blobs = selection.metas().take(2);
    let blobs = blobs.filter_map(|meta| Lifecycle::read(&snapshot.line(meta)).ok());
    blobs.collect()
}

/// The day that a parameter names, by default that of now in UTC.
pub(crate) fn day(wanted: Option<&str>) -> Result<String, Problem> {
    match wanted {
        None => {
            let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
            Ok(now.get(..10).unwrap_or_default().to_owned())
        }
        Some(date) if is_date(date) => Ok(date.to_owned()),
        Some(other) => {
            let detail = format!("date is a day such as 2026-01-31, and not {:?}", cut(other));
            Err(Problem::invalid_parameter("date", detail))
        }
    }
}

/// The phases of a package. The answer changes with the day, so it has no date.
pub(super) async fn one(request: QueryRequest) -> Response {
    match request.parse(&["version", "date", "fields"]) {
        Ok((query, context)) => respond_dated(&LOOKUPS, query, context, None, Box::new(work)).await,
        Err(problem) => problem.into_response(),
    }
}

fn work(query: &ParsedQuery) -> Result<QueryResponse, Problem> {
    let package = query.package(query.path("package"))?;
    let date = day(query.parameters.get("date"))?;
    let stored = query.snapshot.answer(package.summary);
    let stored: Stored = serde_json::from_slice(&stored).unwrap_or_default();
    let version = query.parameters.get("version").unwrap_or(&stored.version);
    let blobs = lifecycles(&query.snapshot, &package.name);
    let (state, phase) = match support(&blobs, version, &date) {
        Support::Phase(phase, _) => ("phase", Some(phase)),
        Support::Ended(_) => ("self-support", None),
        Support::Unknown => ("unknown", None),
        Support::Contradicted => ("contradicted", None),
    };
    let end = phase.map(|phase| phase.end_date.as_str());
    let record = LifecycleRecord {
        package: &package.name,
        date: &date,
        version,
        state,
        phase: phase.map(|phase| phase.name.as_str()),
        until: end.filter(|end| !end.is_empty()),
        versions: match &blobs[..] {
            [one] => &one.versions,
            _ => &[],
        },
    };
    Ok(QueryResponse::Object {
        json: json(&record)?,
        fields: FIELDS,
    })
}
