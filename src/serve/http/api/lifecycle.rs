//! The support phases of a package, and the one that a day is in.

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::Path;
use axum::response::{IntoResponse as _, Response};

use crate::queries::records::lifecycle::{LifecycleRecord, SupportState};
use crate::serve::http::api::operation::{Answer, FIELDS, Operation, Parameter, QueryAnswer};
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::api::request::{
    LOOKUPS, PackagePath, ParsedQuery, QueryRequest, json, respond_dated,
};
use crate::serve::http::api::response::QueryResponse;
use crate::snapshot::{Query, Snapshot};
use fbc::lifecycle::{Lifecycle, SCHEMA, Support, is_date, support};

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

/// `/catalogs/{catalog}/api/v1/packages/{package}/lifecycle`.
pub(crate) static LIFECYCLE: Operation = Operation {
    id: "lifecycle",
    summary: "The support phases of a package",
    description: "From its blob of the schema `io.openshift.operators.lifecycles.v1alpha1`. Both days \
of a phase count.",
    parameters: &[
        Parameter::text(
            "version",
            "The version that `phase` is of; by default the newest.",
        ),
        Parameter::day("date", "The day; by default today in UTC.").example("2026-01-31"),
        FIELDS,
    ],
    answer: Answer::Query(QueryAnswer::object::<LifecycleRecord<'_>>().undated()),
};

/// The phases of a package. The answer changes with the day, so it has no date.
pub(crate) async fn one(request: QueryRequest, Path(path): Path<PackagePath>) -> Response {
    match request.parse((&LIFECYCLE).into()) {
        Ok((query, context)) => {
            respond_dated(
                &LOOKUPS,
                query,
                context,
                None,
                Box::new(move |query| work(query, &path)),
            )
            .await
        }
        Err(problem) => problem.into_response(),
    }
}

fn work(query: &ParsedQuery, path: &PackagePath) -> Result<QueryResponse, Problem> {
    let package = query.package(&path.package)?;
    let date = day(query.parameters.get("date"))?;
    let newest = query.snapshot.summary(package)?.version;
    let version = query.parameters.get("version").unwrap_or(&newest);
    let blobs = lifecycles(&query.snapshot, &package.name);
    let (state, phase) = match support(&blobs, version, &date) {
        Support::Phase(phase, _) => (SupportState::Phase, Some(phase)),
        Support::Ended(_) => (SupportState::SelfSupport, None),
        Support::Unknown => (SupportState::Unknown, None),
        Support::Contradicted => (SupportState::Contradicted, None),
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
    Ok(QueryResponse::object::<LifecycleRecord<'_>>(json(&record)?))
}
