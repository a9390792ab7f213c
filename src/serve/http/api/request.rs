//! Requests for queries, from their parameters to a worker that runs them.

use std::convert::Infallible;
use std::sync::{Arc, LazyLock};

use axum::extract::{FromRequestParts, RawPathParams};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::request::Parts;
use serde::{Deserialize, Serialize};

use crate::answers::index::PackageAnswers;
use crate::answers::rest::records::ChannelRecord;
use crate::name::CatalogName;
use crate::serve::access::Reader;
use crate::serve::fields;
use crate::serve::http::api::operation::Operation;
use crate::serve::http::api::parameters::{Known, Parameters};
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::response::{QueryResponse, ResponseContext};
use crate::serve::http::options::PageOptions;
use crate::serve::net::listen::Peer;
use crate::serve::worker_pool::WorkerPool;
use crate::snapshot::{Catalogs, Modified, Snapshot};

/// Workers for look-ups. They do not wait for queries over a whole catalog.
pub(crate) static LOOKUPS: LazyLock<WorkerPool> = LazyLock::new(|| WorkerPool::per_core(2));
/// Workers for queries over a whole catalog.
pub(crate) static SCANS: LazyLock<WorkerPool> = LazyLock::new(|| WorkerPool::per_core(1));

/// A request for a query, not parsed yet.
pub(crate) struct QueryRequest {
    pub(crate) catalogs: Catalogs,
    pub(super) reader: Reader,
    pub(super) path: Vec<(String, String)>,
    pub(super) query: String,
    pub(super) site: Site,
    /// The parameters that may be given several times.
    pub(super) repeated: &'static [&'static str],
    pub(super) context: ResponseContext,
}

/// The address of a request, and how the port presents itself to people.
pub(crate) struct Site {
    /// Scheme and host, as the client sees them.
    pub(crate) origin: String,
    /// The path of the request.
    pub(crate) path: String,
    /// The options of pages.
    pub(crate) options: PageOptions,
}

/// Scheme and host of this server as the client sees them.
pub(crate) struct Origin(pub(crate) String);

impl Origin {
    fn of(parts: &Parts) -> Self {
        let options = parts.extensions.get::<PageOptions>();
        if let Some(url) = options.and_then(|options| options.url.as_ref()) {
            return Self(url.clone());
        }
        // There is no peer for requests of this process.
        let peer = parts.extensions.get::<Peer>();
        let secure = peer.is_some_and(|peer| peer.secure);
        Self(fields::origin(parts, secure))
    }
}

impl FromRequestParts<Catalogs> for Origin {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Catalogs) -> Result<Self, Infallible> {
        Ok(Self::of(parts))
    }
}

/// The package that a path names.
#[derive(Deserialize)]
pub(crate) struct PackagePath {
    pub(crate) package: String,
}

/// The channel of a package that a path names.
#[derive(Deserialize)]
pub(crate) struct ChannelPath {
    pub(crate) package: String,
    pub(crate) channel: String,
}

/// The bundle that a path names.
#[derive(Deserialize)]
pub(crate) struct BundlePath {
    pub(crate) bundle: String,
}

/// The package that the path of a feed may name.
#[derive(Deserialize)]
pub(crate) struct FeedPath {
    pub(crate) package: Option<String>,
}

/// A query whose parameters and catalog are valid.
pub(crate) struct ParsedQuery {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(super) parameters: Parameters,
    catalog: CatalogName,
}

impl FromRequestParts<Catalogs> for QueryRequest {
    type Rejection = Problem;

    // One function for all routes, instead of a part of each route's future.
    fn from_request_parts(
        parts: &mut Parts,
        state: &Catalogs,
    ) -> impl Future<Output = Result<Self, Problem>> {
        std::future::ready(Self::of(parts, state))
    }
}

/// The work of a query, boxed so that its surroundings are compiled once.
pub(super) type Work<Query> =
    Box<dyn FnOnce(&Query) -> Result<QueryResponse, Problem> + Send + 'static>;

impl QueryRequest {
    #[inline(never)]
    fn of(parts: &mut Parts, state: &Catalogs) -> Result<Self, Problem> {
        let context = ResponseContext::of(&parts.method, &parts.headers)?;
        // Always ready: the router has read the path.
        let path = RawPathParams::from_request_parts(parts, state).now_or_never();
        let Some(Ok(path)) = path else {
            return Err(Problem::path());
        };
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Ok(Self {
            catalogs: state.clone(),
            // Absent only where no layer restricts anything.
            reader: parts.extensions.get().cloned().unwrap_or_default(),
            path: path.iter().map(owned).collect(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            site: Site {
                origin: Origin::of(parts).0,
                path: parts.uri.path().to_owned(),
                options: parts.extensions.get().cloned().unwrap_or_default(),
            },
            repeated: &[],
            context,
        })
    }

    /// The same with parameters that may be given several times.
    pub(crate) fn repeating(self, repeated: &'static [&'static str]) -> Self {
        Self { repeated, ..self }
    }

    /// The same without its query.
    pub(crate) fn without_parameters(self) -> Self {
        Self {
            query: String::new(),
            ..self
        }
    }

    /// Runs a query on a pool.
    pub(super) fn run(
        self,
        pool: &WorkerPool,
        operation: &'static Operation,
        work: impl FnOnce(&ParsedQuery) -> Result<QueryResponse, Problem> + Send + 'static,
    ) -> impl Future<Output = Response> {
        self.run_boxed(pool, operation, Box::new(work))
    }

    /// Runs a query that only takes stored bytes. A small response is made at once: to
    /// wake a worker would take longer.
    pub(super) async fn run_stored(
        self,
        operation: &'static Operation,
        find: fn(&ParsedQuery) -> Result<QueryResponse, Problem>,
    ) -> Response {
        let (query, context) = match self.parse(operation.into()) {
            Ok(parsed) => parsed,
            Err(problem) => return problem.into_response(),
        };
        let modified = Some(query.snapshot.modified());
        if !query.snapshot.has_quick_answers() {
            return respond_dated(&LOOKUPS, query, context, modified, Box::new(find)).await;
        }
        let found = match find(&query) {
            Ok(found) => found,
            Err(problem) => return problem.into_response(),
        };
        if context.is_quick(&found, &query.parameters) {
            let sent = context.send(found, &query.parameters, modified);
            return sent.unwrap_or_else(Problem::into_response);
        }
        respond_dated(&LOOKUPS, query, context, modified, Box::new(|_| Ok(found))).await
    }

    async fn run_boxed(
        self,
        pool: &WorkerPool,
        operation: &'static Operation,
        work: Work<ParsedQuery>,
    ) -> Response {
        match self.parse(operation.into()) {
            Ok((query, context)) => {
                let modified = Some(query.snapshot.modified());
                respond_dated(pool, query, context, modified, work).await
            }
            Err(problem) => problem.into_response(),
        }
    }

    /// Takes a parameter away that the route need not know. Its value may have letters,
    /// digits and `:` only.
    pub(crate) fn take(&mut self, key: &str) -> Option<String> {
        let mut taken = None;
        let mut rest: Vec<&str> = Vec::new();
        for pair in self.query.split('&') {
            match pair.split_once('=') {
                Some((name, value)) if name == key => {
                    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b':';
                    let good = value.len() <= 80 && value.bytes().all(plain);
                    taken = (good && !value.is_empty()).then(|| value.to_owned());
                }
                _ => rest.push(pair),
            }
        }
        self.query = rest.join("&");
        taken
    }

    /// The query without parameters that were taken away.
    pub(crate) fn query(&self) -> &str {
        &self.query
    }

    /// The catalog that the path names.
    pub(crate) fn catalog(&self) -> Result<CatalogName, Problem> {
        let name = value(&self.path, "name");
        name.parse().map_err(Problem::catalog_name)
    }

    /// Reads the parameters, and takes the catalog's snapshot.
    pub(super) fn parse(self, known: Known) -> Result<(ParsedQuery, ResponseContext), Problem> {
        let parameters = Parameters::read(&self.query, known, self.repeated)?;
        let name = self.catalog()?;
        let unknown = || Problem::unknown_catalog(name.as_str(), &self.catalogs, &self.reader);
        let found = self.reader.catalog(&self.catalogs, name.as_str());
        let catalog = found.ok_or_else(unknown)?;
        let snapshot = catalog
            .snapshot()
            .ok_or_else(|| Problem::without_content(&catalog))?;
        let query = ParsedQuery {
            snapshot,
            parameters,
            catalog: name,
        };
        Ok((query, self.context))
    }
}

impl ParsedQuery {
    /// The name of the catalog.
    pub(super) fn catalog(&self) -> &str {
        self.catalog.as_str()
    }

    /// The package of that name.
    pub(super) fn package(&self, name: &str) -> Result<&PackageAnswers, Problem> {
        self.snapshot.package_answers(name).ok_or_else(|| {
            let names = self.snapshot.packages().iter();
            Problem::unknown("package", name, names.map(|package| &*package.name))
        })
    }

    /// The stored channels of a package, as JSON.
    pub(super) fn channels(&self, package: &PackageAnswers) -> Vec<Bytes> {
        channels(&self.snapshot, package)
    }
}

/// The stored channels of a package, as JSON.
pub(crate) fn channels(snapshot: &Snapshot, package: &PackageAnswers) -> Vec<Bytes> {
    let spans = package.channels.iter();
    spans.map(|(_, span)| snapshot.answer(*span)).collect()
}

/// A parameter of a path, or empty where the route has none of that name.
pub(super) fn value<'a>(path: &'a [(String, String)], key: &str) -> &'a str {
    let found = path.iter().find(|(name, _)| name == key);
    found.map_or("", |(_, value)| value)
}

/// Makes the response on a worker, which does not block other requests. `modified`
/// is the date of the content, or none where the answer depends on more.
pub(crate) async fn respond_dated(
    pool: &WorkerPool,
    query: ParsedQuery,
    context: ResponseContext,
    modified: Option<Modified>,
    work: Work<ParsedQuery>,
) -> Response {
    let working = move || {
        let sent =
            work(&query).and_then(|response| context.send(response, &query.parameters, modified));
        sent.unwrap_or_else(Problem::into_response)
    };
    let response = pool.run(working).await;
    response.unwrap_or_else(|rejected| Problem::from(rejected).into_response())
}

/// Reads stored channels.
pub(crate) fn read(stored: &[Bytes]) -> Result<Vec<ChannelRecord<'_>>, Problem> {
    let channels = stored.iter().map(Snapshot::channel_record);
    channels.collect::<Result<_, _>>().map_err(|error| {
        tracing::error!(%error, "a stored channel cannot be read");
        Problem::internal()
    })
}

/// The JSON of a record.
pub(crate) fn json(value: &impl Serialize) -> Result<Bytes, Problem> {
    let json = serde_json::to_vec(value).map_err(|error| {
        tracing::error!(%error, "a record cannot be written as JSON");
        Problem::internal()
    })?;
    Ok(json.into())
}
