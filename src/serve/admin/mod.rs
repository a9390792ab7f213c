//! The admin port: probes, metrics and status.

mod status;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::watch;

use crate::snapshot::Catalogs;
use status::Status;

pub use status::Configuration;

#[derive(Clone)]
struct Admin {
    catalogs: Catalogs,
    configuration: watch::Receiver<Configuration>,
    metrics: PrometheusHandle,
    /// Whether almanac was ready at any time.
    ready: Arc<AtomicBool>,
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

/// Ready after one attempt per catalog: a load from the store or a pass, even if
/// it failed. One bad catalog must not hold back the others. Catalogs that a
/// reload adds later do not change it.
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
        format!("waiting for the first attempt: {}\n", waiting.join(", ")),
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
    let configuration = admin.configuration.borrow().clone();
    Json(Status::of(&admin.catalogs, configuration)).into_response()
}
