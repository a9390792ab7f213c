//! The errors of talking to a registry, with one table of their meaning.

use std::time::Duration;

use http::StatusCode;
use reqwest::Url;

use crate::config_files::FileError;
use crate::digest::Digest;
use crate::manifest::ManifestError;
use crate::policy::PolicyRejection;
use crate::reference::Reference;
use crate::registry::message::RegistryMessage;
use crate::registry::url::redacted;
use crate::verify::VerifyError;

/// The longest text of an error with its causes, in characters.
pub(crate) const MAX_CAUSES: usize = 600;

/// Why a request to a registry failed. URLs come without user, password, query
/// and fragment.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client could not be set up (certificates, proxy settings).
    #[error("the registry client cannot be set up: {problem}")]
    Setup {
        /// The problem.
        problem: String,
    },
    /// A registry whose name makes no URL.
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
        /// The requested address.
        url: String,
        /// The cause.
        source: reqwest::Error,
    },
    /// No secure connection: a certificate that is not trusted, or no TLS.
    #[error("{reference}: no trusted TLS connection to {url}{}", no_tls_note(.source))]
    Tls {
        /// The image.
        reference: Reference,
        /// The requested address.
        url: String,
        /// The cause.
        source: reqwest::Error,
    },
    /// No response, or no end of it, in time.
    #[error("{reference}: {url} did not respond in time")]
    Timeout {
        /// The image.
        reference: Reference,
        /// The requested address.
        url: String,
    },
    /// The connection broke during the response.
    #[error("{reference}: the response of {url} broke off")]
    Interrupted {
        /// The image.
        reference: Reference,
        /// The requested address.
        url: String,
        /// The cause.
        source: reqwest::Error,
    },
    /// A response that is no success.
    #[error("{reference}: {url} answered {status}{message}{}", credentials_note(*.status, *.with_credentials))]
    Status {
        /// The image.
        reference: Reference,
        /// The requested address.
        url: String,
        /// The status of the response.
        status: StatusCode,
        /// The code and message of the registry's error document.
        message: RegistryMessage,
        /// The pause that the registry asks for.
        retry_after: Option<Duration>,
        /// Whether credentials were sent.
        with_credentials: bool,
    },
    /// A registry that asked for a pause, which is not over.
    #[error(
        "{reference}: {url} is not requested: its registry asked for a pause of another {}",
        humantime::format_duration(Duration::from_secs(wait.as_secs() + 1))
    )]
    Paused {
        /// The image.
        reference: Reference,
        /// The address.
        url: String,
        /// The rest of the pause.
        wait: Duration,
    },
    /// Another part of a blob than the requested one.
    #[error(
        "{reference}: {url} returned another part than the requested one, from byte {from} of {size}"
    )]
    Range {
        /// The image.
        reference: Reference,
        /// The requested address.
        url: String,
        /// The first requested byte.
        from: u64,
        /// The size of the whole, in bytes.
        size: u64,
    },
    /// A redirect that is not followed.
    #[error("{reference}: the redirect of {url} is not followed: {problem}")]
    Redirect {
        /// The image.
        reference: Reference,
        /// The requested address.
        url: String,
        /// The cause.
        problem: &'static str,
    },
    /// A token service that must not be contacted, or that returned no token.
    #[error("{reference}: no token from {url}: {problem}")]
    Token {
        /// The image.
        reference: Reference,
        /// The token service.
        url: String,
        /// The problem.
        problem: &'static str,
    },
    /// A configuration file about registries that cannot be used.
    #[error("{reference}: cannot pull: {source}")]
    File {
        /// The image.
        reference: Reference,
        /// The file and the cause.
        source: FileError,
    },
    /// A location that the registry configuration blocks.
    #[error("{reference}: the registry configuration blocks {prefix}")]
    Blocked {
        /// The image, with its name at that location.
        reference: Reference,
        /// The prefix that is blocked.
        prefix: String,
    },
    /// A rewritten name that is no valid reference.
    #[error("{reference}: the registry configuration rewrites it to {text:?}: {problem}")]
    Location {
        /// The image.
        reference: Reference,
        /// The rewritten name.
        text: String,
        /// Why it is no reference.
        problem: String,
    },
    /// None of several locations can serve the image.
    #[error("{reference}: no location can serve it: {summary}")]
    AllFailed {
        /// The image.
        reference: Reference,
        /// The errors as text, in the order of the locations.
        summary: String,
        /// The errors, the image's own location last.
        failures: Vec<Error>,
    },
    /// The policy does not admit the image.
    #[error("{reference} is not admitted: {source}")]
    Rejected {
        /// The image.
        reference: Reference,
        /// The cause.
        source: PolicyRejection,
    },
    /// A place of signatures with invalid content, or with too much of it.
    #[error("{reference}: {place} cannot be used: {problem}")]
    SignatureStore {
        /// The image.
        reference: Reference,
        /// The place.
        place: String,
        /// The problem.
        problem: String,
    },
    /// A document larger than its limit.
    #[error("{reference}: the response of {url} is larger than {limit} bytes")]
    TooLarge {
        /// The image.
        reference: Reference,
        /// The requested address.
        url: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// A manifest with another digest than the expected one.
    #[error(
        "{reference}: {url} returned a manifest with the digest {actual} instead of {expected}"
    )]
    ManifestMismatch {
        /// The image.
        reference: Reference,
        /// The requested address.
        url: String,
        /// The expected digest.
        expected: Digest,
        /// The digest of the received bytes.
        actual: Digest,
    },
    /// A blob that does not match its descriptor.
    #[error("{reference}: the blob of {url} does not match its descriptor")]
    BlobMismatch {
        /// The image.
        reference: Reference,
        /// The requested address.
        url: String,
        /// The difference.
        source: VerifyError,
    },
    /// A read from a blob stream after it had failed.
    #[error("{reference}: the stream of blob {digest} failed before")]
    BlobFailed {
        /// The image.
        reference: Reference,
        /// The blob.
        digest: Digest,
    },
    /// A manifest that is invalid or unsupported.
    #[error("{reference}: manifest {digest} is not usable")]
    Manifest {
        /// The image.
        reference: Reference,
        /// The manifest.
        digest: Digest,
        /// The cause.
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
            Self::Paused { .. } => "too_many_requests",
            Self::Range { .. } => "bad_range",
            Self::Redirect { .. } => "bad_redirect",
            Self::Token { .. } => "no_token",
            Self::File { source, .. } => source.reason(),
            Self::Blocked { .. } => "blocked",
            Self::Location { .. } => "mirrors",
            // A blocked location was not expected to serve the image.
            Self::AllFailed { failures, .. } => failures
                .iter()
                .rfind(|error| !matches!(error, Self::Blocked { .. }))
                .map_or("blocked", Self::reason),
            Self::Rejected { source, .. } => source.reason(),
            Self::SignatureStore { .. } => "signature_store",
            Self::TooLarge { .. } => "too_large",
            Self::BlobMismatch { .. } if self.cut_short() => "cut_short",
            Self::ManifestMismatch { .. } | Self::BlobMismatch { .. } => "digest_mismatch",
            Self::Manifest { .. } => "bad_manifest",
        }
    }

    /// Whether a later attempt may succeed without any change: responses with
    /// 408, 429 and 5xx (except 501), failed and broken connections (except
    /// untrusted ones), and cut bodies.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Interrupted { .. }
            | Self::Paused { .. } => true,
            Self::Status { status, .. } => status_class(*status).1,
            Self::BlobMismatch { .. } => self.cut_short(),
            Self::AllFailed { failures, .. } => failures.iter().any(Self::is_temporary),
            _ => false,
        }
    }

    /// The pause that the registry asks for (`Retry-After`), at most an hour.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            Self::Paused { wait, .. } => Some(*wait),
            Self::AllFailed { failures, .. } => failures.iter().filter_map(Self::retry_after).max(),
            _ => None,
        }
    }

    /// Whether there was no working connection to an address below `base`.
    pub(crate) fn is_connection_to(&self, base: &str) -> bool {
        matches!(
            self,
            Self::Unreachable { url, .. } | Self::Tls { url, .. } | Self::Interrupted { url, .. }
                if url.starts_with(base)
        )
    }

    pub(crate) fn cut_short(&self) -> bool {
        matches!(self, Self::BlobMismatch { source, .. }
            if matches!(source, VerifyError::TooShort { .. }))
    }

    /// Classifies an error of the HTTP client.
    pub(crate) fn of_transport(reference: &Reference, url: &Url, error: reqwest::Error) -> Self {
        let (reference, url) = (reference.clone(), redacted(url));
        // The client's own message would repeat the URL with its query.
        let source = error.without_url();
        if source.is_timeout() {
            Self::Timeout { reference, url }
        } else if !source.is_connect() {
            Self::Interrupted {
                reference,
                url,
                source,
            }
        } else if tls_error(&source).is_some() {
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
    }
}

/// An error with its causes, on one line and bounded.
pub(crate) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        // Some errors repeat their cause.
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text.chars().take(MAX_CAUSES).collect()
}

/// The meaning of a status: the label, and whether it is temporary.
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

/// The remedy if the answer to a TLS handshake is of another protocol.
fn no_tls_note(error: &reqwest::Error) -> &'static str {
    match tls_error(error) {
        Some(rustls::Error::InvalidMessage(_)) => {
            ", which does not speak TLS (a registry without TLS must be named as insecure)"
        }
        _ => "",
    }
}

/// The error of the TLS library among the causes.
fn tls_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        // The source of an I/O error is the source of its inner error, so the
        // inner error itself has to be taken out.
        let io_error = error.downcast_ref::<std::io::Error>();
        next = match io_error.and_then(std::io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn std::error::Error + 'static)),
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_table_classifies_statuses() {
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
