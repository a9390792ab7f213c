//! catalogd's GraphQL API: `/catalogs/{name}/api/v1/graphql`.
//!
//! A query is taken from the body, held against limits, and answered by the
//! snapshot, on a thread for blocking work and at most as many at a time as
//! there are cores. Browsers get a page to ask from.

mod limits;
mod page;
mod variables;

use std::io::Write as _;
use std::time::Duration;

use async_graphql::{PathSegment, Pos, ServerError, Value};
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{MethodRouter, any};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{HeaderValue, Method, StatusCode};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use crate::serve::http::{Named, Refusal, SMALLEST_COMPRESSED, encoding, find};
use crate::serve::net::body::Slices;
use crate::serve::worker_pool;
use crate::serve::worker_pool::{Turns, Undone, Unread};
use crate::snapshot::Catalogs;
use crate::snapshot::graphql::{Cancel, Question};
use limits::{MAX_QUERY, QueryError};

/// How large a request's body may be, in bytes.
const MAX_BODY: usize = 1 << 20;
/// How long it may take to come.
const BODY_TIME: Duration = Duration::from_secs(30);
/// How many errors an answer lists.
const MAX_ERRORS: usize = 100;
/// How long the message of an error may be, in bytes.
const MAX_MESSAGE: usize = 2_000;

const BODY: Refusal = Refusal::Text(StatusCode::BAD_REQUEST, "Invalid request body");
const EMPTY: Refusal = Refusal::Text(StatusCode::BAD_REQUEST, "Query cannot be empty");
const LARGE: Refusal = Refusal::Text(StatusCode::BAD_REQUEST, "Query too large");
const SLOW: Refusal = Refusal::Text(StatusCode::REQUEST_TIMEOUT, "408 Request Timeout");
const BUSY: Refusal = Refusal::Text(
    StatusCode::SERVICE_UNAVAILABLE,
    "too many queries are being answered",
);
const DEFECT: Refusal = Refusal::Text(
    StatusCode::INTERNAL_SERVER_ERROR,
    "500 Internal Server Error",
);

/// What answers at the path of the API.
pub(super) fn route() -> MethodRouter<Catalogs> {
    let turns = Turns::for_each_core(1);
    any(
        move |State(catalogs): State<Catalogs>, name: Named, request: Request| {
            answer(turns.clone(), catalogs, name, request)
        },
    )
}

/// What a client sends. What else stands there is passed over.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    #[serde(default)]
    query: String,
    #[serde(default)]
    variables: Option<serde_json::Map<String, serde_json::Value>>,
    #[serde(default)]
    operation_name: Option<String>,
}

async fn answer(
    turns: Turns,
    catalogs: Catalogs,
    name: Named,
    request: Request,
) -> Result<Response, Refusal> {
    let Path(name) = name.map_err(|_| Refusal::Path)?;
    match *request.method() {
        Method::POST => {}
        Method::GET | Method::HEAD if page::is_wanted(request.headers()) => {
            find(&catalogs, &name)?;
            return Ok(page::respond());
        }
        _ => return Err(Refusal::Method("GET, HEAD, POST")),
    }
    let gzip = encoding::accepts_gzip(request.headers().get_all(ACCEPT_ENCODING));
    let body = worker_pool::read(request.into_body(), MAX_BODY);
    let body = tokio::time::timeout(BODY_TIME, body)
        .await
        .map_err(|_| SLOW)?
        .map_err(|unread| match unread {
            Unread::Busy => BUSY,
            Unread::Bad => BODY,
        })?;
    // When the client goes away, this is dropped, and the work with it.
    let given_up = GivenUp(Cancel::default());
    let (runtime, cancel) = (Handle::current(), given_up.0.clone());
    let work = move || {
        let body = runtime.block_on(make(&catalogs, &name, &body, &cancel))?;
        respond(body, gzip)
    };
    turns.work(work).await.map_err(refusal)?
}

fn refusal(undone: Undone) -> Refusal {
    match undone {
        Undone::Busy => BUSY,
        Undone::Failed => DEFECT,
    }
}

struct GivenUp(Cancel);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Makes the body of the answer.
async fn make(
    catalogs: &Catalogs,
    name: &str,
    body: &[u8],
    cancel: &Cancel,
) -> Result<Vec<u8>, Refusal> {
    // Serde would take a list of the values as well.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(BODY);
    }
    let asked: Asked = serde_json::from_slice(body).map_err(|_| BODY)?;
    if asked.query.is_empty() {
        return Err(EMPTY);
    }
    if asked.query.len() > MAX_QUERY {
        return Err(LARGE);
    }
    let document = match limits::parse(&asked.query) {
        Ok(document) => document,
        Err(error) => return Ok(write(&Value::Null, &[server_error(error)])),
    };
    let snapshot = find(catalogs, name)?;
    let variables = asked.variables.unwrap_or_default();
    let operation = asked.operation_name.filter(|name| !name.is_empty());
    let errors = variables::check(&document, operation.as_deref(), &variables);
    if !errors.is_empty() {
        return Ok(write(&Value::Null, &errors));
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
            tracing::error!(catalog = name, %error, "a query was not answered");
            DEFECT
        })?;
    Ok(write(&response.data, &response.errors))
}

fn server_error(error: QueryError) -> ServerError {
    let mut found = ServerError::new(error.to_string(), None);
    if let QueryError::Parse { places, .. } = error {
        found.locations = places;
    }
    found
}

/// An answer as it is sent: the data before the errors, and no extensions.
#[derive(Serialize)]
struct Answer<'a> {
    data: &'a Value,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<AnswerError<'a>>,
}

#[derive(Serialize)]
struct AnswerError<'a> {
    message: &'a str,
    locations: &'a [Pos],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    path: &'a [PathSegment],
}

fn write(data: &Value, errors: &[ServerError]) -> Vec<u8> {
    let answer = Answer {
        data,
        errors: errors
            .iter()
            .take(MAX_ERRORS)
            .map(|error| AnswerError {
                message: &error.message[..error.message.floor_char_boundary(MAX_MESSAGE)],
                locations: &error.locations,
                path: &error.path,
            })
            .collect(),
    };
    // Nothing in it cannot be written.
    serde_json::to_vec(&answer).unwrap_or_default()
}

fn respond(mut body: Vec<u8>, gzip: bool) -> Result<Response, Refusal> {
    let gzip = gzip && body.len() as u64 >= SMALLEST_COMPRESSED;
    let compressed = gzip.then(|| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&body).and_then(|()| encoder.finish())
    });
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    if let Some(Ok(compressed)) = compressed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        body = compressed;
    }
    let body = worker_pool::hold(body.into()).map_err(refusal)?;
    *response.body_mut() = Body::new(Slices::new([body]));
    crate::serve::http::no_sniffing(response.headers_mut());
    Ok(response)
}
