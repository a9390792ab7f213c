//! Queries over all catalogs that the client may read.
//!
//! `search` and `packages` answer for packages, `providers` for APIs as over one
//! catalog, `plan` for a way from one catalog to the next. Catalogs without content are named in the answer.

pub(crate) mod changes;
pub(crate) mod compare;
pub(crate) mod dependencies;
pub(crate) mod facets;
pub(crate) mod mirror;
pub(crate) mod packages;
pub(crate) mod plan;
pub(crate) mod problems;
pub(crate) mod search;

use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;

use crate::name::CatalogName;
use crate::queries::records::providers::{PackageProvider, Provider};
use crate::serve::access::Reader;
use crate::serve::http::api::operation::{Answer, Operation, QueryAnswer};
use crate::serve::http::api::parameters::Known;
use crate::serve::http::api::parameters::{Content, Parameters};
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::providers;
use crate::serve::http::api::request::{QueryRequest, SCANS, Site, Work, value};
use crate::serve::http::api::response::ACROSS_NOTES;
use crate::serve::http::api::response::{Notes, QueryResponse, ResponseContext};
use crate::serve::worker_pool::WorkerPool;
use crate::snapshot::{Catalog, Catalogs, Snapshot};

/// A query over several catalogs, with valid parameters.
pub(crate) struct AcrossQuery {
    pub(crate) parameters: Parameters,
    /// The catalogs that the client may read, sorted by name.
    pub(crate) catalogs: Vec<(Arc<Catalog>, Option<Arc<Snapshot>>)>,
    /// All catalogs, to look for newer snapshots.
    all: Catalogs,
    /// Who asks: a reload may change what they may read.
    pub(crate) reader: Reader,
    /// Where they ask.
    pub(crate) site: Site,
    path: Vec<(String, String)>,
}

impl QueryRequest {
    /// Runs a query over all readable catalogs on a pool.
    pub(crate) fn run_across(
        self,
        pool: &WorkerPool,
        known: impl Into<Known>,
        work: impl FnOnce(&AcrossQuery) -> Result<QueryResponse, Problem> + Send + 'static,
    ) -> impl Future<Output = Response> {
        self.run_across_boxed(pool, known.into(), Box::new(work))
    }

    async fn run_across_boxed(
        self,
        pool: &WorkerPool,
        known: Known,
        work: Work<AcrossQuery>,
    ) -> Response {
        match self.parse_across(known) {
            Ok((query, context)) => respond(pool, query, context, work).await,
            Err(problem) => problem.into_response(),
        }
    }

    pub(crate) fn parse_across(
        self,
        known: Known,
    ) -> Result<(AcrossQuery, ResponseContext), Problem> {
        let parameters = Parameters::read(&self.query, known, self.repeated)?;
        let catalogs = self.reader.catalogs(&self.catalogs).into_iter();
        let catalogs = catalogs.map(|catalog| {
            let snapshot = catalog.snapshot();
            (catalog, snapshot)
        });
        let query = AcrossQuery {
            parameters,
            catalogs: catalogs.collect(),
            all: self.catalogs,
            reader: self.reader,
            site: self.site,
            path: self.path,
        };
        Ok((query, self.context))
    }
}

impl AcrossQuery {
    /// Whether the cluster has yet to name its catalogs.
    pub(crate) fn awaits_cluster(&self) -> bool {
        self.all.awaits_cluster()
    }

    /// A parameter of the path.
    pub(crate) fn path(&self, key: &str) -> &str {
        value(&self.path, key)
    }

    /// The catalogs with content.
    pub(crate) fn loaded(&self) -> impl Iterator<Item = (&CatalogName, &Arc<Snapshot>)> {
        let catalogs = self.catalogs.iter();
        catalogs.filter_map(|(catalog, snapshot)| Some((&catalog.name, snapshot.as_ref()?)))
    }

    /// The catalog of a name that the client gave, with its snapshot.
    pub(crate) fn loaded_named(
        &self,
        name: &str,
    ) -> Result<(&CatalogName, &Arc<Snapshot>), Problem> {
        let mut catalogs = self.catalogs.iter();
        let found = catalogs.find(|(catalog, _)| catalog.name.as_str() == name);
        let (catalog, snapshot) = found.ok_or_else(|| self.unknown_catalog(name))?;
        let snapshot = snapshot.as_ref();
        let snapshot = snapshot.ok_or_else(|| Problem::without_content(catalog))?;
        Ok((&catalog.name, snapshot))
    }

    /// Refuses the name of a catalog that the client may not read or that is none.
    pub(crate) fn check_catalog(&self, name: Option<&str>) -> Result<(), Problem> {
        let names = || self.catalogs.iter().map(|(one, _)| one.name.as_str());
        match name.filter(|wanted| !names().any(|name| name == *wanted)) {
            Some(unknown) => Err(self.unknown_catalog(unknown)),
            None => Ok(()),
        }
    }

    /// The problem of a name that none of them has.
    pub(crate) fn unknown_catalog(&self, name: &str) -> Problem {
        Problem::unknown_catalog(name, &self.all, &self.reader)
    }

    /// Identifies the content of all of them.
    pub(crate) fn content(&self) -> Content {
        let catalogs = self.catalogs.iter();
        Content::of_all(
            catalogs.map(|(catalog, snapshot)| (catalog.name.as_str(), snapshot.as_deref())),
        )
    }

    /// Names the catalogs without content, which a list lacks.
    fn notes(&self) -> Notes {
        let catalogs = self.catalogs.iter();
        let missing = catalogs.filter(|(_, snapshot)| snapshot.is_none());
        Notes {
            not_loaded: missing.map(|(one, _)| one.name.to_string()).collect(),
            ..Notes::default()
        }
    }
}

/// Makes the response on a worker. It has no date: a removed catalog changes it
/// too.
pub(crate) async fn respond(
    pool: &WorkerPool,
    query: AcrossQuery,
    context: ResponseContext,
    work: Work<AcrossQuery>,
) -> Response {
    let working = move || {
        let sent =
            work(&query).and_then(|response| context.send(response, &query.parameters, None));
        sent.unwrap_or_else(Problem::into_response)
    };
    let response = pool.run(working).await;
    response.unwrap_or_else(|rejected| Problem::from(rejected).into_response())
}

/// `/api/v1/providers`.
pub(crate) static PROVIDERS: Operation = Operation {
    id: "providersOfAll",
    summary: "Providers of an API in all catalogs",
    description: "As over one catalog, by catalog first.",
    parameters: providers::PARAMETERS,
    answer: Answer::Query(
        QueryAnswer::list_of_either::<Provider<'_>, PackageProvider<'_>>(
            "ProviderOfCatalogList",
            ACROSS_NOTES,
        )
        .undated(),
    ),
};

/// The entries, or packages, that provide an API, by catalog.
pub(crate) async fn providers(request: QueryRequest) -> Response {
    request
        .run_across(&SCANS, &PROVIDERS, |query| {
            let loaded = query.loaded();
            let catalogs = loaded.map(|(name, snapshot)| (Some(name.as_str()), &**snapshot));
            let page = query.parameters.page(query.content())?;
            providers::list(&query.parameters, page, catalogs, query.notes())
        })
        .await
}

/// A stored object with the name of its catalog before its other members.
fn of_catalog(catalog: &CatalogName, stored: &Bytes) -> Bytes {
    // Names of catalogs need no escapes.
    let mut json = format!("{{\"catalog\":\"{catalog}\",").into_bytes();
    json.extend_from_slice(stored.strip_prefix(b"{").unwrap_or(stored));
    json.into()
}
