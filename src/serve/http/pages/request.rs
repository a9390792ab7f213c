//! A page in the making: its request, the readable catalogs, and the response.

use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};

use crate::name::CatalogName;
use crate::serve::http::pages::frame::{Page, render};
use crate::serve::http::pages::policy::HTML;
use crate::serve::http::queries::across::{self, AcrossQuery};
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::request::QueryRequest;
use crate::serve::http::queries::response::{QueryResponse, ResponseContext};
use crate::serve::worker_pool::WorkerPool;
use crate::snapshot::{Catalog, Snapshot};

/// Makes a page on a worker. `known` are the parameters of its address.
pub(super) fn run(
    request: QueryRequest,
    pool: &WorkerPool,
    known: &'static [&'static str],
    work: impl FnOnce(&AcrossQuery) -> Result<Page, Problem> + Send + 'static,
) -> impl Future<Output = Response> {
    run_boxed(request, pool, known, Box::new(work))
}

/// The work of a page, boxed so that its surroundings are compiled once.
type Work = Box<dyn FnOnce(&AcrossQuery) -> Result<Page, Problem> + Send + 'static>;

async fn run_boxed(
    request: QueryRequest,
    pool: &WorkerPool,
    known: &'static [&'static str],
    work: Work,
) -> Response {
    match request.parse_across(known) {
        Ok((query, context)) => respond(pool, query, context, work).await,
        Err(problem) => problem.into_response(),
    }
}

/// The same for a request that was read before.
pub(super) async fn respond(
    pool: &WorkerPool,
    query: AcrossQuery,
    context: ResponseContext,
    work: Work,
) -> Response {
    let work = |query: &AcrossQuery| {
        let page = work(query)?;
        Ok(QueryResponse::Text {
            bytes: render(&page).into(),
            media_type: HTML,
        })
    };
    across::respond(pool, query, context, Box::new(work)).await
}

/// The catalog that the path names, with its snapshot.
pub(super) struct Shown<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) snapshot: &'a Arc<Snapshot>,
}

impl<'a> Shown<'a> {
    /// Only readable catalogs are found.
    pub(super) fn of(query: &'a AcrossQuery) -> Result<Self, Problem> {
        let (catalog, snapshot) = configured(query)?;
        let snapshot = snapshot.ok_or_else(|| Problem::not_loaded(&catalog.name))?;
        Ok(Self { catalog, snapshot })
    }

    pub(super) fn name(&self) -> &'a CatalogName {
        &self.catalog.name
    }
}

/// The catalog that the path names, with its snapshot if it has one.
pub(super) fn configured(
    query: &AcrossQuery,
) -> Result<(&Catalog, Option<&Arc<Snapshot>>), Problem> {
    let name: CatalogName = query.path("name").parse().map_err(Problem::catalog_name)?;
    let found = query.catalogs.iter().find(|(one, _)| one.name == name);
    let (catalog, snapshot) = found.ok_or_else(|| {
        let names = query.catalogs.iter().map(|(one, _)| one.name.as_str());
        Problem::unknown("catalog", name.as_str(), names)
    })?;
    Ok((catalog, snapshot.as_ref()))
}
