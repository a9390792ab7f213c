//! A page in the making: its request, the readable catalogs, and the response.

use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};

use crate::name::CatalogName;
use crate::serve::http::api::across::{self, AcrossQuery};
use crate::serve::http::api::parameters::Known;
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::api::request::QueryRequest;
use crate::serve::http::api::response::{QueryResponse, ResponseContext};
use crate::serve::http::headers::vary_by_host;
use crate::serve::http::pages::frame::{Around, Page, render};
use crate::serve::http::pages::policy::{HTML, OfPage};
use crate::serve::http::problem_count::problem_count;
use crate::serve::worker_pool::WorkerPool;
use crate::snapshot::{Catalog, Snapshot, Stale};

/// The state of a catalog that failed before it had a content. The log has the reason,
/// which may name what readers may not see.
const NOTHING_TO_SERVE: &str = "This catalog has nothing to serve: its source \
    cannot be read. almanac tries again by itself; its log has the reason.";

/// The state of a catalog that is served while its source cannot be read.
const UNREAD: &str = "The source cannot be read at present. The last good content is served.";

/// The same, of an image that the policy refused.
const REFUSED: &str = "This catalog has nothing to serve: the signature policy refused its \
    image. almanac tries again by itself; its log has the reason.";
const NEW_REFUSED: &str =
    "The new image was refused by the signature policy. The last good content is served.";

/// Why a catalog that failed has nothing to serve.
pub(super) fn nothing_to_serve(catalog: &Catalog) -> &'static str {
    if catalog.status().image_refused {
        REFUSED
    } else {
        NOTHING_TO_SERVE
    }
}

/// Why a catalog is served with its last good content, unless that is a matter of the
/// problems of the new one.
pub(super) fn last_good(catalog: &Catalog) -> Option<&'static str> {
    let status = catalog.status();
    match catalog.stale()? {
        Stale::Unread => Some(UNREAD),
        Stale::Refused if status.refused.is_empty() => Some(NEW_REFUSED),
        Stale::Refused => None,
    }
}

/// A request for a page, with valid parameters.
pub(super) struct PageRequest {
    pub(super) query: AcrossQuery,
    context: ResponseContext,
    /// The content that the link was made for.
    at: Option<String>,
    /// The path with its parameters.
    address: String,
}

/// Makes a page on a worker. `known` are the parameters of its address.
pub(super) fn run(
    request: QueryRequest,
    pool: &WorkerPool,
    known: impl Into<Known>,
    work: impl FnOnce(&AcrossQuery) -> Result<Page, Problem> + Send + 'static,
) -> impl Future<Output = Response> {
    run_boxed(request, pool, known.into(), Box::new(work))
}

/// The work of a page, boxed so that its surroundings are compiled once.
type Work = Box<dyn FnOnce(&AcrossQuery) -> Result<Page, Problem> + Send + 'static>;

async fn run_boxed(request: QueryRequest, pool: &WorkerPool, known: Known, work: Work) -> Response {
    match parse(request, known) {
        Ok(request) => respond(pool, request, work).await,
        Err(problem) => problem.into_response(),
    }
}

/// Reads a request. Every page of a catalog takes `at` besides the `known` parameters.
pub(super) fn parse(
    mut request: QueryRequest,
    known: impl Into<Known>,
) -> Result<PageRequest, Problem> {
    let at = request
        .take("at")
        .map(|at| content(&at))
        .transpose()?
        .flatten();
    let given = request.query().to_owned();
    let (query, context) = request.parse_across(known.into())?;
    let sign = if given.is_empty() { "" } else { "?" };
    Ok(PageRequest {
        address: format!("{}{sign}{given}", query.site.path),
        query,
        context,
        at,
    })
}

/// The digits of `at`, the beginning of the digest of a content.
fn content(at: &str) -> Result<Option<String>, Problem> {
    let digits = at.strip_prefix("sha256:").unwrap_or(at);
    if digits.len() > 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let detail = format!(
            "at is the beginning of the digest of a content, in hexadecimal digits, and not {:?}",
            cut(at)
        );
        return Err(Problem::invalid_parameter("at", detail));
    }
    Ok((!digits.is_empty()).then(|| digits.to_ascii_lowercase()))
}

/// Makes a page of a request that was read before.
pub(crate) async fn respond(pool: &WorkerPool, request: PageRequest, work: Work) -> Response {
    let PageRequest {
        query,
        context,
        at,
        address,
    } = request;
    let work = move |query: &AcrossQuery| {
        let page = work(query)?;
        let around = Around {
            origin: &query.site.origin,
            is_known: query.reader.has_token(),
            address: &address,
            at: at.as_deref(),
            problems: problem_count(query.catalogs.iter().map(|(catalog, _)| &**catalog)),
        };
        Ok(QueryResponse::Text {
            bytes: render(&page, &around).into(),
            media_type: HTML,
        })
    };
    let options = query.site.options.clone();
    let mut response = across::respond(pool, query, context, Box::new(work)).await;
    // The footer has a command with the address.
    vary_by_host(response.headers_mut(), &options);
    response.extensions_mut().insert(OfPage);
    response
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
        let snapshot = snapshot.ok_or_else(|| Problem::without_content(catalog))?;
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
    let (catalog, snapshot) = found.ok_or_else(|| query.unknown_catalog(name.as_str()))?;
    Ok((catalog, snapshot.as_ref()))
}
