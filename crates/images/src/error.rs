//! What can go wrong with a registry, in one enum, and what it means.

use std::fmt;
use std::time::{Duration, SystemTime};

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use reqwest::Url;
use serde::Deserialize;

use crate::credentials::AuthError;
use crate::digest::Digest;
use crate::files::FileError;
use crate::manifest::ManifestError;
use crate::policy::Refusal;
use crate::reference::Reference;
use crate::verify::VerifyError;

/// The longest a registry can make anybody wait.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);
/// How much of a registry's message an error repeats, in characters.
const MAX_MESSAGE: usize = 300;
/// How much of a URL an error repeats, in characters.
const MAX_URL: usize = 500;

/// Why something could not be had from a registry. URLs are without user,
/// password, query and fragment.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client could not be set up (certificates, proxy settings).
    #[error("the registry client cannot be set up: {problem}")]
    Setup {
        /// What is wrong.
        problem: String,
    },
    /// A registry that cannot be asked, as its name makes no URL.
    #[error("{reference}: the registry has no valid host name")]
    Host {
        /// The image.
        reference: Reference,
    },
    /// No connection: name not found, refused, no route.
    #[error("{reference}: {url} cannot be reached")]
    Unreachable {
        /// The image.
        reference: Reference,
        /// What was asked.
        url: String,
        /// Why not.
        source: reqwest::Error,
    },
    /// No secure connection: a certificate that is not trusted, or no TLS.
    #[error("{reference}: no trusted TLS connection to {url}")]
    Tls {
        /// The image.
        reference: Reference,
        /// What was asked.
        url: String,
        /// Why not.
        source: reqwest::Error,
    },
    /// No answer, or no end of it, in time.
    #[error("{reference}: {url} did not answer in time")]
    Timeout {
        /// The image.
        reference: Reference,
        /// What was asked.
        url: String,
    },
    /// The connection broke in the middle.
    #[error("{reference}: the answer of {url} broke off")]
    Interrupted {
        /// The image.
        reference: Reference,
        /// What was asked.
        url: String,
        /// How.
        source: reqwest::Error,
    },
    /// An answer other than success.
    #[error("{reference}: {url} answered {status}{message}{}", credentials_note(*.status, *.with_credentials))]
    Status {
        /// The image.
        reference: Reference,
        /// What was asked.
        url: String,
        /// The answer.
        status: StatusCode,
        /// The code and message of the registry's error document.
        message: Message,
        /// How long the registry asks to be left alone.
        retry_after: Option<Duration>,
        /// Whether credentials were sent.
        with_credentials: bool,
    },
    /// A registry that asked to be left alone for longer than it was by now.
    #[error(
        "{reference}: {url} is not asked, since its registry asked to be left alone for another {}",
        humantime::format_duration(Duration::from_secs(wait.as_secs() + 1))
    )]
    LeftAlone {
        /// The image.
        reference: Reference,
        /// What would have been asked.
        url: String,
        /// How long that goes on.
        wait: Duration,
    },
    /// Another part of a blob than the one that was asked for.
    #[error("{reference}: {url} gave another part than the one from byte {from} of {size} on")]
    Range {
        /// The image.
        reference: Reference,
        /// What was asked.
        url: String,
        /// Where the part should have begun.
        from: u64,
        /// The size of the whole, in bytes.
        size: u64,
    },
    /// A redirect that is not followed.
    #[error("{reference}: the redirect of {url} is not followed: {problem}")]
    Redirect {
        /// The image.
        reference: Reference,
        /// What was asked.
        url: String,
        /// Why not.
        problem: &'static str,
    },
    /// A token service that is not asked, or that gave no token.
    #[error("{reference}: no token from {url}: {problem}")]
    Token {
        /// The image.
        reference: Reference,
        /// The token service.
        url: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// Credentials that cannot be read.
    #[error("{reference}: no credentials")]
    Credentials {
        /// The image.
        reference: Reference,
        /// Why not.
        source: AuthError,
    },
    /// A file about registries that cannot be used.
    #[error("{reference}: nothing is pulled: {source}")]
    File {
        /// The image.
        reference: Reference,
        /// Which, and why not.
        source: FileError,
    },
    /// A place that the configuration of registries blocks.
    #[error("{reference}: the configuration of registries blocks {prefix}")]
    Blocked {
        /// The image, as it is called there.
        reference: Reference,
        /// The prefix that is blocked.
        prefix: String,
    },
    /// A location in the configuration of registries that leads nowhere.
    #[error("{reference}: the configuration of registries makes {text:?} of it: {problem}")]
    Location {
        /// The image.
        reference: Reference,
        /// What came of it.
        text: String,
        /// Why that is no reference.
        problem: String,
    },
    /// None of several places has it.
    #[error("{reference}: no place can serve it: {told}")]
    Places {
        /// The image.
        reference: Reference,
        /// Why not, in the order in which they were asked.
        told: String,
        /// The errors, the image's own place last.
        failures: Vec<Error>,
    },
    /// The policy does not let the image in.
    #[error("{reference} is not let in: {source}")]
    Refused {
        /// The image.
        reference: Reference,
        /// Why not.
        source: Refusal,
    },
    /// A document larger than its limit.
    #[error("{reference}: the answer of {url} is larger than {limit} bytes")]
    TooLarge {
        /// The image.
        reference: Reference,
        /// What was asked.
        url: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// A manifest whose bytes are others than its digest says.
    #[error("{reference}: {url} gave a manifest with the digest {actual} for {expected}")]
    ManifestMismatch {
        /// The image.
        reference: Reference,
        /// What was asked.
        url: String,
        /// The digest that was asked for or promised.
        expected: Digest,
        /// The digest of what came.
        actual: Digest,
    },
    /// A blob whose bytes are others than its descriptor says.
    #[error("{reference}: blob of {url} refused")]
    BlobMismatch {
        /// The image.
        reference: Reference,
        /// What was asked.
        url: String,
        /// In what it differs.
        source: VerifyError,
    },
    /// A blob stream that was read on after it had failed.
    #[error("{reference}: blob {digest} has failed before")]
    BlobFailed {
        /// The image.
        reference: Reference,
        /// The blob.
        digest: Digest,
    },
    /// A manifest that is none, or none that is supported.
    #[error("{reference}: manifest {digest} refused")]
    Manifest {
        /// The image.
        reference: Reference,
        /// The manifest.
        digest: Digest,
        /// Why.
        source: ManifestError,
    },
}

impl Error {
    /// A short label for metrics, of a small fixed set.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Setup { .. } => "setup",
            Self::Host { .. } => "bad_host",
            Self::Unreachable { .. } => "unreachable",
            Self::Tls { .. } => "tls",
            Self::Timeout { .. } => "timeout",
            Self::Interrupted { .. } | Self::BlobFailed { .. } => "interrupted",
            Self::Status { status, .. } => status_class(*status).0,
            Self::LeftAlone { .. } => "too_many_requests",
            Self::Range { .. } => "bad_range",
            Self::Redirect { .. } => "bad_redirect",
            Self::Token { .. } => "no_token",
            Self::Credentials { .. } => "credentials",
            Self::File { source, .. } => source.reason(),
            Self::Blocked { .. } => "blocked",
            Self::Location { .. } => "mirrors",
            // What is blocked was not meant to serve it.
            Self::Places { failures, .. } => failures
                .iter()
                .rfind(|error| !matches!(error, Self::Blocked { .. }))
                .map_or("blocked", Self::reason),
            Self::Refused { source, .. } => match source {
                Refusal::Unsigned { .. } => "signature",
                _ => "policy",
            },
            Self::TooLarge { .. } => "too_large",
            Self::BlobMismatch { .. } if self.cut_short() => "cut_short",
            Self::ManifestMismatch { .. } | Self::BlobMismatch { .. } => "digest_mismatch",
            Self::Manifest { .. } => "bad_manifest",
        }
    }

    /// Whether the same may go well a little later without anybody doing
    /// anything: the one table of what is asked for again. Of answers those
    /// with 408, 429 and 5xx are, but for 501; of connections all that could
    /// not be made, broke or went silent, but for those without trust, which
    /// does not come by waiting; of bodies those that were cut.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Interrupted { .. }
            | Self::LeftAlone { .. } => true,
            Self::Status { status, .. } => status_class(*status).1,
            Self::BlobMismatch { .. } => self.cut_short(),
            Self::Places { failures, .. } => failures.iter().any(Self::is_temporary),
            Self::Setup { .. }
            | Self::Host { .. }
            | Self::Tls { .. }
            | Self::Range { .. }
            | Self::Redirect { .. }
            | Self::File { .. }
            | Self::Blocked { .. }
            | Self::Location { .. }
            | Self::Refused { .. }
            | Self::Token { .. }
            | Self::Credentials { .. }
            | Self::TooLarge { .. }
            | Self::ManifestMismatch { .. }
            | Self::BlobFailed { .. }
            | Self::Manifest { .. } => false,
        }
    }

    /// How long the registry asks to be left alone (`Retry-After`), at most an
    /// hour.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            Self::LeftAlone { wait, .. } => Some(*wait),
            Self::Places { failures, .. } => failures.iter().filter_map(Self::retry_after).max(),
            _ => None,
        }
    }

    /// Whether the registry says that there is no such thing.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Status { status, .. }
            if matches!(*status, StatusCode::NOT_FOUND | StatusCode::GONE))
    }

    /// Whether there was no connection, or none that spoke as it should.
    pub(crate) fn is_connection(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::Tls { .. } | Self::Interrupted { .. }
        )
    }

    fn cut_short(&self) -> bool {
        let Self::BlobMismatch { source, .. } = self else {
            return false;
        };
        matches!(source, VerifyError::TooShort { .. })
    }

    /// Sorts an error of the HTTP client.
    pub(crate) fn of_transport(reference: &Reference, url: &Url, error: reqwest::Error) -> Self {
        let reference = reference.clone();
        let shown = redacted(url);
        // The client's own message would repeat the URL with its query.
        let source = error.without_url();
        if source.is_timeout() {
            let url = shown;
            Self::Timeout { reference, url }
        } else if source.is_connect() {
            let url = shown;
            if is_tls(&source) {
                Self::Tls {
                    reference,
                    url,
                    source,
                }
            } else {
                Self::Unreachable {
                    reference,
                    url,
                    source,
                }
            }
        } else {
            let url = shown;
            Self::Interrupted {
                reference,
                url,
                source,
            }
        }
    }
}

/// The one table of answers: the label, and whether to expect better later.
fn status_class(status: StatusCode) -> (&'static str, bool) {
    match status {
        StatusCode::UNAUTHORIZED => ("unauthorized", false),
        StatusCode::FORBIDDEN => ("forbidden", false),
        StatusCode::NOT_FOUND | StatusCode::GONE => ("not_found", false),
        StatusCode::REQUEST_TIMEOUT => ("timeout", true),
        StatusCode::TOO_MANY_REQUESTS => ("too_many_requests", true),
        StatusCode::NOT_IMPLEMENTED => ("unexpected_status", false),
        status if status.is_server_error() => ("server_error", true),
        _ => ("unexpected_status", false),
    }
}

fn credentials_note(status: StatusCode, with_credentials: bool) -> &'static str {
    match (status, with_credentials) {
        (StatusCode::UNAUTHORIZED, true) => " (the credentials were refused)",
        (StatusCode::UNAUTHORIZED, false) => " (no credentials are configured for it)",
        _ => "",
    }
}

/// A registry's own words about a failure, bounded and without control
/// characters; empty when it said nothing that is understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message(String);

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", self.0)
    }
}

/// The error document of the distribution specification, and the two or three
/// other shapes that token services use.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorDocument {
    errors: Vec<ErrorEntry>,
    details: Option<String>,
    message: Option<String>,
    error_description: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorEntry {
    code: Option<String>,
    message: Option<String>,
}

impl Message {
    /// Reads the body of a failed answer; of the listed errors the first
    /// counts.
    pub(crate) fn parse(body: &[u8]) -> Self {
        let document: ErrorDocument = serde_json::from_slice(body).unwrap_or_default();
        let first = document.errors.into_iter().next().unwrap_or_default();
        let said = first
            .message
            .or(document.details)
            .or(document.message)
            .or(document.error_description);
        let text = [first.code, said]
            .into_iter()
            .flatten()
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join(": ");
        Self(
            text.chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .take(MAX_MESSAGE)
                .collect(),
        )
    }
}

/// `Retry-After` in seconds or as a date, at most an hour.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // More digits than a number can hold are still more than the cap.
        text.parse().map_or(MAX_RETRY_AFTER, Duration::from_secs)
    } else {
        let date = httpdate::parse_http_date(text).ok()?;
        date.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

/// A URL as it may be shown: scheme, host, port and path. Blob stores put
/// signatures into the query.
pub(crate) fn redacted(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url
        .port()
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    format!("{}://{host}{port}{}", url.scheme(), url.path())
        .chars()
        .take(MAX_URL)
        .collect()
}

fn is_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<rustls::Error>() {
            return true;
        }
        // An I/O error names as its source what the error inside it names,
        // and so hides that error itself.
        let io_error = error.downcast_ref::<std::io::Error>();
        next = match io_error.and_then(std::io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn the_registrys_words_are_repeated_and_bounded() {
        let message = |body: &str| Message::parse(body.as_bytes()).to_string();
        assert_eq!(
            message(
                r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"no such\ntag","detail":{}}]}"#
            ),
            ": MANIFEST_UNKNOWN: no such tag"
        );
        assert_eq!(
            message(r#"{"details":"wrong password"}"#),
            ": wrong password"
        );
        for body in ["", "<html>", "[]", r#"{"errors":7}"#, r#"{"errors":[]}"#] {
            assert_eq!(message(body), "", "{body}");
        }
        let long = format!(r#"{{"message":"{}"}}"#, "é".repeat(10_000));
        assert!(message(&long).chars().count() <= MAX_MESSAGE + 2);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_capped() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (text, seconds) in [
            ("7", Some(7)),
            (" 7 ", Some(7)),
            ("0", Some(0)),
            ("86400", Some(3600)),
            ("99999999999999999999999999", Some(3600)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("Sat, 06 Nov 2094 08:00:00 GMT", Some(3600)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            let headers = [(RETRY_AFTER, HeaderValue::from_str(text).unwrap())];
            let wait = retry_after(&headers.into_iter().collect(), now);
            assert_eq!(wait.map(|wait| wait.as_secs()), seconds, "{text}");
        }
    }

    #[test]
    fn a_url_is_shown_without_secrets() {
        let url = Url::parse("https://me:secret@h.example:8443/v2/a?X-Signature=secret#secret");
        assert_eq!(redacted(&url.unwrap()), "https://h.example:8443/v2/a");
    }

    #[test]
    fn answers_are_sorted_by_one_table() {
        for (status, reason, temporary) in [
            (401, "unauthorized", false),
            (403, "forbidden", false),
            (404, "not_found", false),
            (418, "unexpected_status", false),
            (429, "too_many_requests", true),
            (500, "server_error", true),
            (503, "server_error", true),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(status_class(status), (reason, temporary));
        }
    }
}
