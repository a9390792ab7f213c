//! Downloads a whole catalog from a running almanac, or from another server
//! with catalogd's HTTP API. For commands that a user types with a URL;
//! followed sources are registries, layouts and folders only.

#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use flate2::write::GzDecoder;
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, HeaderValue, LOCATION};
use reqwest::{Client, Response, StatusCode, Url};

use crate::certificates::{self, Verifier};
use crate::error_chain::error_chain;

/// The path of the whole catalog, below the catalog's URL.
const ALL: &str = "/api/v1/all";
/// The most bytes of an error response that are shown.
const MAX_MESSAGE: usize = 300;

/// The URL of a catalog that is served over HTTP.
///
/// ```
/// use almanac::fetch::CatalogUrl;
///
/// let url: CatalogUrl = "http://127.0.0.1:8080/catalogs/a".parse().unwrap();
/// assert_eq!(url.all(), "http://127.0.0.1:8080/catalogs/a/api/v1/all");
/// assert!("http://127.0.0.1:8080".parse::<CatalogUrl>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogUrl {
    /// The text it was parsed from.
    text: String,
    /// The URL of the whole catalog.
    all: Url,
}

/// Limits and trust of a download.
#[derive(Clone, Debug)]
pub struct Settings {
    /// PEM files of certificates to trust besides the system's, of authorities
    /// or of servers.
    pub ca_files: Vec<PathBuf>,
    /// The hosts (`HOST` or `HOST:PORT`) whose certificates are not verified.
    pub insecure: Vec<String>,
    /// The bearer token.
    pub token: Option<HeaderValue>,
    /// The longest time to connect, TLS included.
    pub connect_timeout: Duration,
    /// The longest time without a single byte.
    pub idle_timeout: Duration,
    /// The longest time for the whole download.
    pub timeout: Duration,
    /// The largest response as it is sent, in bytes.
    pub limit: u64,
}

/// Reasons to refuse a text as the URL of a catalog.
#[derive(Debug, thiserror::Error)]
pub enum CatalogUrlError {
    /// Not a URL: the text, and the reason.
    #[error("{0:?} is no URL: {1}")]
    Url(String, String),
    /// Neither http nor https.
    #[error("{0:?} is neither an http nor an https URL")]
    Scheme(String),
    /// It has only a host.
    #[error("{0:?} names no catalog; write http://HOST:PORT/catalogs/NAME")]
    NoCatalog(String),
    /// It has a user, a password, a query or a fragment. The message leaves the
    /// text out, as it may be secret.
    #[error("the URL of a catalog has no user, no password, no query and no fragment")]
    Parts,
}

/// A download that failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The settings cannot be used; no request was sent.
    #[error("cannot set up a connection: {0}")]
    Setup(String),
    /// A request was sent to this URL.
    #[error("{0}: {1}")]
    Request(String, RequestProblem),
}

/// Reasons why a request fails.
#[derive(Debug, thiserror::Error)]
pub enum RequestProblem {
    /// No response, or only a part of one.
    #[error("{0}")]
    Broken(String),
    /// A response without a catalog: the status, and the body after a colon.
    #[error("{0}{1}")]
    Status(u16, String),
    /// A response in an encoding other than gzip.
    #[error("the response has the encoding {0:?}, which was not requested")]
    Encoding(String),
    /// The response exceeds the limit, in bytes.
    #[error("the response exceeds the limit of {0} bytes")]
    TooLarge(u64),
    /// The download took longer than this.
    #[error("the download was not complete after {}", humantime::format_duration(*.0))]
    Timeout(Duration),
    /// The response cannot be decompressed or written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

impl From<reqwest::Error> for RequestProblem {
    fn from(error: reqwest::Error) -> Self {
        let refusal = certificates::refusal(&error);
        Self::Broken(refusal.unwrap_or_else(|| error_chain(&error.without_url())))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ca_files: Vec::new(),
            insecure: Vec::new(),
            token: None,
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(1),
            timeout: Duration::from_mins(30),
            limit: 2 << 30,
        }
    }
}

impl CatalogUrl {
    /// The URL of the whole catalog.
    pub fn all(&self) -> &str {
        self.all.as_str()
    }

    /// Writes the whole catalog to `out`, decompressed. An error of `out` ends the
    /// download, so `out` can bound the size.
    pub async fn fetch(&self, settings: &Settings, out: impl Write) -> Result<(), FetchError> {
        let client = self.client(settings).map_err(FetchError::Setup)?;
        let transfer = self.transfer(&client, settings, out);
        tokio::time::timeout(settings.timeout, transfer)
            .await
            .unwrap_or(Err(RequestProblem::Timeout(settings.timeout)))
            .map_err(|problem| FetchError::Request(self.all().to_owned(), problem))
    }

    async fn transfer(
        &self,
        client: &Client,
        settings: &Settings,
        out: impl Write,
    ) -> Result<(), RequestProblem> {
        let limit = settings.limit;
        let mut request = client.get(self.all.clone()).header(ACCEPT_ENCODING, "gzip");
        if let Some(token) = &settings.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        let answer = request.send().await?;
        if answer.status() != StatusCode::OK {
            return Err(refusal(answer).await);
        }
        let encoding = answer.headers().get(CONTENT_ENCODING);
        match encoding.map_or(&b"identity"[..], |encoding| encoding.as_bytes()) {
            b"identity" => receive(limit, answer, out).await.map(drop),
            b"gzip" => {
                let unpacking = receive(limit, answer, GzDecoder::new(out)).await?;
                unpacking.finish().map(drop).map_err(Into::into)
            }
            other => {
                let encoding = String::from_utf8_lossy(other).into_owned();
                Err(RequestProblem::Encoding(encoding))
            }
        }
    }

    /// A client for one request, or the reason why there is none.
    fn client(&self, settings: &Settings) -> Result<Client, String> {
        let mut certificates = Vec::new();
        for path in &settings.ca_files {
            certificates.extend(certificates::read(path)?);
        }
        let verifier = if settings.insecure.contains(&self.host()) {
            Verifier::of_any()
        } else {
            let verifier = Verifier::of_system_and(certificates);
            verifier.map_err(|error| format!("the trusted certificates: {error}"))?
        };
        let tls = verifier.client().map_err(|error| error.to_string())?;
        let mut tls = tls.with_no_client_auth();
        tls.alpn_protocols = [&b"h2"[..], b"http/1.1"].map(<[u8]>::to_vec).into();
        let mut builder = Client::builder()
            .user_agent(concat!("almanac/", env!("CARGO_PKG_VERSION")))
            // A redirect is reported, so that the user sees the other URL.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(settings.connect_timeout)
            .read_timeout(settings.idle_timeout)
            .tls_backend_preconfigured(tls);
        if images::is_loopback(&self.all) {
            builder = builder.no_proxy();
        }
        builder.build().map_err(|error| error_chain(&error))
    }

    /// The host of the server, with the port if the URL has one.
    fn host(&self) -> String {
        let host = self.all.host_str().unwrap_or_default();
        let port = self.all.port().map(|port| format!(":{port}"));
        format!("{host}{}", port.unwrap_or_default())
    }
}

async fn receive<W: Write>(
    limit: u64,
    mut answer: Response,
    mut out: W,
) -> Result<W, RequestProblem> {
    let mut received = 0;
    while let Some(piece) = answer.chunk().await? {
        received += piece.len() as u64;
        if received > limit {
            return Err(RequestProblem::TooLarge(limit));
        }
        out.write_all(&piece)?;
    }
    Ok(out)
}

async fn refusal(mut answer: Response) -> RequestProblem {
    let status = answer.status();
    let mut message = Vec::new();
    while message.len() < MAX_MESSAGE
        && let Ok(Some(piece)) = answer.chunk().await
    {
        message.extend_from_slice(&piece[..piece.len().min(MAX_MESSAGE)]);
    }
    let target = answer.headers().get(LOCATION);
    let message = match target.filter(|_| status.is_redirection()) {
        Some(target) => format!("leads to {:?}", String::from_utf8_lossy(target.as_bytes())),
        None => String::from_utf8_lossy(&message).trim().to_owned(),
    };
    let advice = (status == StatusCode::UNAUTHORIZED)
        .then(|| "name a file with the bearer token of the catalog by --token-file".to_owned());
    let parts = [Some(message).filter(|message| !message.is_empty()), advice];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let colon = if parts.is_empty() { "" } else { ": " };
    RequestProblem::Status(status.as_u16(), format!("{colon}{}", parts.join("; ")))
}

impl FromStr for CatalogUrl {
    type Err = CatalogUrlError;

    fn from_str(text: &str) -> Result<Self, CatalogUrlError> {
        let mut all = Url::parse(text)
            .map_err(|error| CatalogUrlError::Url(text.to_owned(), error.to_string()))?;
        if !all.username().is_empty()
            || all.password().is_some()
            || all.query().is_some()
            || all.fragment().is_some()
        {
            return Err(CatalogUrlError::Parts);
        }
        if !matches!(all.scheme(), "http" | "https") {
            return Err(CatalogUrlError::Scheme(text.to_owned()));
        }
        let path = all.path().trim_end_matches('/');
        let path = path.strip_suffix(ALL).unwrap_or(path);
        // Every catalog is below `/catalogs`.
        if path.is_empty() || path == "/catalogs" {
            return Err(CatalogUrlError::NoCatalog(text.to_owned()));
        }
        let path = format!("{path}{ALL}");
        all.set_path(&path);
        Ok(Self {
            text: text.to_owned(),
            all,
        })
    }
}

impl fmt::Display for CatalogUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
