//! Answers about a source: it becomes a catalog in a temporary store, which the
//! routes of the HTTP API answer from in this process.

use anyhow::{Context as _, anyhow};
use axum::Router;
use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use tempfile::TempDir;
use tower::ServiceExt as _;

use crate::cli::input::{InputArguments, note_quarantined};
use crate::cli::{Failure, block_on, output, progress};
use crate::config::Environment;
use crate::ingest::{self, Cause};
use crate::name::CatalogName;
use crate::serve::access::Access;
use crate::serve::http::{Origins, PageOptions, Service};
use crate::snapshot::{Catalogs, Publisher, Routing, Snapshot};
use crate::store::Store;
use fbc::problem::Severity;

/// The name of the catalog.
const NAME: &str = "catalog";
/// The folder of its routes.
pub(super) const FOLDER: &str = "/catalogs/catalog/api/v1/";

/// A catalog and its routes.
pub(crate) struct Local {
    routes: Router,
    /// Owns the catalog.
    _publisher: Publisher,
    _store: Store,
    _folder: TempDir,
}

impl Local {
    /// Reads a source.
    pub(super) fn open(input: InputArguments, environment: &Environment) -> Result<Self, Failure> {
        let catalog = input.load(environment)?;
        let source = catalog.input.to_string();
        let folder = TempDir::with_prefix("almanac-query-")
            .context("cannot make a temporary folder")
            .map_err(Failure::run)?;
        let waiting = progress::Line::waiting("reading");
        let stored = async {
            let store = Store::open(folder.path()).await?;
            let name: CatalogName = NAME.parse()?;
            let revision = ingest::store_loaded(&store, &name, &source, catalog.loaded).await?;
            let snapshot = Snapshot::open(&store, revision)?;
            anyhow::Ok((name, store, snapshot))
        };
        let (name, store, snapshot) = block_on(stored)?.map_err(|error| refused(&source, error))?;
        drop(waiting);
        let packages = snapshot.packages().iter();
        let invalid = packages.filter(|package| package.quarantined);
        note_quarantined(invalid.map(|package| &*package.name));
        let (catalogs, publishers) = Catalogs::new([(name, Routing::default())], None);
        let publisher = publishers.into_iter().next();
        let publisher = publisher.ok_or_else(|| Failure::run(anyhow!("there is no catalog")))?;
        publisher.publish(snapshot);
        let service = Service::new(
            catalogs,
            Access::default(),
            Origins::None,
            PageOptions::none(),
            None,
            Router::new(),
        );
        Ok(Self {
            routes: service.into_routes(),
            _publisher: publisher,
            _store: store,
            _folder: folder,
        })
    }

    /// The answer of a route: the status, whether the body is JSON, and the body.
    pub(super) async fn get(&self, path: &str) -> Result<(StatusCode, bool, Vec<u8>), Failure> {
        let request = Request::get(path).body(Body::empty());
        let request = request.context("the question").map_err(Failure::usage)?;
        let Ok(answer) = self.routes.clone().oneshot(request).await;
        let (parts, body) = answer.into_parts();
        let kind = parts.headers.get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let body = body
            .collect()
            .await
            .map_err(|error| Failure::run(anyhow!("{error}")))?;
        Ok((parts.status, kind.contains("json"), body.to_bytes().into()))
    }
}

/// The failure of a catalog that cannot be stored. Fatal problems are printed.
fn refused(source: &str, error: anyhow::Error) -> Failure {
    let Some(ingest::PassError {
        cause: Cause::Refused(problems),
        ..
    }) = error.downcast_ref()
    else {
        return Failure::run(error);
    };
    let fatal = problems.iter().filter(|it| it.severity == Severity::Fatal);
    for problem in fatal {
        output::note(&problem.to_string());
    }
    Failure::unreadable(anyhow!(
        "{source} cannot be served; `almanac check` shows why"
    ))
}
