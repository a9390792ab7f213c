//! The description of the HTTP API.

use std::sync::LazyLock;
use std::time::SystemTime;

use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, Method};

use crate::serve::http::queries::parameters::Parameters;
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::response::{QueryResponse, ResponseContext};

const OPENAPI: &str = include_str!("openapi.json");

/// The document is part of the program, so its date is the start of the
/// process.
pub(super) async fn document(method: Method, headers: HeaderMap) -> Result<Response, Problem> {
    static STARTED: LazyLock<SystemTime> = LazyLock::new(SystemTime::now);
    let response = QueryResponse::Whole(Bytes::from_static(OPENAPI.as_bytes()));
    ResponseContext::of(&method, &headers)?.send(response, &Parameters::default(), *STARTED)
}
