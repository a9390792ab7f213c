//! Probes, metrics and status, on a port of their own.

use std::time::SystemTime;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;

use crate::fbc::problem::Problem;
use crate::snapshot::{Catalog, Catalogs};
use crate::store::{Counts, Pass, Revision, RevisionId};

#[derive(Clone)]
struct Admin {
    catalogs: Catalogs,
    metrics: PrometheusHandle,
}

/// The routes of the admin port.
pub fn router(catalogs: Catalogs, metrics: PrometheusHandle) -> Router {
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(render_metrics))
        .route("/status", get(status))
        .with_state(Admin { catalogs, metrics })
}

/// Ready as soon as each catalog came from the store or had its first pass,
/// whatever became of that: one bad catalog must not hold back the others.
async fn ready(State(admin): State<Admin>) -> Response {
    if admin.catalogs.settled() {
        return "ok\n".into_response();
    }
    let waiting: Vec<&str> = admin
        .catalogs
        .iter()
        .filter(|catalog| !catalog.status().settled)
        .map(|catalog| catalog.name.as_str())
        .collect();
    (
        StatusCode::SERVICE_UNAVAILABLE,
        format!("not looked for yet: {}\n", waiting.join(", ")),
    )
        .into_response()
}

async fn render_metrics(State(admin): State<Admin>) -> Response {
    admin.metrics.run_upkeep();
    (
        [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        admin.metrics.render(),
    )
        .into_response()
}

async fn status(State(admin): State<Admin>) -> Response {
    let catalogs: Vec<CatalogStatus> = admin.catalogs.iter().map(CatalogStatus::of).collect();
    Json(Status {
        version: env!("CARGO_PKG_VERSION"),
        catalogs,
    })
    .into_response()
}

#[derive(Serialize)]
struct Status {
    version: &'static str,
    catalogs: Vec<CatalogStatus>,
}

/// What `/status` says of a catalog. Times are RFC 3339.
#[derive(Serialize)]
struct CatalogStatus {
    name: String,
    source: String,
    /// The repository that the last answer about the source came from: its
    /// own, or a mirror's. None before the first answer, and for sources that
    /// are in no registry.
    served_by: Option<String>,
    /// `serving`, `loading` (nothing yet) or `failing` (nothing yet, and the
    /// last pass failed).
    state: &'static str,
    revision: Option<RevisionStatus>,
    problems: Vec<Problem>,
    /// What was wrong with the catalog that the last pass refused, if it did.
    refused: Vec<Problem>,
    /// When the last pass ended.
    last_pass: Option<String>,
    /// When the next one is due; none when the source is never polled.
    next_pass: Option<String>,
    /// How many passes in a row failed.
    failures: u32,
    /// Why the last of them did.
    last_error: Option<String>,
    /// The last pass that changed something or failed.
    last_result: Option<PassStatus>,
}

#[derive(Serialize)]
struct RevisionStatus {
    id: RevisionId,
    source: String,
    digest: String,
    content: String,
    modified: String,
    committed: String,
    counts: Counts,
}

#[derive(Serialize)]
struct PassStatus {
    started: String,
    finished: String,
    #[serde(flatten)]
    pass: Pass,
}

impl CatalogStatus {
    fn of(catalog: &Catalog) -> Self {
        let status = catalog.status();
        let snapshot = catalog.snapshot();
        let state = match (&snapshot, status.failures) {
            (Some(_), _) => "serving",
            (None, 0) => "loading",
            (None, _) => "failing",
        };
        let last_error = status
            .pass
            .as_ref()
            .filter(|_| status.failures > 0)
            .and_then(|pass| pass.error.clone());
        Self {
            name: catalog.name.to_string(),
            source: status.source,
            served_by: status.served_by,
            state,
            revision: snapshot.map(|snapshot| RevisionStatus::of(snapshot.revision())),
            problems: status.problems.to_vec(),
            refused: status.refused.to_vec(),
            last_pass: status.last_pass.map(rfc3339),
            next_pass: status.next_pass.map(rfc3339),
            failures: status.failures,
            last_error,
            last_result: status.pass.map(|pass| PassStatus {
                started: rfc3339(pass.started),
                finished: rfc3339(pass.finished),
                pass,
            }),
        }
    }
}

impl RevisionStatus {
    fn of(revision: &Revision) -> Self {
        Self {
            id: revision.id,
            source: revision.source.clone(),
            digest: revision.digest.to_string(),
            content: revision.content.to_string(),
            modified: rfc3339(revision.modified),
            committed: rfc3339(revision.committed),
            counts: revision.counts,
        }
    }
}

fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}
