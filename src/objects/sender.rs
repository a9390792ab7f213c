//! Sends signed requests to one bucket, again after failures that may pass.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use reqwest::header::{DATE, HeaderMap, HeaderValue};
use reqwest::{Client, Method, Response, StatusCode, Url};
use tokio::sync::Mutex;

use crate::error_chain::error_chain;
use crate::objects::access_key::AccessKey;
use crate::objects::answer;
use crate::objects::credentials::CredentialSource;
use crate::objects::error::{self, ObjectError, ObjectProblem};
use crate::objects::location::Location;
use crate::objects::platform::Lent;
use crate::objects::signature::Scope;
use ::images::digest::Digest;
use ::images::server_trust::{self, Verifier};
use ::images::{MAX_HEADERS, Proxies};

const CONNECT: Duration = Duration::from_secs(10);
/// The slowest way to the store that is waited for, in bytes a second.
pub(super) const SLOWEST: u64 = 128 << 10;
/// How long a key of the platform that still holds is not asked for again after a
/// failure.
const LEND_AGAIN: Duration = Duration::from_secs(30);
/// How long before its end a key of the platform is renewed.
const RENEW: Duration = Duration::from_mins(5);
/// How often a request is sent at most, and how long the first pause is.
pub(super) const TRIES: u32 = 4;
/// The same of one without an answer in time, which costs much more time.
const LATE_TRIES: u32 = 2;
const PAUSE: Duration = Duration::from_millis(100);
/// The most bytes of a document that are read: a list of 1,000 keys has a tenth.
pub(super) const MAX_DOCUMENT: usize = 4 << 20;

/// How to reach a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The bucket.
    pub location: Location,
    /// Where the key comes from.
    pub credentials: CredentialSource,
    /// PEM files of certificates to trust besides the system's.
    pub ca_files: Vec<PathBuf>,
}

/// Sends requests. Cheap to clone.
#[derive(Clone)]
pub(super) struct Sender(Arc<Inner>);

struct Inner {
    client: Client,
    location: Location,
    credentials: CredentialSource,
    /// Without a proxy.
    direct: Client,
    lender: Mutex<Lender>,
    /// Seconds from this machine's clock to the store's. A store refuses signatures
    /// with other dates.
    offset: AtomicI64,
    /// The longest time without an answer, and without a byte of it.
    idle: Duration,
}

/// What the platform has given.
#[derive(Default)]
struct Lender {
    key: Option<Lent>,
    /// When it last gave none.
    failed: Option<Instant>,
}

impl Sender {
    /// Sets up the connections. No request is sent. `idle` is the longest time without an
    /// answer, and without a byte of it.
    ///
    /// # Errors
    /// When a file of certificates cannot be used.
    pub(super) fn new(settings: &Settings, idle: Duration) -> Result<Self, String> {
        let mut certificates = Vec::new();
        for path in &settings.ca_files {
            certificates.extend(server_trust::read(path)?);
        }
        let verifier = Verifier::of_system_and(certificates);
        let verifier = verifier.map_err(|error| format!("the trusted certificates: {error}"))?;
        let tls = verifier.client().map_err(|error| error.to_string())?;
        let tls = tls.with_no_client_auth();
        let client = |is_direct: bool| {
            let builder = Client::builder()
                .user_agent(concat!("almanac/", env!("CARGO_PKG_VERSION")))
                // A signature holds for one host.
                .redirect(reqwest::redirect::Policy::none())
                .connect_timeout(CONNECT)
                .http1_max_headers(MAX_HEADERS)
                .tls_backend_preconfigured(tls.clone());
            let builder = if is_direct {
                builder.no_proxy()
            } else {
                builder
            };
            builder.build().map_err(|error| error_chain(&error))
        };
        let is_direct = Proxies::of_environment().is_direct(&settings.location.url(""));
        Ok(Self(Arc::new(Inner {
            client: client(is_direct)?,
            direct: client(true)?,
            lender: Mutex::default(),
            location: settings.location.clone(),
            credentials: settings.credentials.clone(),
            offset: AtomicI64::new(0),
            idle,
        })))
    }

    pub(super) fn location(&self) -> &Location {
        &self.0.location
    }

    pub(super) fn idle(&self) -> Duration {
        self.0.idle
    }

    pub(super) fn url(&self, key: &str) -> Url {
        let location = &self.0.location;
        location.url(&format!("{}{key}", location.prefix))
    }

    pub(super) fn failed(
        &self,
        action: &'static str,
        key: &str,
    ) -> impl Fn(ObjectProblem) -> ObjectError {
        let location = &self.0.location;
        let subject = location.shown(&format!("{}{key}", location.prefix));
        move |problem| ObjectError {
            action,
            subject: subject.clone(),
            problem,
        }
    }

    /// Sends a request, again after failures that may pass. All requests may be sent
    /// twice: a second PUT writes the same bytes.
    pub(super) async fn send(&self, request: &Request) -> Result<Response, ObjectProblem> {
        let mut pause = PAUSE;
        let mut has_new_key = false;
        for tried in 1.. {
            let problem = match self.send_once(request).await {
                Ok(answer) if is_final(answer.status()) => return Ok(answer),
                Ok(answer) => {
                    let date = answer.headers().get(DATE).cloned();
                    match accept(answer, self.0.idle).await {
                        Ok(answer) => return Ok(answer),
                        Err(problem) if is_skewed(&problem) && self.set_clock(date) => problem,
                        Err(problem) if problem.is_temporary() => problem,
                        // It may have ended before its time.
                        Err(problem)
                            if !has_new_key && is_of_key(&problem) && self.forget_key().await =>
                        {
                            has_new_key = true;
                            problem
                        }
                        Err(problem) => return Err(problem),
                    }
                }
                Err(problem) if problem.is_temporary() => problem,
                Err(problem) => return Err(problem),
            };
            let is_late = matches!(problem, ObjectProblem::Late(_));
            if tried >= TRIES || (is_late && tried >= LATE_TRIES) {
                return Err(problem);
            }
            tracing::debug!(%problem, "the object store is asked again");
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            pause *= 4;
        }
        Err(ObjectProblem::Unreadable("no request was sent"))
    }

    async fn send_once(&self, request: &Request) -> Result<Response, ObjectProblem> {
        let inner = &*self.0;
        let key = self.key().await?;
        let scope = Scope {
            key: &key,
            region: &inner.location.region,
            service: "s3",
            now: shifted(SystemTime::now(), inner.offset.load(Ordering::Relaxed)),
        };
        let mut headers = request.headers.clone();
        scope.sign(&request.method, &request.url, &mut headers, &request.digest);
        let sent = inner
            .client
            .request(request.method.clone(), request.url.clone())
            .headers(headers)
            .body(request.body.clone());
        let limit = self.limit(request.body.len() as u64);
        let sent = tokio::time::timeout(limit, sent.send()).await;
        match sent.map_err(|_| late(limit))? {
            Err(error) if error.is_connect() => {
                Err(ObjectProblem::NotConnected(error::without_path(error)))
            }
            sent => Ok(sent?),
        }
    }

    /// The longest time for so many bytes.
    pub(super) fn limit(&self, bytes: u64) -> Duration {
        self.0.idle + Duration::from_secs(bytes / SLOWEST)
    }

    /// Drops the key of the platform, if there is one.
    async fn forget_key(&self) -> bool {
        self.0.lender.lock().await.key.take().is_some()
    }

    /// The key as it is now.
    async fn key(&self) -> Result<AccessKey, ObjectProblem> {
        let inner = &*self.0;
        let CredentialSource::Platform(platform) = &inner.credentials else {
            let key = inner.credentials.key().await;
            return key.map_err(ObjectProblem::Credentials);
        };
        let mut lender = inner.lender.lock().await;
        let now = shifted(SystemTime::now(), inner.offset.load(Ordering::Relaxed));
        let holding = lender.key.as_ref().filter(|lent| lent.until > now);
        let failed = lender.failed;
        let has_failed = failed.is_some_and(|failed| failed.elapsed() < LEND_AGAIN);
        if let Some(lent) = holding.filter(|lent| has_failed || lent.until > now + RENEW) {
            return Ok(lent.key.clone());
        }
        let region = &inner.location.region;
        match platform.lend(&inner.client, &inner.direct, region).await {
            Ok(new) => {
                lender.failed = None;
                Ok(lender.key.insert(new).key.clone())
            }
            Err(problem) => match holding.map(|lent| lent.key.clone()) {
                Some(key) => {
                    tracing::warn!(%problem, "the key of the bucket cannot be renewed yet");
                    lender.failed = Some(Instant::now());
                    Ok(key)
                }
                None => Err(problem),
            },
        }
    }

    /// Takes over the store's clock, if its date can be read.
    fn set_clock(&self, date: Option<HeaderValue>) -> bool {
        let date = date.and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
        let Some(date) = date else { return false };
        let now = SystemTime::now();
        let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(0);
        let offset = match date.duration_since(now) {
            Ok(ahead) => seconds(ahead),
            Err(behind) => -seconds(behind.duration()),
        };
        self.0.offset.store(offset, Ordering::Relaxed);
        true
    }
}

/// A request, which may be sent several times.
pub(super) struct Request {
    method: Method,
    url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) digest: Digest,
}

impl Request {
    pub(super) fn of(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            digest: Digest::of(b""),
        }
    }
}

/// Whether a status is an answer to the caller, and no reason to look at the document.
fn is_final(status: StatusCode) -> bool {
    status.is_success() || status == StatusCode::PRECONDITION_FAILED
}

/// The answer, if it is a success.
pub(super) async fn accept(answer: Response, idle: Duration) -> Result<Response, ObjectProblem> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let document = text(answer, idle).await.unwrap_or_default();
    let refused = answer::refusal(status.as_u16(), &document);
    match &refused {
        // A bucket that does not exist has a code of its own, and what stands before the
        // store has none.
        ObjectProblem::Refused { code, .. }
            if status == StatusCode::NOT_FOUND && code == "NoSuchKey" =>
        {
            Err(ObjectProblem::Missing)
        }
        _ => Err(refused),
    }
}

pub(super) async fn text(mut answer: Response, idle: Duration) -> Result<String, ObjectProblem> {
    let mut bytes = Vec::new();
    let reading = async {
        while let Some(chunk) = answer.chunk().await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_DOCUMENT {
                return Err(ObjectProblem::Unreadable("it is too large"));
            }
        }
        Ok(())
    };
    let read = tokio::time::timeout(idle, reading).await;
    read.map_err(|_| late(idle))??;
    String::from_utf8(bytes).map_err(|_| ObjectProblem::Unreadable("it is not UTF-8"))
}

pub(super) fn late(limit: Duration) -> ObjectProblem {
    let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    ObjectProblem::Late(Duration::from_millis(millis))
}

fn is_of_key(problem: &ObjectProblem) -> bool {
    matches!(problem, ObjectProblem::Refused { code, .. } if error::is_of_key(code))
}

fn is_skewed(problem: &ObjectProblem) -> bool {
    matches!(problem, ObjectProblem::Refused { code, .. } if code == "RequestTimeTooSkewed")
}

fn shifted(time: SystemTime, seconds: i64) -> SystemTime {
    let span = Duration::from_secs(seconds.unsigned_abs());
    let shifted = if seconds < 0 {
        time.checked_sub(span)
    } else {
        time.checked_add(span)
    };
    shifted.unwrap_or(time)
}
