//! The errors of talking to a registry, with one table of their meaning.

use std::time::Duration;

use http::StatusCode;
use reqwest::Url;
use rustls::AlertDescription;

use crate::config_files::FileError;
use crate::digest::Digest;
use crate::display::clip;
use crate::manifest::ManifestError;
use crate::policy::PolicyRejection;
use crate::reference::Reference;
use crate::registry::Proxy;
use crate::registry::message::RegistryMessage;
use crate::registry::url::redacted;
use crate::server_trust;
use crate::verify::VerifyError;

/// The longest text of an error with its causes, in characters.
pub(crate) const MAX_CAUSES: usize = 600;

/// What a request over plain http may have met.
const PLAIN_NOTE: &str = "plain http is spoken to registries on this machine without a folder \
    HOST[:PORT] in certs.d, and to those that are listed as insecure";

/// Why a request to a registry failed. URLs come without user, password, query
/// and fragment, and name the proxy where one is used.
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
    #[error("{reference}: no trusted TLS connection to {url}: {problem}")]
    Tls {
        /// The image.
        reference: Reference,
        /// The requested address.
        url: String,
        /// The problem.
        problem: String,
    },
    /// A proxy that requires a login, or that refuses the given one.
    #[error("{reference}: {url}: {problem}")]
    Proxy {
        /// The image.
        reference: Reference,
        /// The requested address, with the proxy.
        url: String,
        /// What it wants.
        problem: &'static str,
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
    #[error("{reference}: the response of {url} broke off{}", interrupted_note(*.is_plain))]
    Interrupted {
        /// The image.
        reference: Reference,
        /// The requested address.
        url: String,
        /// Whether a request over plain http had no response at all.
        is_plain: bool,
        /// The cause.
        source: reqwest::Error,
    },
    /// A response that is no success.
    #[error(
        "{reference}: {url} answered {status}{message}{}",
        status_note(*.status, *.login, *.retry_after, *.expects_tls)
    )]
    Status {
        /// The image.
        reference: Reference,
        /// The requested address.
        url: String,
        /// The status of the response.
        status: StatusCode,
        /// The registry's message.
        message: RegistryMessage,
        /// The pause that the registry asks for.
        retry_after: Option<Duration>,
        /// What became of credentials.
        login: Login,
        /// Whether the request was plain http to a port that expects TLS.
        expects_tls: bool,
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
    #[error(
        "{reference}: the redirect of {url}{} is not followed: {problem}",
        target.as_ref().map(|target| format!(" to {target}")).unwrap_or_default()
    )]
    Redirect {
        /// The image.
        reference: Reference,
        /// The address that redirects.
        url: String,
        /// The address that it names, if that is one.
        target: Option<String>,
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
    /// A manifest or blob in an encoding of HTTP, with another digest or size than the
    /// expected one.
    #[error(
        "{reference}: {url} answered with the content encoding {encoding:?}, which was not \
         requested, and bytes that do not match the digest: a server on the way may compress \
         responses"
    )]
    Encoded {
        /// The image.
        reference: Reference,
        /// The requested address.
        url: String,
        /// The encoding, as the response names it.
        encoding: String,
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

/// What became of credentials in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Login {
    /// None were sent, and none were looked for.
    #[default]
    Unsent,
    /// They were sent.
    Sent,
    /// None are configured.
    NotConfigured,
    /// The registry named no known way to log in, so those that are configured were
    /// not sent.
    NotAsked,
    /// The registry requires a user and password. A token is configured.
    OnlyToken,
    /// The response is of a host that the registry leads to, which gets none.
    OtherHost,
}

impl Error {
    /// A short label for metrics, of a small fixed set.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Setup { .. } => "setup",
            Self::Host { .. } => "bad_host",
            Self::Unreachable { .. } | Self::Proxy { .. } => "unreachable",
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
            Self::ManifestMismatch { .. } | Self::BlobMismatch { .. } | Self::Encoded { .. } => {
                "digest_mismatch"
            }
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

    /// Whether each location that was asked says that it does not have the content.
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::Status { status, .. } => {
                matches!(*status, StatusCode::NOT_FOUND | StatusCode::GONE)
            }
            Self::AllFailed { failures, .. } => {
                let mut asked = failures
                    .iter()
                    .filter(|error| !matches!(error, Self::Blocked { .. }))
                    .peekable();
                asked.peek().is_some() && asked.all(Self::is_not_found)
            }
            _ => false,
        }
    }

    /// Whether a location returned a manifest with another digest than the one it named.
    pub fn is_manifest_mismatch(&self) -> bool {
        match self {
            Self::ManifestMismatch { .. } => true,
            Self::AllFailed { failures, .. } => failures.iter().any(Self::is_manifest_mismatch),
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
    pub(crate) fn from_transport(reference: &Reference, url: &Url, error: reqwest::Error) -> Self {
        Self::from_request(reference, url, None, error)
    }

    /// The error of a proxy that answered 407.
    pub(crate) fn from_proxy(reference: &Reference, url: &Url, proxy: &Proxy) -> Self {
        Self::Proxy {
            reference: reference.clone(),
            url: through(url, Some(proxy)),
            problem: proxy.login_problem(),
        }
    }

    /// Classifies an error of the HTTP client in a request, perhaps through a proxy.
    pub(crate) fn from_request(
        reference: &Reference,
        url: &Url,
        proxy: Option<&Proxy>,
        error: reqwest::Error,
    ) -> Self {
        if let Some(proxy) = proxy.filter(|_| Proxy::wants_login(&error)) {
            return Self::from_proxy(reference, url, proxy);
        }
        let is_plain = url.scheme() == "http" && proxy.is_none() && error.is_request();
        let has_secure_proxy = proxy.is_some_and(|proxy| proxy.has_tls);
        let (reference, url) = (reference.clone(), through(url, proxy));
        // The client's own message would repeat the URL with its query.
        let source = error.without_url();
        if source.is_timeout() {
            return Self::Timeout { reference, url };
        }
        // A body that breaks off later may be requested again.
        let tls = if source.is_request() {
            tls_problem(&source, has_secure_proxy)
        } else {
            None
        };
        match tls {
            Some(problem) => Self::Tls {
                reference,
                url,
                problem,
            },
            None if source.is_connect() => Self::Unreachable {
                reference,
                url,
                source,
            },
            None => Self::Interrupted {
                reference,
                url,
                is_plain,
                source,
            },
        }
    }
}

/// An address for messages, with the proxy on the way.
fn through(url: &Url, proxy: Option<&Proxy>) -> String {
    let url = redacted(url);
    match proxy {
        Some(proxy) => format!("{url} (through the proxy {proxy})"),
        None => url,
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
    clip(&text, MAX_CAUSES)
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

/// What a status means for whoever has to act on it, in parentheses.
fn status_note(
    status: StatusCode,
    login: Login,
    retry_after: Option<Duration>,
    expects_tls: bool,
) -> String {
    let login = match (status, login) {
        (StatusCode::UNAUTHORIZED, Login::Sent) => "the credentials were refused",
        (StatusCode::UNAUTHORIZED, Login::NotConfigured) => "no credentials are configured for it",
        (StatusCode::UNAUTHORIZED, Login::NotAsked) => {
            "the registry names no way to log in that is known here (Basic, Bearer); credentials \
             were not sent"
        }
        (StatusCode::UNAUTHORIZED, Login::OnlyToken) => {
            "it requires a user and password; only a token is configured for it"
        }
        (StatusCode::UNAUTHORIZED, Login::OtherHost) => {
            "a host that the registry leads to gets no credentials"
        }
        (_, Login::OtherHost) => "",
        (StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS, Login::Sent) => {
            "credentials were sent"
        }
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS, _) => {
            "no credentials were sent"
        }
        _ => "",
    };
    let pause = retry_after.filter(|pause| !pause.is_zero()).map(|pause| {
        let pause = humantime::format_duration(Duration::from_secs(pause.as_secs()));
        format!("it asks for a pause of {pause}")
    });
    let tls = expects_tls.then(|| format!("it expects TLS; {PLAIN_NOTE}"));
    let notes: Vec<String> = [pause, Some(login.to_owned()), tls]
        .into_iter()
        .flatten()
        .filter(|note| !note.is_empty())
        .collect();
    if notes.is_empty() {
        return String::new();
    }
    format!(" ({})", notes.join("; "))
}

fn interrupted_note(is_plain: bool) -> String {
    if is_plain {
        format!(" (if it expects TLS: {PLAIN_NOTE})")
    } else {
        String::new()
    }
}

/// Why TLS failed, as a sentence; none for other failures. With a proxy that speaks TLS
/// itself, the failure may be on the way to that.
fn tls_problem(
    error: &(dyn std::error::Error + 'static),
    has_secure_proxy: bool,
) -> Option<String> {
    if let Some(refusal) = server_trust::refusal(error) {
        let remedy = if server_trust::is_untrusted(error) {
            "; if it is the right server, put its authority, or the certificate itself, into \
             certs.d/HOST[:PORT]/ca.crt or name it by --ca-file"
        } else {
            ""
        };
        return Some(refusal + remedy);
    }
    let mut causes = server_trust::causes(error);
    let problem = causes.find_map(|cause| cause.downcast_ref::<rustls::Error>())?;
    Some(match problem {
        rustls::Error::InvalidMessage(_) if has_secure_proxy => {
            "it or the proxy does not speak TLS (write http:// in the variable of a proxy without \
             TLS)"
                .to_owned()
        }
        rustls::Error::InvalidMessage(_) => {
            "it does not speak TLS (a registry without TLS must be named as insecure)".to_owned()
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "it requires a client certificate: certs.d/HOST[:PORT] takes NAME.cert with NAME.key"
                .to_owned()
        }
        rustls::Error::AlertReceived(
            AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::AccessDenied,
        ) => "it refused the client certificate of its folder in certs.d".to_owned(),
        rustls::Error::AlertReceived(AlertDescription::UnrecognisedName) => {
            "it does not know this host name".to_owned()
        }
        rustls::Error::AlertReceived(
            AlertDescription::HandshakeFailure
            | AlertDescription::ProtocolVersion
            | AlertDescription::InsufficientSecurity,
        )
        | rustls::Error::PeerIncompatible(_) => {
            "it has no version of TLS or algorithm in common with this client (TLS 1.2 and 1.3)"
                .to_owned()
        }
        other => format!("the handshake failed ({other})"),
    })
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

    #[test]
    fn a_status_is_told_with_what_it_means_for_the_reader() {
        let note = |status, login, seconds: Option<u64>| {
            let status = StatusCode::from_u16(status).unwrap();
            status_note(status, login, seconds.map(Duration::from_secs), false)
        };
        assert_eq!(note(404, Login::Sent, None), "");
        assert_eq!(
            note(401, Login::NotAsked, None),
            " (the registry names no way to log in that is known here (Basic, Bearer); credentials \
             were not sent)"
        );
        assert_eq!(
            note(429, Login::NotConfigured, Some(90)),
            " (it asks for a pause of 1m 30s; no credentials were sent)"
        );
        for status in [403, 429] {
            assert_eq!(note(status, Login::Sent, None), " (credentials were sent)");
            assert_eq!(note(status, Login::OtherHost, None), "");
        }
        assert_eq!(
            note(403, Login::NotConfigured, None),
            " (no credentials were sent)"
        );
        assert_eq!(
            note(503, Login::Sent, Some(7)),
            " (it asks for a pause of 7s)"
        );
        let plain = status_note(StatusCode::BAD_REQUEST, Login::Unsent, None, true);
        assert!(plain.contains("certs.d"), "{plain}");
    }

    #[test]
    fn a_failed_handshake_is_described_without_names_of_the_library() {
        for (problem, said) in [
            (
                rustls::Error::AlertReceived(AlertDescription::CertificateRequired),
                "it requires a client certificate",
            ),
            (
                rustls::Error::AlertReceived(AlertDescription::UnknownCA),
                "it refused the client certificate",
            ),
            (
                rustls::Error::AlertReceived(AlertDescription::ProtocolVersion),
                "no version of TLS or algorithm in common",
            ),
            (
                rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType),
                "it does not speak TLS",
            ),
            (
                rustls::CertificateError::UnknownIssuer.into(),
                "certs.d/HOST[:PORT]/ca.crt",
            ),
        ] {
            // As a connection holds it.
            let error = std::io::Error::other(problem);
            let text = tls_problem(&error, false).unwrap();
            assert!(text.contains(said), "{text}");
        }
        assert_eq!(tls_problem(&std::io::Error::other("reset"), false), None);
    }
}
