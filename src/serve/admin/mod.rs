//! The admin port: probes, metrics and status.

mod configuration;
mod host;
mod page;
mod process;
mod reported;
mod status;

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use http::StatusCode;
use http::header::CONTENT_TYPE;

use crate::snapshot::{Catalog, Catalogs, FleetStatus, State as CatalogState};
use fbc::text::display::MAX_NAMES;
use status::Status;

pub use configuration::Configuration;
pub use reported::{ClusterProblems, Reported, Unwritable};

/// The routes of the admin port. It also answers to the host of `url`, besides those that
/// nobody can register.
pub fn router(reported: Reported, url: Option<&str>) -> Router {
    let named = url.and_then(host::host_of);
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(render_metrics))
        .route("/status", get(status))
        .route("/", get(page))
        .route("/almanac.css", get(async || page::style()))
        .route("/almanac.js", get(async || page::script()))
        .with_state(reported)
        .layer(middleware::from_fn_with_state(named, host::check))
}

/// Ready after one attempt per catalog: a load from the store or a pass, even if
/// it failed. One bad catalog must not hold back the others, so damage of stored
/// files is told and changes nothing, and so are failures of the cluster. Only without
/// the first list of the cluster's catalogs it is not ready: it would replace one that
/// has them. Catalogs that a reload adds later do not change it either. A replica of a
/// fleet is not ready before its database has answered, unless it has something stored.
/// With `loaded=true`, almanac is not ready before each catalog has content.
async fn ready(State(admin): State<Reported>, RawQuery(query): RawQuery) -> Response {
    let pairs = query.iter().flat_map(|query| query.split('&'));
    let needs_content = pairs.into_iter().any(|pair| pair == "loaded=true");
    if admin.catalogs.are_ready() {
        let is_serving = || {
            admin
                .catalogs
                .all()
                .iter()
                .any(|one| one.snapshot().is_some())
        };
        if let Some(problem) = admin.fleet().and_then(|fleet| fleet.unready(is_serving())) {
            return (StatusCode::SERVICE_UNAVAILABLE, format!("{problem}\n")).into_response();
        }
        let empty = without_content(&admin.catalogs, needs_content);
        if needs_content && !empty.is_empty() {
            let text = format!("without content: {}\n", empty.join(", "));
            return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
        }
        let mut text = "ok".to_owned();
        for catalog in empty {
            text.push_str("; ");
            text.push_str(&catalog);
        }
        let damaged = names(&admin.catalogs, |one| one.status().is_damaged());
        if !damaged.is_empty() {
            text.push_str("; stored files are damaged: ");
            text.push_str(&damaged);
        }
        if let Some(reason) = &*admin.unwritable.borrow() {
            text.push_str("; the data folder cannot be written: ");
            text.push_str(reason);
        }
        for problem in admin.cluster_problems().values() {
            text.push_str("; ");
            text.push_str(problem);
        }
        for problem in admin.fleet().iter().flat_map(FleetStatus::problems) {
            text.push_str("; ");
            text.push_str(&problem);
        }
        text.push('\n');
        return text.into_response();
    }
    let is_waiting = |catalog: &Catalog| !catalog.status().first_attempt_done;
    let is_read = |catalog: &Catalog| catalog.snapshot().is_some();
    let waiting = names(&admin.catalogs, |one| is_waiting(one) && !is_read(one));
    let compressed = names(&admin.catalogs, |one| is_waiting(one) && is_read(one));
    let mut text = Vec::new();
    if admin.catalogs.awaits_cluster() {
        text.push("waiting for the catalogs of the cluster".to_owned());
        text.extend(admin.cluster_problems().values().cloned());
    }
    if !waiting.is_empty() {
        text.push(format!("waiting for the first attempt: {waiting}"));
    }
    if !compressed.is_empty() {
        text.push(format!("compressing: {compressed}"));
    }
    (StatusCode::SERVICE_UNAVAILABLE, text.join("; ") + "\n").into_response()
}

/// The catalogs without content, each with its state and the reason: those that failed,
/// and with `all` those that are still loading or damaged, too. A catalog that the cluster
/// sets unavailable needs no content.
fn without_content(catalogs: &Catalogs, all: bool) -> Vec<String> {
    let catalogs = catalogs.all();
    let shown = catalogs.iter().filter_map(|catalog| {
        let name = &catalog.name;
        match catalog.state() {
            CatalogState::Serving | CatalogState::Unavailable => None,
            CatalogState::Loading => all.then(|| format!("{name}: loading")),
            CatalogState::Damaged => all.then(|| format!("{name}: damaged")),
            CatalogState::Failing => {
                let failure = catalog.status().failure;
                let reason = failure.map_or("offline", |failure| failure.reason);
                Some(format!("{name}: failing ({reason})"))
            }
        }
    });
    let mut shown: Vec<String> = shown.collect();
    let more = shown.len().saturating_sub(MAX_NAMES);
    if more > 0 {
        shown.truncate(MAX_NAMES);
        shown.push(format!("{more} more"));
    }
    shown
}

/// The names of the catalogs in a state.
fn names(catalogs: &Catalogs, is_meant: impl Fn(&Catalog) -> bool) -> String {
    let catalogs = catalogs.all();
    let meant = catalogs.iter().filter(|one| is_meant(one));
    let names: Vec<&str> = meant.map(|one| one.name.as_str()).collect();
    names.join(", ")
}

async fn render_metrics(State(admin): State<Reported>) -> Response {
    admin.metrics.run_upkeep();
    (
        [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        admin.metrics.render() + &process::render(),
    )
        .into_response()
}

async fn page(State(admin): State<Reported>) -> Response {
    page::show(&Status::of(&admin))
}

async fn status(State(admin): State<Reported>) -> Response {
    Json(Status::of(&admin)).into_response()
}
