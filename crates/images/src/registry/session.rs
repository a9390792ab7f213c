//! Requests to registries with everything around them: request limits,
//! authentication, retries, time limits.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::RANGE;
use http::{HeaderMap, Method, StatusCode};
use reqwest::{Response, Url};
use tokio::time::timeout;

use crate::credentials::AuthFiles;
use crate::error::{Error, Login};
use crate::reference::Reference;
use crate::registry::challenge;
use crate::registry::clock::Clock;
use crate::registry::request_limits::{HostLimit, RequestLimits};
use crate::registry::response::{is_ok, retry_after, status_error};
use crate::registry::retry::Retries;
use crate::registry::token::{Authorization, Authorizer};
use crate::registry::transport::{Request, Security, Transport};
use crate::registry::url::{redacted, same_origin};
use crate::settings::Settings;

/// The state that all requests share. Cheap to clone; clones share
/// connections, limits and tokens.
#[derive(Clone)]
pub(super) struct Session {
    transport: Transport,
    authorizer: Authorizer,
    limits: RequestLimits,
    attempts: NonZeroU32,
    clock: Clock,
    manifest_timeout: Duration,
}

impl Session {
    pub(super) fn new(settings: &Settings) -> Result<Self, Error> {
        let transport = Transport::new(settings)?;
        let files = AuthFiles::new(
            settings.auth_files.clone(),
            settings.usual_auth_files.clone(),
            settings.mirrors.clone(),
        );
        Ok(Self {
            authorizer: Authorizer::new(transport.clone(), files, settings.client_id()),
            transport,
            limits: RequestLimits::new(settings.requests_per_host),
            attempts: settings.attempts,
            clock: Clock::default(),
            manifest_timeout: settings.manifest_timeout,
        })
    }

    /// The same session with another level of security. It shares
    /// connections, but no tokens.
    pub(super) fn secured(&self, security: Security) -> Self {
        let transport = self.transport.secured(security);
        Self {
            authorizer: self.authorizer.over(transport.clone()),
            transport,
            ..self.clone()
        }
    }

    /// The address of `path` below the repository of a reference.
    pub(super) fn url(&self, reference: &Reference, path: &str) -> Result<Url, Error> {
        self.transport.url(reference, path)
    }

    /// Whether the settings allow plain http for a registry.
    pub(super) fn is_insecure(&self, registry: &str) -> bool {
        self.transport.is_insecure(registry)
    }

    /// The limit of the registry that `url` belongs to.
    pub(super) fn limit(&self, url: &Url) -> Arc<HostLimit> {
        self.limits.of(url)
    }

    /// The attempts for one request.
    pub(super) fn retries(&self) -> Retries {
        Retries::new(self.attempts)
    }

    /// The rest of a body that broke off: a response with the bytes after the
    /// first `from`, or with all of them.
    pub(super) async fn rest(
        &self,
        reference: &Reference,
        url: &Url,
        accept: &'static str,
        from: u64,
    ) -> Result<Response, Error> {
        let limit = self.limits.of(url);
        let mut range = HeaderMap::new();
        if from > 0
            && let Ok(value) = format!("bytes={from}-").parse()
        {
            // No If-Range: content with a fixed digest cannot have changed,
            // and the servers behind one name often disagree on its ETag.
            range.insert(RANGE, value);
        }
        let request = self.get(reference, url, &limit, accept, range);
        self.in_time(reference, url, request).await
    }

    /// Repeats an attempt until it succeeds, cannot succeed, or there were
    /// enough attempts.
    pub(super) async fn persist<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut retries = self.retries();
        loop {
            let error = match attempt().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let Some(wait) = retries.after(&error) else {
                return Err(error);
            };
            tracing::debug!(reason = error.reason(), ?wait, %error, "retrying the request");
            tokio::time::sleep(wait).await;
        }
    }

    /// Sends a GET request and returns the response if it is a success.
    pub(super) async fn get(
        &self,
        reference: &Reference,
        url: &Url,
        limit: &HostLimit,
        accept: &'static str,
        headers: HeaderMap,
    ) -> Result<Response, Error> {
        let may_be_part = headers.contains_key(RANGE);
        let (response, authorization) = self
            .send(reference, Method::GET, url, limit, accept, headers)
            .await?;
        let is_part = response.status() == StatusCode::PARTIAL_CONTENT;
        if is_ok(&response) || is_part && may_be_part {
            return Ok(response);
        }
        Err(status_error(reference, url, response, authorization.login).await)
    }

    /// Sends a request with the authorization that the registry wanted last
    /// time, and once more if it then wants another one.
    pub(super) async fn send(
        &self,
        reference: &Reference,
        method: Method,
        url: &Url,
        limit: &HostLimit,
        accept: &'static str,
        headers: HeaderMap,
    ) -> Result<(Response, Authorization), Error> {
        if let Some(wait) = limit.paused() {
            return Err(Error::Paused {
                reference: reference.clone(),
                url: redacted(url),
                wait,
            });
        }
        let request = |authorization: &Authorization| Request {
            reference,
            method: method.clone(),
            url: url.clone(),
            accept,
            authorization: authorization.header.clone(),
            headers: headers.clone(),
            form: None,
            is_configured: false,
        };
        let asked = SystemTime::now();
        let note_pause = |response: Response| {
            let host = response.url().host_str().unwrap_or_default();
            self.clock.compare(host, response.headers(), asked);
            if asks_all_to_wait(response.status())
                && same_origin(url, response.url())
                && let Some(wait) = retry_after(response.headers(), SystemTime::now())
            {
                limit.pause_for(wait);
            }
            response
        };
        let first = self.authorizer.remembered(reference).await?;
        let response = note_pause(self.transport.send(request(&first)).await?);
        // The host behind a redirect gets no credentials, whatever it asks.
        if response.status() != StatusCode::UNAUTHORIZED || !same_origin(url, response.url()) {
            return Ok((response, first));
        }
        let Some(challenge) = challenge::choose(response.headers()) else {
            let login = match first.login {
                Login::Unsent => self.authorizer.unasked(reference).await?,
                login => login,
            };
            return Ok((response, Authorization { login, ..first }));
        };
        let second = self.authorizer.answer(reference, challenge).await?;
        if second.header.is_none() || second.header == first.header {
            return Ok((response, second));
        }
        let response = note_pause(self.transport.send(request(&second)).await?);
        Ok((response, second))
    }

    /// Sends a request without credentials.
    pub(super) async fn send_anonymously(&self, request: Request<'_>) -> Result<Response, Error> {
        self.transport.send(request).await
    }

    /// Limits the time of some work on a document.
    pub(super) async fn in_time<T>(
        &self,
        reference: &Reference,
        url: &Url,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let late = |_| Error::Timeout {
            reference: reference.clone(),
            url: redacted(url),
        };
        timeout(self.manifest_timeout, work).await.map_err(late)?
    }
}

/// Whether a `Retry-After` with this status is meant for all requests.
fn asks_all_to_wait(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    )
}
