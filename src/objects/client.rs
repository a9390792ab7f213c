//! Sends requests to one bucket.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::header::{DATE, ETAG, HeaderMap, HeaderValue, IF_MATCH, IF_NONE_MATCH, RANGE};
use reqwest::{Client, Method, Response, StatusCode, Url};
use tokio::sync::Mutex;

use crate::certificates::{self, Verifier};
use crate::error_chain::error_chain;
use crate::objects::access_key::AccessKey;
use crate::objects::answer::{self, Page};
use crate::objects::credentials::CredentialSource;
use crate::objects::error::{ObjectError, ObjectProblem};
use crate::objects::location::Location;
use crate::objects::platform::Lent;
use crate::objects::signature::{Scope, encoded};
use ::images::digest::Digest;

const CONNECT: Duration = Duration::from_secs(10);
/// The longest time without a single byte.
const IDLE: Duration = Duration::from_secs(30);
/// How long before its end a key of the platform is renewed.
const RENEW: Duration = Duration::from_mins(5);
/// How often a request is sent at most, and how long the first pause is.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(100);
/// The most bytes of a document that are read: a list of 1,000 keys has a tenth.
const MAX_DOCUMENT: usize = 4 << 20;
/// The most pages of a list.
const MAX_PAGES: usize = 10_000;

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

/// A bucket, or the part of it below a prefix, to which all keys are relative. Cheap
/// to clone.
#[derive(Clone)]
pub struct Bucket(Arc<Inner>);

struct Inner {
    client: Client,
    location: Location,
    credentials: CredentialSource,
    /// Without a proxy.
    direct: Client,
    /// The key that the platform has given.
    lent: Mutex<Option<Lent>>,
    /// Seconds from this machine's clock to the store's. A store refuses signatures
    /// with other dates.
    offset: AtomicI64,
}

/// Whether an existing object is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is.
    Replace,
    /// It stays.
    IfAbsent,
}

impl Bucket {
    /// A client for a bucket. No request is sent.
    ///
    /// # Errors
    /// When a file of certificates cannot be used.
    pub fn new(settings: &Settings) -> Result<Self, String> {
        let mut certificates = Vec::new();
        for path in &settings.ca_files {
            certificates.extend(certificates::read(path)?);
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
                .read_timeout(IDLE)
                .tls_backend_preconfigured(tls.clone());
            let builder = if is_direct {
                builder.no_proxy()
            } else {
                builder
            };
            builder.build().map_err(|error| error_chain(&error))
        };
        let is_local = ::images::is_loopback(&settings.location.url(""));
        Ok(Self(Arc::new(Inner {
            client: client(is_local)?,
            direct: client(true)?,
            lent: Mutex::default(),
            location: settings.location.clone(),
            credentials: settings.credentials.clone(),
            offset: AtomicI64::new(0),
        })))
    }

    /// The bucket.
    pub fn location(&self) -> &Location {
        &self.0.location
    }

    /// Writes an object: all of it or nothing. The store gets its digest, to compare.
    /// Whether it was written: with [`Put::IfAbsent`], an existing object stays.
    ///
    /// # Errors
    /// When the store does not answer or refuses. The object may be there all the same.
    pub async fn put(&self, key: &str, body: Bytes, put: Put) -> Result<bool, ObjectError> {
        let digest = {
            let body = body.clone();
            tokio::task::spawn_blocking(move || Digest::of(&body)).await
        };
        let failed = self.failed("write", key);
        let digest = digest.map_err(|error| ObjectProblem::Broken(error.to_string()));
        let mut request = Request::of(Method::PUT, self.url(key));
        request.digest = digest.map_err(&failed)?;
        request.body = body;
        if put == Put::IfAbsent {
            let any = HeaderValue::from_static("*");
            request.headers.insert(IF_NONE_MATCH, any);
        }
        let answer = self.send(&request).await.map_err(&failed)?;
        // The second is the answer to two writers at once.
        let kept = [StatusCode::PRECONDITION_FAILED, StatusCode::CONFLICT];
        if put == Put::IfAbsent && kept.contains(&answer.status()) {
            return Ok(false);
        }
        accept(answer).await.map(|_| true).map_err(&failed)
    }

    /// Begins to read an object.
    pub async fn get(&self, key: &str) -> Result<Body, ObjectError> {
        let request = Request::of(Method::GET, self.url(key));
        let failed = self.failed("read", key);
        let answer = self.send(&request).await.map_err(&failed)?;
        let answer = accept(answer).await.map_err(&failed)?;
        Ok(Body {
            bucket: self.clone(),
            key: key.to_owned(),
            tag: answer.headers().get(ETAG).cloned(),
            answer,
            received: 0,
        })
    }

    /// A small object as a whole; `None` when there is none.
    ///
    /// # Errors
    /// When it is larger than 4 MiB, or cannot be read.
    pub async fn read(&self, key: &str) -> Result<Option<Vec<u8>>, ObjectError> {
        let mut body = match self.get(key).await {
            Err(ObjectError {
                problem: ObjectProblem::Missing,
                ..
            }) => return Ok(None),
            body => body?,
        };
        let mut bytes = Vec::new();
        while let Some(chunk) = body.chunk().await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_DOCUMENT {
                let problem = ObjectProblem::Unreadable("it is too large");
                return Err(self.failed("read", key)(problem));
            }
        }
        Ok(Some(bytes))
    }

    /// The keys that begin with `beginning`.
    pub async fn list(&self, beginning: &str) -> Result<Vec<String>, ObjectError> {
        let failed = self.failed("list", beginning);
        let mut keys = Vec::new();
        let mut next: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let page = self.page(beginning, next.as_deref()).await;
            let page = page.map_err(&failed)?;
            let prefix = &self.0.location.prefix;
            let own = page.keys.iter().filter_map(|key| key.strip_prefix(prefix));
            keys.extend(own.map(str::to_owned));
            next = page.next;
            if next.is_none() {
                return Ok(keys);
            }
        }
        Err(failed(ObjectProblem::Unreadable("the list has no end")))
    }

    async fn page(&self, beginning: &str, next: Option<&str>) -> Result<Page, ObjectProblem> {
        let mut url = self.0.location.url("");
        let prefix = encoded(&format!("{}{beginning}", self.0.location.prefix));
        let mut query = format!("list-type=2&prefix={prefix}");
        if let Some(next) = next {
            query = format!("continuation-token={}&{query}", encoded(next));
        }
        url.set_query(Some(&query));
        let answer = self.send(&Request::of(Method::GET, url)).await?;
        let document = text(accept(answer).await?).await?;
        answer::page(&document)
    }

    /// Removes an object, if there is one.
    pub async fn delete(&self, key: &str) -> Result<(), ObjectError> {
        let failed = self.failed("remove", key);
        let request = Request::of(Method::DELETE, self.url(key));
        let answer = self.send(&request).await.map_err(&failed)?;
        match accept(answer).await {
            Ok(_) | Err(ObjectProblem::Missing) => Ok(()),
            Err(problem) => Err(failed(problem)),
        }
    }

    fn url(&self, key: &str) -> Url {
        let location = &self.0.location;
        location.url(&format!("{}{key}", location.prefix))
    }

    fn failed(&self, action: &'static str, key: &str) -> impl Fn(ObjectProblem) -> ObjectError {
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
    async fn send(&self, request: &Request) -> Result<Response, ObjectProblem> {
        let mut pause = PAUSE;
        for tried in 1.. {
            let problem = match self.send_once(request).await {
                Ok(answer) if is_final(answer.status()) => return Ok(answer),
                Ok(answer) => {
                    let date = answer.headers().get(DATE).cloned();
                    match accept(answer).await {
                        Ok(answer) => return Ok(answer),
                        Err(problem) if is_skewed(&problem) && self.set_clock(date) => problem,
                        Err(problem) if problem.is_temporary() => problem,
                        Err(problem) => return Err(problem),
                    }
                }
                Err(problem) if problem.is_temporary() => problem,
                Err(problem) => return Err(problem),
            };
            if tried >= TRIES {
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
        Ok(sent.send().await?)
    }

    /// The key as it is now.
    async fn key(&self) -> Result<AccessKey, ObjectProblem> {
        let inner = &*self.0;
        let CredentialSource::Platform(platform) = &inner.credentials else {
            let key = inner.credentials.key().await;
            return key.map_err(ObjectProblem::Credentials);
        };
        let mut lent = inner.lent.lock().await;
        let now = SystemTime::now();
        if let Some(lent) = lent.as_ref().filter(|lent| lent.until > now + RENEW) {
            return Ok(lent.key.clone());
        }
        let region = &inner.location.region;
        match platform.lend(&inner.client, &inner.direct, region).await {
            Ok(new) => Ok(lent.insert(new).key.clone()),
            Err(problem) => match lent.as_ref().filter(|lent| lent.until > now) {
                Some(lent) => {
                    tracing::warn!(%problem, "the key of the bucket cannot be renewed yet");
                    Ok(lent.key.clone())
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
struct Request {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Bytes,
    digest: Digest,
}

impl Request {
    fn of(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            digest: Digest::of(b""),
        }
    }
}

/// An object that is being read. A connection that breaks is replaced by another, which
/// goes on where it broke.
pub struct Body {
    bucket: Bucket,
    key: String,
    answer: Response,
    /// Bytes so far.
    received: u64,
    tag: Option<HeaderValue>,
}

impl Body {
    /// The next bytes; `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ObjectError> {
        let mut tried = 0;
        loop {
            let problem = match self.answer.chunk().await {
                Ok(chunk) => {
                    self.received += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
                    return Ok(chunk);
                }
                Err(error) => ObjectProblem::from(error),
            };
            tried += 1;
            let failed = self.bucket.failed("read", &self.key);
            // Without a tag the rest could be that of another object.
            let Some(tag) = self.tag.clone().filter(|_| tried < TRIES) else {
                return Err(failed(problem));
            };
            let mut request = Request::of(Method::GET, self.bucket.url(&self.key));
            let from = format!("bytes={}-", self.received);
            let from = HeaderValue::from_str(&from);
            let from = from.map_err(|_| failed(ObjectProblem::Unreadable("no range")))?;
            request.headers.insert(RANGE, from);
            request.headers.insert(IF_MATCH, tag);
            let answer = self.bucket.send(&request).await.map_err(&failed)?;
            let answer = accept(answer).await.map_err(&failed)?;
            if answer.status() != StatusCode::PARTIAL_CONTENT {
                return Err(failed(problem));
            }
            self.answer = answer;
        }
    }
}

/// Whether a status is an answer to the caller, and no reason to look at the document.
fn is_final(status: StatusCode) -> bool {
    status.is_success()
        || status == StatusCode::NOT_FOUND
        || status == StatusCode::PRECONDITION_FAILED
        || status == StatusCode::CONFLICT
}

/// The answer, if it is a success.
async fn accept(answer: Response) -> Result<Response, ObjectProblem> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let document = text(answer).await.unwrap_or_default();
    let refused = answer::refusal(status.as_u16(), &document);
    match &refused {
        // A bucket that does not exist has a code of its own.
        ObjectProblem::Refused { code, .. }
            if status == StatusCode::NOT_FOUND && (code == "NoSuchKey" || code.is_empty()) =>
        {
            Err(ObjectProblem::Missing)
        }
        _ => Err(refused),
    }
}

async fn text(mut answer: Response) -> Result<String, ObjectProblem> {
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_DOCUMENT {
            return Err(ObjectProblem::Unreadable("it is too large"));
        }
    }
    String::from_utf8(bytes).map_err(|_| ObjectProblem::Unreadable("it is not UTF-8"))
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
