//! What a request cannot have, as the distribution specification says it.

use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::json;

/// How long to wait for an image that is not made yet, in seconds.
const LOADING: &str = "5";

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Refusal {
    /// No path of the API.
    Path,
    /// A method that only reads nothing.
    Method,
    /// A name of no repository.
    Name,
    /// A repository that is not there.
    UnknownName(String),
    /// A digest that is none.
    Digest(String),
    /// A manifest that is not there.
    UnknownManifest(String),
    /// A tag that several registries have, each for another image.
    Ambiguous(String),
    /// A blob that is not there.
    UnknownBlob(String),
    /// A number of entries that is none.
    Number,
    /// A range that cannot be had of so many bytes.
    Range(u64),
    /// A catalog whose image is not made yet.
    NotMade,
    /// Nobody has said who is asking, or not truly; with the challenge.
    Unauthorized(HeaderValue),
    /// Whoever asks may not.
    Denied,
    /// More is asked than can be checked.
    TooMany,
}

impl Refusal {
    fn parts(&self) -> (StatusCode, &'static str, String) {
        match self {
            Self::Path => (
                StatusCode::NOT_FOUND,
                "NAME_UNKNOWN",
                "there is no such path; the API is that of the OCI distribution specification"
                    .into(),
            ),
            Self::Method => (
                StatusCode::METHOD_NOT_ALLOWED,
                "UNSUPPORTED",
                "catalogs can be pulled from here and nothing can be pushed or deleted".into(),
            ),
            Self::Name => (
                StatusCode::BAD_REQUEST,
                "NAME_INVALID",
                "this is no name of a repository".into(),
            ),
            Self::UnknownName(name) => (
                StatusCode::NOT_FOUND,
                "NAME_UNKNOWN",
                format!("there is no repository {name:?}"),
            ),
            Self::Digest(text) => (
                StatusCode::BAD_REQUEST,
                "DIGEST_INVALID",
                format!("{text:?} is no digest: sha256: and 64 lower-case hexadecimal digits are"),
            ),
            Self::UnknownManifest(reference) => (
                StatusCode::NOT_FOUND,
                "MANIFEST_UNKNOWN",
                format!("the repository has no manifest {reference:?}"),
            ),
            Self::Ambiguous(tag) => (
                StatusCode::NOT_FOUND,
                "MANIFEST_UNKNOWN",
                format!(
                    "several registries have another image as {tag:?} here: say which with \
                     ns=REGISTRY, or pull by the name of the catalog or by digest"
                ),
            ),
            Self::UnknownBlob(digest) => (
                StatusCode::NOT_FOUND,
                "BLOB_UNKNOWN",
                format!("the repository has no blob {digest:?}"),
            ),
            Self::Number => (
                StatusCode::BAD_REQUEST,
                "PAGINATION_NUMBER_INVALID",
                "n is no number of entries: write a whole number from 0".into(),
            ),
            Self::Range(length) => (
                StatusCode::RANGE_NOT_SATISFIABLE,
                "RANGE_INVALID",
                format!("there is no such range of {length} bytes"),
            ),
            Self::NotMade => (
                StatusCode::SERVICE_UNAVAILABLE,
                "UNAVAILABLE",
                "the image of this catalog is not made yet".into(),
            ),
            Self::Unauthorized(_) => (
                StatusCode::UNAUTHORIZED,
                "UNAUTHORIZED",
                "credentials are needed, or these are not valid".into(),
            ),
            Self::Denied => (
                StatusCode::FORBIDDEN,
                "DENIED",
                "a client certificate is needed".into(),
            ),
            Self::TooMany => (
                StatusCode::TOO_MANY_REQUESTS,
                "TOOMANYREQUESTS",
                "too many passwords are being checked".into(),
            ),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, code, message) = self.parts();
        let body = json!({"errors": [{"code": code, "message": message, "detail": null}]});
        let kind = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let mut response = (status, kind, body.to_string()).into_response();
        let headers = response.headers_mut();
        match self {
            Self::Method => {
                headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            }
            Self::NotMade | Self::TooMany => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static(LOADING));
            }
            Self::Unauthorized(challenge) => {
                headers.insert(WWW_AUTHENTICATE, challenge);
            }
            Self::Range(length) => {
                if let Ok(range) = HeaderValue::try_from(format!("bytes */{length}")) {
                    headers.insert(http::header::CONTENT_RANGE, range);
                }
            }
            _ => {}
        }
        response
    }
}
