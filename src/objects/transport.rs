//! Sends requests within limits of time and size, and gives each failure its kind.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::Uri;
use http_body_util::BodyExt as _;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use reqwest::{Client, Url};

use crate::error_chain::error_chain;
use crate::objects::error::ObjectProblem;
use crate::objects::settings::Settings;
use ::images::server_trust::{self, Verifier};
use ::images::{MAX_HEADERS, Proxies};

const CONNECT: Duration = Duration::from_secs(10);
/// The slowest way to the store that is waited for, in bytes a second.
pub(super) const SLOWEST: u64 = 128 << 10;
/// How often a request is sent that gets no answer in time.
const LATE_TRIES: u32 = 2;
/// The most bytes of a document that are read: a list of 1,000 keys has a tenth.
pub(super) const MAX_DOCUMENT: usize = 4 << 20;

/// Marks the request of an object, whose bytes are passed on as they come. Other answers are
/// documents.
#[derive(Clone, Copy)]
pub(super) struct OfObject;

/// Sends requests.
#[derive(Clone, Debug)]
pub(super) struct Transport {
    client: Client,
    /// Without a proxy.
    direct: Client,
    proxies: Proxies,
    /// The longest time without an answer, and without a byte of it.
    pub(super) idle: Duration,
}

impl Transport {
    /// Sets up the connections. No request is sent.
    ///
    /// # Errors
    /// When a file of certificates cannot be used.
    pub(super) fn new(settings: &Settings, idle: Duration) -> Result<Self, String> {
        let mut certificates = Vec::new();
        for path in &settings.ca_files {
            certificates.extend(server_trust::read(path)?);
        }
        let verifier = Verifier::with_system_and(certificates);
        let verifier = verifier.map_err(|error| format!("the trusted certificates: {error}"))?;
        let tls = verifier.client().map_err(|error| error.to_string())?;
        let tls = tls.with_no_client_auth();
        let builder = || {
            Client::builder()
                .user_agent(concat!("almanac/", env!("CARGO_PKG_VERSION")))
                // A signature holds for one host.
                .redirect(reqwest::redirect::Policy::none())
                .connect_timeout(CONNECT)
                .http1_max_headers(MAX_HEADERS)
                .tls_backend_preconfigured(tls.clone())
        };
        let failed = |error: reqwest::Error| error_chain(&error);
        Ok(Self {
            client: builder().build().map_err(failed)?,
            direct: builder().no_proxy().build().map_err(failed)?,
            proxies: Proxies::from_environment(),
            idle,
        })
    }

    /// The longest time for so many bytes.
    pub(super) fn limit(&self, bytes: u64) -> Duration {
        self.idle + Duration::from_secs(bytes / SLOWEST)
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, ObjectProblem> {
        let is_object = request.extensions().get::<OfObject>().is_some();
        let limit = self.limit(request.body().content_length() as u64);
        let server = request
            .uri()
            .authority()
            .map_or("", |server| server.as_str())
            .to_owned();
        let client = self.client_for(request.uri());
        let mut tried = 1;
        let answer = loop {
            match tokio::time::timeout(limit, client.call(request.clone())).await {
                Ok(answer) => break answer.map_err(|error| failed(&error, &server))?,
                Err(_) if tried < LATE_TRIES => tried += 1,
                Err(_) => return Err(late(limit)),
            }
        };
        let status = answer.status();
        if is_object && status.is_success() {
            let tag = move |error| tagged(failed(&error, &server));
            return Ok(answer.map(|body| HttpResponseBody::new(body.map_err(tag))));
        }
        let (parts, body) = answer.into_parts();
        let document = tokio::time::timeout(self.idle, document(body, &server)).await;
        let document = document.unwrap_or_else(|_| Err(late(self.idle)));
        if status.is_success() {
            return document.map(|document| HttpResponse::from_parts(parts, document.into()));
        }
        let code = parts.headers.get("x-ms-error-code");
        let code = code.and_then(|code| code.to_str().ok());
        let document = document.unwrap_or_default();
        Err(ObjectProblem::from_answer(status.as_u16(), code, &document))
    }

    fn client_for(&self, uri: &Uri) -> &Client {
        let url: Result<Url, _> = uri.to_string().parse();
        // Addresses of the machine, such as that of a metadata service, are reached without a proxy.
        let is_near = uri.scheme_str() == Some("http");
        if is_near || url.is_ok_and(|url| self.proxies.is_direct(&url)) {
            &self.direct
        } else {
            &self.client
        }
    }
}

impl HttpConnector for Transport {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

impl HttpService for Transport {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> BoxFuture<'b, Result<HttpResponse, HttpError>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move { self.send(request).await.map_err(tagged) })
    }
}

/// An error for the crate, which decides by its kind whether the request is sent again. All
/// requests may be sent twice: a second PUT writes the same bytes.
fn tagged(problem: ObjectProblem) -> HttpError {
    let is_late = matches!(problem, ObjectProblem::Slow(_));
    let kind = if problem.is_temporary() && !is_late {
        HttpErrorKind::Request
    } else {
        HttpErrorKind::Unknown
    };
    HttpError::new(kind, problem)
}

/// The kind of a failure. Its text has the server and the last cause: those before name the
/// layers of this program.
fn failed(error: &HttpError, server: &str) -> ObjectProblem {
    let mut cause: &dyn Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let text = format!("{server}: {cause}");
    match error.kind() {
        HttpErrorKind::Connect => ObjectProblem::Unreachable(text),
        _ => ObjectProblem::Broken(text),
    }
}

pub(super) fn late(limit: Duration) -> ObjectProblem {
    let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    ObjectProblem::Slow(Duration::from_millis(millis))
}

/// A whole document.
async fn document(mut body: HttpResponseBody, server: &str) -> Result<Bytes, ObjectProblem> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| failed(&error, server))?;
        bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        if bytes.len() > MAX_DOCUMENT {
            return Err(ObjectProblem::Unreadable("it is too large".into()));
        }
    }
    Ok(bytes.into())
}
