//! Signatures apart from the image: by the extension of some registries, and
//! on other hosts, which get no credentials.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use reqwest::Url;

use crate::digest::Digest;
use crate::error::{Error, Login};
use crate::reference::Reference;
use crate::registry::Client;
use crate::registry::response::{body, is_ok, status_error};
use crate::registry::transport::Request;

/// The header of registries with the extension.
const EXTENSION: &str = "x-registry-supports-signatures";
/// The largest document, in bytes.
const MAX_DOCUMENT: usize = 4 << 20;
const JSON: &str = "application/json";
const ANYTHING: &str = "*/*";

impl Client {
    /// Whether the registry stores signatures itself. It says so to anybody,
    /// whatever the status.
    pub(crate) async fn stores_signatures(&self, reference: &Reference) -> Result<bool, Error> {
        let mut url = self.session.url(reference, "")?;
        url.set_path("/v2/");
        let attempt = || async {
            let response = self.anonymous(reference, &url, JSON).await?;
            let header = response.headers().get(EXTENSION);
            Ok(header.is_some_and(|value| value == "1"))
        };
        let limit = self.session.limit(&url);
        let _permit = limit.acquire().await;
        let work = self.session.persist(attempt);
        self.session.in_time(reference, &url, work).await
    }

    /// The list of the signatures that the registry stores for a digest.
    pub(crate) async fn stored_signatures(
        &self,
        reference: &Reference,
        digest: &Digest,
    ) -> Result<Bytes, Error> {
        let mut url = self.session.url(reference, "")?;
        let path = format!(
            "/extensions/v2/{}/signatures/{digest}",
            reference.repository()
        );
        url.set_path(&path);
        let limit = self.session.limit(&url);
        let _permit = limit.acquire().await;
        let attempt = || async {
            let get = self
                .session
                .get(reference, &url, &limit, JSON, HeaderMap::new());
            body(reference, get.await?, MAX_DOCUMENT).await
        };
        let work = self.session.persist(attempt);
        self.session.in_time(reference, &url, work).await
    }

    /// A file of another host, trusted as the registry is; none if the host
    /// does not have it.
    pub(crate) async fn outside_file(
        &self,
        reference: &Reference,
        url: &Url,
    ) -> Result<Option<Bytes>, Error> {
        let limit = self.session.limit(url);
        let _permit = limit.acquire().await;
        let attempt = || async {
            let response = self.anonymous(reference, url, ANYTHING).await?;
            if response.status() == StatusCode::NOT_FOUND {
                return Ok(None);
            }
            if !is_ok(&response) {
                return Err(status_error(reference, url, response, Login::Unsent).await);
            }
            body(reference, response, MAX_DOCUMENT).await.map(Some)
        };
        let work = self.session.persist(attempt);
        self.session.in_time(reference, url, work).await
    }

    async fn anonymous(
        &self,
        reference: &Reference,
        url: &Url,
        accept: &'static str,
    ) -> Result<reqwest::Response, Error> {
        let request = Request {
            reference,
            method: Method::GET,
            url: url.clone(),
            accept,
            authorization: None,
            headers: HeaderMap::new(),
            form: None,
            is_configured: true,
        };
        self.session.send_anonymously(request).await
    }
}
