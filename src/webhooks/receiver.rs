//! One attempt to send an event to a receiver.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Client, StatusCode, Url};

use crate::error_chain::{causes, error_chain};
use crate::webhooks::event::{encode_test, new_id};
use crate::webhooks::outside::{LocalAddress, OutsideHost};
use crate::webhooks::signature::{Secret, read_text};
use crate::webhooks::webhook::{Webhook, WebhookName};
use ::images::server_trust::{self, Verifier};
use ::images::{MAX_HEADERS, Proxies, Proxy};

/// The media type of a `CloudEvent` in structured mode.
const MEDIA_TYPE: &str = "application/cloudevents+json; charset=utf-8";
/// The longest time that a receiver may ask to wait.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);

/// A webhook that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("webhook {name}: {problem}")]
pub struct WebhookError {
    /// Its name.
    pub name: WebhookName,
    /// The reason.
    pub problem: String,
}

/// An event that a receiver did not take.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct DeliveryError {
    problem: String,
    /// Whether another attempt may succeed.
    pub(super) is_temporary: bool,
    /// The time that the receiver asked to wait.
    pub(super) retry_after: Option<Duration>,
}

/// The receiver of a webhook, and how to reach it. Cheap to clone.
#[derive(Clone)]
pub struct Receiver {
    pub(super) webhook: Arc<Webhook>,
    client: Client,
}

impl Receiver {
    /// Prepares a webhook: reads its files, and connects to nothing. This blocks.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub fn new(webhook: &Webhook) -> Result<Self, WebhookError> {
        let failed = |problem: String| WebhookError {
            name: webhook.name.clone(),
            problem,
        };
        // Read again for each event, so that new secrets take effect.
        signing_files(webhook).map_err(failed)?;
        Ok(Self {
            client: client(webhook).map_err(failed)?,
            webhook: Arc::new(webhook.clone()),
        })
    }

    /// Sends an event that only tries the webhook, once. The result is the status
    /// and the time until it came.
    ///
    /// # Errors
    /// When the receiver does not take it.
    pub async fn test(&self) -> Result<(u16, Duration), DeliveryError> {
        let webhook = &self.webhook;
        let (id, now) = (new_id(), SystemTime::now());
        let body = encode_test(webhook.name.as_str(), &id, &webhook.source, now);
        let started = Instant::now();
        let status = self.post(&id, body).await?;
        Ok((status.as_u16(), started.elapsed()))
    }

    /// Sends the body of an event, once.
    pub(super) async fn post(&self, id: &str, body: Vec<u8>) -> Result<StatusCode, DeliveryError> {
        let temporary = |problem: String| DeliveryError {
            problem,
            is_temporary: true,
            retry_after: None,
        };
        let webhook = Arc::clone(&self.webhook);
        let files = tokio::task::spawn_blocking(move || signing_files(&webhook)).await;
        // A panic of the reader is reported by the panic hook.
        let (secrets, token) = files
            .unwrap_or_else(|error| Err(error.to_string()))
            .map_err(temporary)?;
        let timestamp = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let mut request = self
            .client
            .post(self.webhook.url.url().clone())
            .header(CONTENT_TYPE, MEDIA_TYPE)
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp);
        let signatures = secrets
            .iter()
            .map(|secret| secret.sign(id, timestamp, &body));
        let signatures: Vec<String> = signatures.collect();
        if !signatures.is_empty() {
            request = request.header("webhook-signature", signatures.join(" "));
        }
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, token);
        }
        let response = request.body(body).send().await.map_err(|error| {
            let is_local = LocalAddress::is_cause_of(&error);
            let refusal = server_trust::refusal(&error);
            DeliveryError {
                problem: refusal.unwrap_or_else(|| self.unsent(error)),
                is_temporary: !is_local,
                retry_after: None,
            }
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(status);
        }
        let proxies = Proxies::from_environment();
        if let Some(proxy) = proxies.proxy_for(self.webhook.url.url())
            && status == StatusCode::PROXY_AUTHENTICATION_REQUIRED
        {
            return Err(temporary(no_way(proxy, proxy.login_problem())));
        }
        Err(refusal(status, response.headers()))
    }
}

impl Receiver {
    /// Why a request came to no answer, in words of the settings.
    fn unsent(&self, error: reqwest::Error) -> String {
        if error.is_timeout() {
            let timeout = humantime::format_duration(self.webhook.timeout);
            return format!("no answer within {timeout} (timeout)");
        }
        let is_connect = error.is_connect();
        let wants_login = Proxy::wants_login(&error);
        let error = error.without_url();
        let chain = error_chain(&error);
        let proxies = Proxies::from_environment();
        if let Some(proxy) = proxies.proxy_for(self.webhook.url.url())
            && is_connect
        {
            let cause = if wants_login {
                proxy.login_problem()
            } else {
                chain.as_str()
            };
            return no_way(proxy, cause);
        }
        format!("{chain}{}", scheme_hint(&error))
    }
}

/// The end of a message about an answer in another protocol than that of the URL.
fn scheme_hint(error: &reqwest::Error) -> &'static str {
    let hint = causes(error).find_map(|cause| {
        if let Some(rustls::Error::InvalidMessage(_)) = cause.downcast_ref() {
            return Some("; the receiver does not speak TLS; is its URL http://?");
        }
        let is_other = cause.downcast_ref().is_some_and(hyper::Error::is_parse);
        is_other.then_some("; the receiver does not speak HTTP; is its URL https://?")
    });
    hint.unwrap_or_default()
}

fn no_way(proxy: &Proxy, cause: &str) -> String {
    format!("no connection through the proxy {proxy}: {cause}")
}

/// The secrets and the value of the header with the token. This blocks.
fn signing_files(webhook: &Webhook) -> Result<(Vec<Secret>, Option<HeaderValue>), String> {
    let secrets = webhook.secret_files.iter().map(|path| Secret::read(path));
    let secrets = secrets.collect::<Result<_, _>>()?;
    let Some(path) = &webhook.token_file else {
        return Ok((secrets, None));
    };
    let token = HeaderValue::from_str(&format!("Bearer {}", read_text(path)?));
    let mut token = token.map_err(|_| format!("{}: it holds no token", path.display()))?;
    token.set_sensitive(true);
    Ok((secrets, Some(token)))
}

fn client(webhook: &Webhook) -> Result<Client, String> {
    let mut certificates = Vec::new();
    for path in &webhook.ca_files {
        certificates.extend(server_trust::read(path)?);
    }
    let verifier = Verifier::with_system_and(certificates);
    let verifier = verifier.map_err(|error| format!("the trusted certificates: {error}"))?;
    let tls = verifier.client().map_err(|error| error.to_string())?;
    let mut builder = Client::builder()
        .user_agent(concat!("almanac/", env!("CARGO_PKG_VERSION")))
        // A redirect could lead anywhere, and would get the event and the token.
        .redirect(reqwest::redirect::Policy::none())
        .http1_only()
        .http1_max_headers(MAX_HEADERS)
        // Events are rare, so a kept connection is closed by the time of the next.
        .pool_max_idle_per_host(0)
        .timeout(webhook.timeout)
        .tls_backend_preconfigured(tls.with_no_client_auth());
    if webhook.url.is_local() || Proxies::from_environment().is_direct(webhook.url.url()) {
        builder = builder.no_proxy();
    }
    if !webhook.allow_local {
        builder = builder.dns_resolver(Arc::new(OutsideHost {
            name: webhook.url.host().to_owned(),
        }));
    }
    builder.build().map_err(|error| error_chain(&error))
}

/// The error that a status other than success tells. The body is not read.
fn refusal(status: StatusCode, headers: &HeaderMap) -> DeliveryError {
    let mut problem = format!("the receiver answered {}", status.as_u16());
    if let Some(reason) = status.canonical_reason() {
        let _ = write!(problem, " {reason}");
    }
    if status.is_redirection() {
        // The path may be secret.
        let target = headers.get(LOCATION).and_then(|it| it.to_str().ok());
        let target = target.and_then(|text| Url::parse(text).ok());
        let host = target.as_ref().and_then(Url::host_str);
        let host = host.map(|host| format!(" to {host}")).unwrap_or_default();
        let _ = write!(problem, "{host}; redirects are not followed");
    }
    DeliveryError {
        problem,
        is_temporary: status.is_server_error()
            || matches!(
                status,
                StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
            ),
        retry_after: retry_after(headers),
    }
}

/// `Retry-After` in seconds or as a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if let Ok(seconds) = text.parse() {
        Duration::from_secs(seconds)
    } else {
        let date = httpdate::parse_http_date(text).ok()?;
        // A date in the past means no wait.
        date.duration_since(SystemTime::now()).unwrap_or_default()
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_temporary_refusal_is_tried_again() {
        for (status, is_temporary) in [
            (301, false),
            (400, false),
            (401, false),
            (404, false),
            (410, false),
            (408, true),
            (425, true),
            (429, true),
            (500, true),
            (503, true),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let error = refusal(status, &HeaderMap::new());
            assert_eq!(error.is_temporary, is_temporary, "{error}");
        }
        let headers = [(RETRY_AFTER, HeaderValue::from_static("99999"))];
        let error = refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            &headers.into_iter().collect(),
        );
        assert_eq!(error.retry_after, Some(MAX_RETRY_AFTER));
        let headers = [(
            LOCATION,
            HeaderValue::from_static("https://b.example/secret"),
        )];
        let error = refusal(StatusCode::FOUND, &headers.into_iter().collect());
        assert_eq!(
            error.to_string(),
            "the receiver answered 302 Found to b.example; redirects are not followed"
        );
    }
}
