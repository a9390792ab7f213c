//! Queries over a catalog: answers that save a client from getting all of it.
//!
//! Beside `all` and `metas` there are `packages`, `bundles`, `images`,
//! `providers`, `updates` and `search`, JSON unless asked for otherwise, described by `/openapi.json`. What can be
//! made when a catalog is read lies ready in the revision; here it is found,
//! cut to what was asked, and sent. `parameters` reads questions, `answer`
//! writes answers, `problem` says what is wrong with a question.

mod answer;
mod bundles;
mod images;
mod packages;
mod parameters;
pub(super) mod problem;
mod providers;
mod search;
mod updates;

use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use axum::Router;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method};

use crate::name::CatalogName;
use crate::serve::access::Closed;
use crate::serve::worker_pool::Turns;
use crate::snapshot::{Catalogs, Snapshot};
use answer::{Answer, Sending};
use parameters::Parameters;
use problem::Problem;

/// More work than the cores can do gains nobody anything. What is found in an
/// instant does not wait for what has to be made of all bundles.
static QUICK: LazyLock<Turns> = LazyLock::new(|| Turns::for_each_core(2));
static LONG: LazyLock<Turns> = LazyLock::new(|| Turns::for_each_core(1));

/// The description of the HTTP port's API.
const OPENAPI: &str = include_str!("openapi.json");

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
            "/catalogs/{name}/api/v1/packages/{package}/channels/{channel}",
            any(packages::channel),
        )
        .route(
            "/catalogs/{name}/api/v1/bundles/{bundle}",
            any(bundles::named),
        )
        .route("/catalogs/{name}/api/v1/images", any(images::list))
        .route("/catalogs/{name}/api/v1/providers", any(providers::list))
        .route("/catalogs/{name}/api/v1/updates", any(updates::one))
        .route("/catalogs/{name}/api/v1/search", any(search::list))
}

/// A request for a query, as it came.
struct Question {
    catalogs: Catalogs,
    closed: Closed,
    path: Vec<(String, String)>,
    query: String,
    sending: Sending,
}

/// A question that is understood so far.
struct Asked {
    snapshot: Arc<Snapshot>,
    parameters: Parameters,
    path: Vec<(String, String)>,
}

impl FromRequestParts<Catalogs> for Question {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Catalogs) -> Result<Self, Problem> {
        let sending = sending(&parts.method, &parts.headers)?;
        let path = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| Problem::path())?;
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Ok(Self {
            catalogs: state.clone(),
            closed: parts.extensions.get().cloned().unwrap_or_default(),
            path: path.iter().map(owned).collect(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            sending,
        })
    }
}

impl Question {
    /// Answers with what `work` makes of it, which takes an instant. `known`
    /// are the parameters that it knows.
    async fn answer(
        self,
        known: &'static [&'static str],
        work: impl FnOnce(&Asked) -> Result<Answer, Problem> + Send + 'static,
    ) -> Response {
        self.answer_in(&QUICK, known, work).await
    }

    /// The same where the work goes through a whole catalog.
    async fn answer_slowly(
        self,
        known: &'static [&'static str],
        work: impl FnOnce(&Asked) -> Result<Answer, Problem> + Send + 'static,
    ) -> Response {
        self.answer_in(&LONG, known, work).await
    }

    async fn answer_in(
        self,
        turns: &Turns,
        known: &'static [&'static str],
        work: impl FnOnce(&Asked) -> Result<Answer, Problem> + Send + 'static,
    ) -> Response {
        match self.ask(known) {
            Ok((asked, sending)) => blocking(turns, asked, sending, work).await,
            Err(problem) => problem.into_response(),
        }
    }

    /// Reads the parameters, and takes the catalog's snapshot.
    fn ask(self, known: &'static [&'static str]) -> Result<(Asked, Sending), Problem> {
        let parameters = Parameters::read(&self.query, known)?;
        let name = value(&self.path, "name");
        let name: CatalogName = name.parse().map_err(Problem::catalog_name)?;
        let catalog = self
            .catalogs
            .get(name.as_str())
            .ok_or_else(|| Problem::unknown_catalog(&name, &self.catalogs, &self.closed))?;
        if catalog.routing.withheld {
            return Err(Problem::withheld(&name));
        }
        let snapshot = catalog
            .snapshot()
            .ok_or_else(|| Problem::not_loaded(&name))?;
        let asked = Asked {
            snapshot,
            parameters,
            path: self.path,
        };
        Ok((asked, self.sending))
    }
}

impl Asked {
    /// A part of the path.
    fn path(&self, key: &str) -> &str {
        value(&self.path, key)
    }

    /// The package of that name.
    fn package(&self, name: &str) -> Result<&crate::store::PackageAnswers, Problem> {
        self.snapshot.package_answers(name).ok_or_else(|| {
            let names = self.snapshot.packages().iter();
            Problem::unknown("package", name, names.map(|package| &*package.name))
        })
    }

    /// The stored channels of a package, as JSON.
    fn channels(&self, package: &crate::store::PackageAnswers) -> Vec<Bytes> {
        let spans = package.channels.iter();
        spans.map(|(_, span)| self.snapshot.answer(*span)).collect()
    }
}

fn value<'a>(path: &'a [(String, String)], key: &str) -> &'a str {
    let found = path.iter().find(|(name, _)| name == key);
    found.map_or("", |(_, value)| value)
}

/// Works out an answer and puts it into its form, where it keeps nobody else
/// waiting.
async fn blocking(
    turns: &Turns,
    asked: Asked,
    sending: Sending,
    work: impl FnOnce(&Asked) -> Result<Answer, Problem> + Send + 'static,
) -> Response {
    let working = move || {
        let sent = work(&asked)
            .and_then(|answer| sending.send(answer, &asked.parameters, asked.snapshot.modified()));
        sent.unwrap_or_else(Problem::into_response)
    };
    let worked = turns.work(working).await;
    worked.unwrap_or_else(|undone| Problem::from(undone).into_response())
}

fn sending(method: &Method, headers: &HeaderMap) -> Result<Sending, Problem> {
    match *method {
        Method::GET | Method::HEAD => Ok(Sending {
            head: method == Method::HEAD,
            headers: headers.clone(),
        }),
        _ => Err(Problem::method()),
    }
}

/// The description is part of the program, and as old as its start.
async fn openapi(method: Method, headers: HeaderMap) -> Result<Response, Problem> {
    static STARTED: LazyLock<SystemTime> = LazyLock::new(SystemTime::now);
    let answer = Answer::Whole(Bytes::from_static(OPENAPI.as_bytes()));
    sending(&method, &headers)?.send(answer, &Parameters::default(), *STARTED)
}
