//! Error responses in the format of the distribution specification.

use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::json;

use ::images::digest::Digest;

/// `Retry-After` of an image that is not made yet, in seconds.
const RETRY_SECONDS: &str = "5";

/// Why a request is rejected.
#[derive(Debug)]
pub(super) enum OciRejection {
    /// Not a path of the API.
    Path,
    /// A method other than GET and HEAD.
    Method,
    /// A malformed name of a repository.
    Name,
    /// A repository that does not exist or that the caller may not pull.
    UnknownName {
        /// Its name.
        name: String,
        /// Whether other credentials may pull more.
        restricted: bool,
    },
    /// A malformed digest.
    Digest(String),
    /// An unknown manifest.
    UnknownManifest(String),
    /// A tag of several upstream registries, with different images.
    Ambiguous(String),
    /// An unknown blob.
    UnknownBlob(String),
    /// A malformed number of entries.
    Number,
    /// An unsatisfiable range of so many bytes.
    Range(u64),
    /// A catalog whose image is not made yet.
    NotMade,
    /// A blob that is damaged in the store.
    Damaged(Digest),
    /// Credentials are missing or invalid; with the challenge.
    Unauthorized(HeaderValue),
    /// Too many passwords are being checked.
    TooMany,
    /// A defect of almanac, which the log describes.
    Failed,
}

impl OciRejection {
    /// The status, and the code of the specification.
    fn code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Path | Self::UnknownName { .. } => (StatusCode::NOT_FOUND, "NAME_UNKNOWN"),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "UNSUPPORTED"),
            Self::Name => (StatusCode::BAD_REQUEST, "NAME_INVALID"),
            Self::Digest(_) => (StatusCode::BAD_REQUEST, "DIGEST_INVALID"),
            Self::UnknownManifest(_) | Self::Ambiguous(_) => {
                (StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN")
            }
            Self::UnknownBlob(_) => (StatusCode::NOT_FOUND, "BLOB_UNKNOWN"),
            Self::Number => (StatusCode::BAD_REQUEST, "PAGINATION_NUMBER_INVALID"),
            Self::Range(_) => (StatusCode::RANGE_NOT_SATISFIABLE, "RANGE_INVALID"),
            Self::NotMade | Self::Damaged(_) => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
            Self::Unauthorized(_) => (StatusCode::UNAUTHORIZED, "UNAUTHORIZED"),
            Self::TooMany => (StatusCode::TOO_MANY_REQUESTS, "TOOMANYREQUESTS"),
            Self::Failed => (StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN"),
        }
    }

    fn message(&self) -> String {
        let message = match self {
            Self::Path => {
                "there is no such path; the API is that of the OCI distribution specification"
            }
            Self::Method => "catalogs can be pulled from here and nothing can be pushed or deleted",
            Self::Name => "this is no name of a repository",
            Self::UnknownName { name, restricted } => {
                let end = if *restricted {
                    " that these credentials may pull"
                } else {
                    ""
                };
                return format!("there is no repository {name:?}{end}");
            }
            Self::Digest(text) => {
                return format!(
                    "{text:?} is no digest: sha256: and 64 lower-case hexadecimal digits are"
                );
            }
            Self::UnknownManifest(reference) => {
                return format!("the repository has no manifest {reference:?}");
            }
            Self::Ambiguous(tag) => {
                return format!(
                    "several registries have another image as {tag:?} here: say which with \
                     ns=REGISTRY, or pull by the name of the catalog or by digest"
                );
            }
            Self::UnknownBlob(digest) => return format!("the repository has no blob {digest:?}"),
            Self::Number => "n is no number of entries: write a whole number from 0",
            Self::Range(length) => return format!("there is no such range of {length} bytes"),
            Self::NotMade => "the image of this catalog is not made yet",
            Self::Damaged(digest) => {
                return format!("{digest} is damaged in the store, and is being rebuilt");
            }
            Self::Unauthorized(_) => "credentials are needed, or these are not valid",
            Self::TooMany => "too many passwords are being checked",
            Self::Failed => "almanac failed; its log has the reason",
        };
        message.to_owned()
    }
}

impl IntoResponse for OciRejection {
    fn into_response(self) -> Response {
        let ((status, code), message) = (self.code(), self.message());
        let body = json!({"errors": [{"code": code, "message": message, "detail": null}]});
        let kind = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let mut response = (status, kind, body.to_string()).into_response();
        let headers = response.headers_mut();
        match self {
            Self::Method => {
                headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            }
            Self::NotMade | Self::Damaged(_) | Self::TooMany => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static(RETRY_SECONDS));
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
