//! Queries over a catalog: answers that save a client from fetching all of it.
//!
//! Besides `all` and `metas` there are `packages`, `bundles`, `images`,
//! `providers`, `updates` and `search`; `across` has those over several catalogs.
//! They return JSON by default; `/openapi.json` describes them. Most responses are prepared when a catalog is
//! read, and are only selected here. `parameters` reads requests, `response`
//! writes responses, `problem` describes errors.

pub(super) mod across;
pub(super) mod bundles;
pub(super) mod dependents;
mod examples;
pub(super) mod history;
pub(super) mod images;
pub(super) mod install;
pub(super) mod lifecycle;
mod packages;
pub(super) mod parameters;
pub(super) mod plan;
pub(super) mod problem;
mod providers;
pub(super) mod recorded;
pub(super) mod request;
pub(super) mod response;
pub(super) mod search;
pub(super) mod updates;

use std::sync::LazyLock;
use std::time::SystemTime;

use axum::Router;
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use http::{HeaderMap, Method};

use crate::snapshot::Catalogs;
use parameters::Parameters;
use problem::Problem;
use response::{QueryResponse, ResponseContext};

/// The routes of queries.
pub(super) fn routes() -> Router<Catalogs> {
    Router::new()
        .route("/openapi.json", any(openapi))
        .route("/catalogs/{name}/api/v1/packages", any(packages::list))
        .route(
            "/catalogs/{name}/api/v1/packages/{package}",
            any(packages::one),
        )
        .route(
            "/catalogs/{name}/api/v1/packages/{package}/icon",
            any(packages::icon),
        )
        .route(
            "/catalogs/{name}/api/v1/packages/{package}/examples",
            any(examples::list),
        )
        .route(
            "/catalogs/{name}/api/v1/packages/{package}/dependencies",
            any(across::dependencies::of_version),
        )
        .route(
            "/catalogs/{name}/api/v1/packages/{package}/install",
            any(install::one),
        )
        .route(
            "/catalogs/{name}/api/v1/packages/{package}/lifecycle",
            any(lifecycle::one),
        )
        .route(
            "/catalogs/{name}/api/v1/packages/{package}/channels",
            any(packages::channels),
        )
        .route(
            "/catalogs/{name}/api/v1/packages/{package}/channels/{channel}",
            any(packages::channel),
        )
        .route(
            "/catalogs/{name}/api/v1/bundles/{bundle}",
            any(bundles::named),
        )
        .route("/catalogs/{name}/api/v1/revisions", any(history::revisions))
        .route("/catalogs/{name}/api/v1/changes", any(history::differences))
        .route("/catalogs/{name}/api/v1/changes.atom", any(history::atom))
        .route("/catalogs/{name}/api/v1/images", any(images::list))
        .route("/catalogs/{name}/api/v1/providers", any(providers::of_one))
        .route("/catalogs/{name}/api/v1/updates", any(updates::one))
        .route("/catalogs/{name}/api/v1/search", any(search::list))
        .route("/catalogs/{name}/api/v1/plan", any(plan::one))
        .route("/catalogs/{name}/api/v1/dependents", any(dependents::list))
        .route("/api/v1/search", any(across::search::list))
        .route("/api/v1/changes", any(across::changes::list))
        .route("/api/v1/compare", any(across::compare::matrix))
        .route("/api/v1/diff", any(across::compare::diff))
        .route("/api/v1/facets", any(across::facets::list))
        .route("/api/v1/kinds", any(across::problems::kind_list))
        .route("/api/v1/mirror", any(across::mirror::list))
        .route("/api/v1/plan", any(across::plan::list))
        .route("/api/v1/problems", any(across::problems::list))
        .route("/api/v1/providers", any(across::providers))
        .route("/api/v1/packages/{package}", any(across::packages::named))
}

/// The description of the HTTP API. It is part of the program, so its date is the
/// start of the process.
async fn openapi(method: Method, headers: HeaderMap) -> Result<Response, Problem> {
    static STARTED: LazyLock<SystemTime> = LazyLock::new(SystemTime::now);
    let response = QueryResponse::Text {
        bytes: Bytes::from_static(include_bytes!("openapi.json")),
        media_type: "application/json",
    };
    ResponseContext::of(&method, &headers)?.send(
        response,
        &Parameters::default(),
        Some((*STARTED).into()),
    )
}
