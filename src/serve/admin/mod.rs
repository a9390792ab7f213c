//! Probes, metrics and status, on a port of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use tokio::sync::watch;

use crate::snapshot::{Catalog, Catalogs, Snapshot};
use crate::store::{Counts, Encoding, Pass, RevisionId};
use fbc::graph::shown;
use fbc::problem::Problem;

/// How many packages with errors are named.
const MAX_QUARANTINED: usize = 100;

#[derive(Clone)]
struct Admin {
    catalogs: Catalogs,
    configuration: watch::Receiver<Configuration>,
    metrics: PrometheusHandle,
    /// Whether all catalogs were looked for at any time.
    ready: Arc<AtomicBool>,
}

/// What is known of the configuration.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Its file, if there is one.
    pub file: Option<String>,
    /// When the one that counts was read.
    pub taken: SystemTime,
    /// When a later one was refused, if it was.
    pub refused: Option<SystemTime>,
    /// Why.
    pub error: Option<String>,
    /// Keys of the file whose values count only from the next start on.
    pub needs_restart: Vec<&'static str>,
}

impl Configuration {
    /// Of one that has just been read, of this file.
    pub fn read(file: Option<String>) -> Self {
        Self {
            file,
            taken: SystemTime::now(),
            refused: None,
            error: None,
            needs_restart: Vec::new(),
        }
    }
}

/// The routes of the admin port.
pub fn router(
    catalogs: Catalogs,
    configuration: watch::Receiver<Configuration>,
    metrics: PrometheusHandle,
) -> Router {
    let admin = Admin {
        catalogs,
        configuration,
        metrics,
        ready: Arc::default(),
    };
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(render_metrics))
        .route("/status", get(status))
        .with_state(admin)
}

/// Ready as soon as each catalog came from the store or had its first pass,
/// whatever became of that: one bad catalog must not hold back the others. And
/// from then on, whatever catalogs are added.
async fn ready(State(admin): State<Admin>) -> Response {
    if admin.ready.load(Ordering::Relaxed) || admin.catalogs.first_attempts_done() {
        admin.ready.store(true, Ordering::Relaxed);
        return "ok\n".into_response();
    }
    let catalogs = admin.catalogs.all();
    let waiting: Vec<&str> = catalogs
        .iter()
        .filter(|catalog| !catalog.status().first_attempt_done)
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
    let catalogs: Vec<CatalogStatus> = admin
        .catalogs
        .all()
        .iter()
        .map(|c| CatalogStatus::of(c))
        .collect();
    let configuration = admin.configuration.borrow().clone();
    Json(Status {
        version: env!("CARGO_PKG_VERSION"),
        configuration: ConfigurationStatus {
            file: configuration.file,
            taken: rfc3339(configuration.taken),
            refused: configuration.refused.map(rfc3339),
            error: configuration.error,
            needs_restart: configuration.needs_restart,
        },
        catalogs,
    })
    .into_response()
}

#[derive(Serialize)]
struct Status {
    version: &'static str,
    configuration: ConfigurationStatus,
    catalogs: Vec<CatalogStatus>,
}

/// What `/status` says of the configuration. Times are RFC 3339.
#[derive(Serialize)]
struct ConfigurationStatus {
    file: Option<String>,
    /// When the one that counts was read.
    taken: String,
    /// When a later one was refused, and why.
    refused: Option<String>,
    error: Option<String>,
    /// Keys whose new values count only from the next start on.
    needs_restart: Vec<&'static str>,
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
    /// `serving`, `unavailable` (set so), `loading` (nothing yet) or `failing`
    /// (nothing yet, and the last pass failed).
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
    /// The first packages that the registry API leaves out, by name.
    quarantined: Vec<String>,
    bytes: Bytes,
}

/// How large the whole catalog is in each encoding, where that is ready.
#[derive(Serialize)]
struct Bytes {
    identity: usize,
    gzip: Option<usize>,
    zstd: Option<usize>,
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
            _ if catalog.routing.withheld => "unavailable",
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
            revision: snapshot.map(|snapshot| RevisionStatus::of(&snapshot)),
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
    fn of(snapshot: &Snapshot) -> Self {
        let revision = snapshot.revision();
        let packages = snapshot.packages().iter();
        let quarantined = packages.filter(|package| package.quarantined);
        let quarantined = quarantined.take(MAX_QUARANTINED);
        let encoded = |encoding| Some(snapshot.encoded(encoding)?.len());
        Self {
            id: revision.id,
            source: revision.identity.to_string(),
            digest: revision.digest.to_string(),
            content: revision.content.to_string(),
            modified: rfc3339(revision.modified),
            committed: rfc3339(revision.committed),
            counts: revision.counts,
            quarantined: quarantined.map(|package| shown(&package.name)).collect(),
            bytes: Bytes {
                identity: snapshot.lines().len(),
                gzip: encoded(Encoding::Gzip),
                zstd: encoded(Encoding::Zstd),
            },
        }
    }
}

fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}
