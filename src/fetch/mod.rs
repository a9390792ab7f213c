//! Asks a running almanac, or another server with catalogd's HTTP API: for a whole
//! catalog, or for the answer to a query. For commands that a user types with a URL;
//! followed sources are registries, layouts and folders only.

mod client;
mod login;
mod netrc;
mod server;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::Write;
use std::str::FromStr;

use flate2::write::GzDecoder;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE};
use reqwest::{StatusCode, Url};

pub use client::{FetchError, Received, RequestProblem, Settings};
pub use login::Logins;
pub use server::{ServerAnswer, ServerUrl};

use client::{HttpClient, receive};

/// The path of the whole catalog, below the catalog's URL.
const ALL: &str = "/api/v1/all";

/// A whole catalog, whatever its media type, and descriptions of errors.
const ACCEPTED: &str = "application/jsonl, application/problem+json, */*;q=0.5";

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

/// Reasons to refuse a text as the URL of a catalog.
#[derive(Debug, thiserror::Error)]
pub enum CatalogUrlError {
    /// Not a URL: the text, and the reason.
    #[error("{0:?} is not a URL: {1}; write http://HOST:PORT")]
    Url(String, String),
    /// Neither http nor https.
    #[error("{0:?} is neither an http nor an https URL; write http://HOST:PORT")]
    Scheme(String),
    /// It has only a host.
    #[error(
        "{0:?} names no catalog; write http://HOST:PORT/catalogs/NAME; `almanac list catalogs \
         --server http://HOST:PORT` lists them"
    )]
    NoCatalog(String),
    /// It has a user, a password, a query or a fragment. The message leaves the
    /// text out, as it may be secret.
    #[error("the URL of a catalog has no user, no password, no query and no fragment")]
    Parts,
}

impl CatalogUrl {
    /// The URL of the whole catalog.
    pub fn all(&self) -> &str {
        self.all.as_str()
    }

    /// Writes the whole catalog to `out`, decompressed. An error of `out` ends the
    /// download, so `out` can bound the size.
    pub async fn fetch(&self, settings: &Settings, out: impl Write) -> Result<(), FetchError> {
        let client = HttpClient::new(settings, &self.all).map_err(FetchError::Setup)?;
        let transfer = self.transfer(&client, settings, out);
        tokio::time::timeout(settings.timeout, transfer)
            .await
            .unwrap_or(Err(RequestProblem::Timeout(settings.timeout)))
            .map_err(|problem| FetchError::Request(self.all().to_owned(), problem))
    }

    async fn transfer(
        &self,
        client: &HttpClient,
        settings: &Settings,
        out: impl Write,
    ) -> Result<(), RequestProblem> {
        let headers = [(ACCEPT_ENCODING, "gzip"), (ACCEPT, ACCEPTED)];
        let answer = client.get(&self.all, &headers).await?;
        if answer.status() != StatusCode::OK {
            return Err(client::refusal(answer).await);
        }
        let kind = answer.headers().get(CONTENT_TYPE);
        if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html")) {
            return Err(RequestProblem::WebPage);
        }
        let encoding = answer.headers().get(CONTENT_ENCODING);
        match encoding.map_or(&b"identity"[..], |encoding| encoding.as_bytes()) {
            b"identity" => receive(settings, answer, out).await.map(drop),
            b"gzip" => {
                let unpacking = receive(settings, answer, GzDecoder::new(out)).await?;
                unpacking.finish().map(drop).map_err(Into::into)
            }
            other => {
                let encoding = String::from_utf8_lossy(other).into_owned();
                Err(RequestProblem::Encoding(encoding))
            }
        }
    }
}

impl FromStr for CatalogUrl {
    type Err = CatalogUrlError;

    fn from_str(text: &str) -> Result<Self, CatalogUrlError> {
        let mut all = parse_url(text)?;
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

/// A URL without user, password, query and fragment.
fn parse_url(text: &str) -> Result<Url, CatalogUrlError> {
    let url = Url::parse(text)
        .map_err(|error| CatalogUrlError::Url(text.to_owned(), error.to_string()))?;
    if !url.username().is_empty()
        || url.password().is_some()
        || url.query().is_some()
        || url.fragment().is_some()
    {
        return Err(CatalogUrlError::Parts);
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(CatalogUrlError::Scheme(text.to_owned()));
    }
    Ok(url)
}

impl fmt::Display for CatalogUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
