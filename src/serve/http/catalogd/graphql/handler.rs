//! The route of GraphQL: a query is read from the body, checked against the
//! limits, and run by the snapshot on a worker pool of one worker for each core.

use std::collections::BTreeMap;
use std::time::Duration;

use async_graphql::{PathSegment, Pos, ServerError, Value};
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{MethodRouter, any};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{HeaderValue, Method, StatusCode};
use serde::Serialize;
use tokio::runtime::Handle;

use crate::serve::access::Reader;
use crate::serve::http::catalogd::content::{Named, find, reader};
use crate::serve::http::catalogd::graphql::limits::{self, MAX_QUERY, QueryError};
use crate::serve::http::catalogd::graphql::{page, variables};
use crate::serve::http::catalogd::operations::GraphqlRequest;
use crate::serve::http::encoding;
use crate::serve::http::form::SMALLEST_COMPRESSED;
use crate::serve::http::headers::no_sniffing;
use crate::serve::http::rejection::HttpRejection;
use crate::serve::memory_budget::{self, BodyError};
use crate::serve::net::body::Slices;
use crate::serve::worker_pool::{Rejected, WorkerPool};
use crate::snapshot::Catalogs;
use crate::snapshot::graphql::{Cancel, Question};

/// How large a request's body may be, in bytes.
const MAX_BODY: usize = 1 << 20;
/// How long it may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);
/// How many errors a response lists.
const MAX_ERRORS: usize = 100;
/// How long the message of an error may be, in bytes.
const MAX_MESSAGE: usize = 2_000;

const BODY: HttpRejection = HttpRejection::Text(StatusCode::BAD_REQUEST, "Invalid request body");
const EMPTY: HttpRejection = HttpRejection::Text(StatusCode::BAD_REQUEST, "Query cannot be empty");
const LARGE: HttpRejection = HttpRejection::Text(StatusCode::BAD_REQUEST, "Query too large");
const SLOW: HttpRejection = HttpRejection::Text(StatusCode::REQUEST_TIMEOUT, "408 Request Timeout");
const BUSY: HttpRejection = HttpRejection::Text(
    StatusCode::SERVICE_UNAVAILABLE,
    "too many queries are being answered",
);
const DEFECT: HttpRejection = HttpRejection::Text(
    StatusCode::INTERNAL_SERVER_ERROR,
    "500 Internal Server Error",
);

/// The route.
pub(crate) fn route() -> MethodRouter<Catalogs> {
    let pool = WorkerPool::per_core(1);
    any(
        move |State(catalogs): State<Catalogs>, name: Named, request: Request| {
            answer(pool.clone(), catalogs, name, request)
        },
    )
}

async fn answer(
    pool: WorkerPool,
    catalogs: Catalogs,
    name: Named,
    request: Request,
) -> Result<Response, HttpRejection> {
    let Path(name) = name.map_err(|_| HttpRejection::Path)?;
    let reader = reader(&request);
    match *request.method() {
        Method::POST => {}
        Method::GET | Method::HEAD if encoding::accepts_named(request.headers(), "text/html") => {
            find(&catalogs, &reader, &name)?;
            return Ok(page::respond(request.extensions(), &catalogs));
        }
        _ => return Err(HttpRejection::Method("GET, HEAD, POST")),
    }
    let gzip = encoding::accepts_gzip(request.headers().get_all(ACCEPT_ENCODING));
    let body = memory_budget::read_body(request.into_body(), MAX_BODY);
    let body = tokio::time::timeout(BODY_TIME, body)
        .await
        .map_err(|_| SLOW)?
        .map_err(|error| match error {
            BodyError::Busy => BUSY,
            BodyError::Invalid => BODY,
        })?;
    // If the client disconnects, this future is dropped and cancels the work.
    let abandoned = CancelOnDrop(Cancel::default());
    let (runtime, cancel) = (Handle::current(), abandoned.0.clone());
    let work = move || {
        let body = runtime.block_on(make(&catalogs, &reader, &name, &body, &cancel))?;
        respond(body, gzip)
    };
    pool.run(work).await.map_err(rejection)?
}

fn rejection(rejected: Rejected) -> HttpRejection {
    match rejected {
        Rejected::Busy => BUSY,
        Rejected::Failed => DEFECT,
    }
}

struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Makes the body of the response.
async fn make(
    catalogs: &Catalogs,
    reader: &Reader,
    name: &str,
    body: &[u8],
    cancel: &Cancel,
) -> Result<Vec<u8>, HttpRejection> {
    // Serde would also read an array of the values.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(BODY);
    }
    let request: GraphqlRequest = serde_json::from_slice(body).map_err(|_| BODY)?;
    if request.query.is_empty() {
        return Err(EMPTY);
    }
    if request.query.len() > MAX_QUERY {
        return Err(LARGE);
    }
    let document = match limits::parse(&request.query) {
        Ok(document) => document,
        Err(error) => return write(&Value::Null, &[server_error(error)], None),
    };
    let snapshot = find(catalogs, reader, name)?;
    let variables = request.variables.unwrap_or_default();
    let operation = request.operation_name.filter(|name| !name.is_empty());
    let errors = variables::check(&document, operation.as_deref(), &variables);
    if !errors.is_empty() {
        return write(&Value::Null, &errors, None);
    }
    let question = Question {
        document,
        variables: variables.into(),
        operation,
    };
    let response = snapshot
        .answer_graphql(question, cancel)
        .await
        .map_err(|error| {
            tracing::error!(catalog = name, %error, "a GraphQL query failed");
            DEFECT
        })?;
    write(&response.data, &response.errors, Some(&response.extensions))
}

fn server_error(error: QueryError) -> ServerError {
    let mut found = ServerError::new(error.to_string(), None);
    if let QueryError::Parse { positions, .. } = error {
        found.locations = positions;
    }
    found
}

/// The members of `extensions`.
type Extensions = BTreeMap<String, Value>;

/// The body of a response: data, then errors, then extensions if there are any.
#[derive(Serialize)]
struct GraphqlResponse<'a> {
    data: &'a Value,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<GraphqlError<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extensions: Option<&'a Extensions>,
}

#[derive(Serialize)]
struct GraphqlError<'a> {
    message: &'a str,
    locations: &'a [Pos],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    path: &'a [PathSegment],
}

fn write(
    data: &Value,
    errors: &[ServerError],
    extensions: Option<&Extensions>,
) -> Result<Vec<u8>, HttpRejection> {
    let response = GraphqlResponse {
        data,
        errors: errors
            .iter()
            .take(MAX_ERRORS)
            .map(|error| GraphqlError {
                message: &error.message[..error.message.floor_char_boundary(MAX_MESSAGE)],
                locations: &error.locations,
                path: &error.path,
            })
            .collect(),
        extensions: extensions.filter(|extensions| !extensions.is_empty()),
    };
    serde_json::to_vec(&response).map_err(|error| {
        tracing::error!(%error, "a GraphQL response cannot be written as JSON");
        DEFECT
    })
}

fn respond(mut body: Vec<u8>, gzip: bool) -> Result<Response, HttpRejection> {
    let gzip = gzip && body.len() as u64 >= SMALLEST_COMPRESSED;
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    if gzip && let Ok(compressed) = encoding::gzip(&body) {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        body = compressed;
    }
    let body = memory_budget::hold(body.into()).map_err(rejection)?;
    *response.body_mut() = Body::new(Slices::new([body]));
    no_sniffing(response.headers_mut());
    Ok(response)
}
