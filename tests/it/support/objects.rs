//! A store that speaks S3's protocol and Google's, and lies on request. Bytes lie in memory.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::body::Body;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, ETAG, IF_NONE_MATCH, LAST_MODIFIED, RANGE,
};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use images::digest::Digest;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::program::{PATIENCE, pause};

use super::runtime::background;

/// The bucket that exists.
pub(crate) const BUCKET: &str = "catalogs";
/// The name of the key that it takes.
pub(crate) const KEY: &str = "AKIATEST";
/// Its secret.
const SECRET: &str = "secret";
/// What the platform beside it wants to see before it gives a key, and the token of that.
pub(crate) const PLATFORM_TOKEN: &str = "token-of-the-cluster";
pub(crate) const SESSION: &str = "session";
/// The most keys of one page of a list.
const PAGE: usize = 3;
/// When all objects were written.
const WRITTEN: &str = "2026-01-02T03:04:05Z";

/// A store that runs until it is dropped.
pub(crate) struct ObjectStore {
    address: SocketAddr,
    scheme: &'static str,
    state: Arc<Mutex<State>>,
    tls: Option<TlsAcceptor>,
    /// The task that answers.
    serving: Mutex<JoinHandle<()>>,
    /// Dropped last: the store's tasks run in it.
    runtime: Runtime,
}

/// How the store behaves. The default is: well. The fields combine.
#[derive(Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct Lies {
    /// Answer each request with this status and code.
    pub(crate) status: Option<(u16, &'static str)>,
    /// Answer so many requests with `status`, and the others well.
    pub(crate) times: Option<u32>,
    /// Replace what exists, whatever the conditions of a request are.
    pub(crate) no_conditions: bool,
    /// Refuse to remove anything.
    pub(crate) no_deletes: bool,
    /// List nothing.
    pub(crate) empty_lists: bool,
    /// Alter the last byte of each object with this in its key.
    pub(crate) altered: Option<&'static str>,
    /// Answer that the store is busy to whoever reads an object with this in its key.
    pub(crate) busy: Option<&'static str>,
    /// Refuse to write an object with this in its key.
    pub(crate) unwritable: Option<&'static str>,
    /// Break the connection after half of each body, once for each object.
    pub(crate) cut: bool,
    /// Wait before each answer.
    pub(crate) slow: Duration,
    /// Break the connection of each request.
    pub(crate) gone: bool,
    /// Refuse requests without this token of a session.
    pub(crate) session: Option<&'static str>,
}

#[derive(Default)]
struct State {
    lies: Lies,
    objects: BTreeMap<String, Bytes>,
    /// Those that were cut.
    cut: Vec<String>,
    /// The public key of the service account of Google that may use it.
    google_key: Option<Vec<u8>>,
    /// `METHOD KEY` of all requests.
    requests: Vec<String>,
}

impl ObjectStore {
    /// Starts a store with an empty bucket.
    pub(crate) fn start() -> Self {
        Self::start_at("127.0.0.1:0", None)
    }

    /// The same at an address, with TLS if there is a certificate.
    pub(crate) fn start_at(address: &str, tls: Option<Arc<ServerConfig>>) -> Self {
        let runtime = background();
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::default();
        let tls = tls.map(TlsAcceptor::from);
        let scheme = if tls.is_some() { "https" } else { "http" };
        let serving = runtime.spawn(serve(listener, tls.clone(), Arc::clone(&state)));
        Self {
            address,
            scheme,
            state,
            tls,
            serving: Mutex::new(serving),
            runtime,
        }
    }

    /// Ends as if its process was killed: connections break in the middle of their bytes,
    /// and its address refuses new ones. Objects that it has confirmed stay.
    pub(crate) fn kill(&self) {
        self.serving.lock().unwrap().abort();
    }

    /// Starts it again at the same address.
    pub(crate) fn restart(&self) {
        let begin = Instant::now();
        let listener = loop {
            match self.runtime.block_on(TcpListener::bind(self.address)) {
                Ok(listener) => break listener,
                // Until the task before has ended.
                Err(error) => assert!(begin.elapsed() < PATIENCE, "{error}"),
            }
            pause(begin);
        };
        let serving = serve(listener, self.tls.clone(), Arc::clone(&self.state));
        *self.serving.lock().unwrap() = self.runtime.spawn(serving);
    }

    /// The setting that names its bucket and a prefix.
    pub(crate) fn url(&self, prefix: &str) -> String {
        self.url_at(prefix, &self.address.ip().to_string())
    }

    /// The same by another name of its address.
    pub(crate) fn url_at(&self, prefix: &str, host: &str) -> String {
        let (scheme, port) = (self.scheme, self.address.port());
        format!("s3://{BUCKET}/{prefix}?endpoint={scheme}://{host}:{port}")
    }

    /// The setting that names its bucket as one of Google, which takes tokens that this key
    /// has signed.
    pub(crate) fn google_url(&self, prefix: &str, public_key: Vec<u8>) -> String {
        self.lock().google_key = Some(public_key);
        format!(
            "gs://{BUCKET}/{prefix}?endpoint={}://{}",
            self.scheme, self.address
        )
    }

    /// An address of the platform, which gives keys for the store.
    pub(crate) fn platform(&self, kind: &str) -> String {
        format!("{}://{}/platform/{kind}", self.scheme, self.address)
    }

    /// Changes how it behaves from now on.
    pub(crate) fn lie(&self, change: impl FnOnce(&mut Lies)) {
        change(&mut self.lock().lies);
    }

    /// Behaves well again.
    pub(crate) fn behave(&self) {
        self.lock().lies = Lies::default();
    }

    /// Puts a copy of an object beside it.
    pub(crate) fn copy(&self, from: &str, to: &str) {
        let mut state = self.lock();
        let bytes = state.objects[from].clone();
        state.objects.insert(to.to_owned(), bytes);
    }

    /// The keys of all objects.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.lock().objects.keys().cloned().collect()
    }

    /// The bytes of all objects.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().objects.values().map(Bytes::len).sum()
    }

    /// Removes objects.
    pub(crate) fn remove(&self, is_meant: impl Fn(&str) -> bool) {
        self.lock().objects.retain(|key, _| !is_meant(key));
    }

    /// The requests so far, as `METHOD KEY`.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.lock().requests.clone()
    }

    /// Forgets the requests so far.
    pub(crate) fn forget_requests(&self) {
        self.lock().requests.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, state) = (tls.clone(), Arc::clone(&state));
        connections.spawn(async move {
            let service = hyper::service::service_fn(move |request: Request<_>| {
                let state = Arc::clone(&state);
                async move { answer(&state, request.map(Body::new)).await }
            });
            let server = auto::Builder::new(TokioExecutor::new());
            // A client that goes away, and a broken connection, are no concern here.
            let Some(tls) = tls else {
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
                return;
            };
            if let Ok(stream) = tls.accept(stream).await {
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            }
        });
    }
}

async fn answer(
    state: &Mutex<State>,
    request: Request<Body>,
) -> Result<Response<Body>, std::io::Error> {
    let (parts, body) = request.into_parts();
    let path = percent_encoding::percent_decode_str(parts.uri.path());
    let path = path.decode_utf8().unwrap().into_owned();
    let (lies, google_key) = {
        let mut state = state.lock().unwrap();
        let mut lies = state.lies.clone();
        state.requests.push(format!("{} {path}", parts.method));
        match &mut state.lies.times {
            Some(0) => lies.status = None,
            Some(times) => *times -= 1,
            None => {}
        }
        (lies, state.google_key.clone())
    };
    tokio::time::sleep(lies.slow).await;
    if lies.gone {
        return Err(std::io::Error::other("broken on request"));
    }
    // As it would be while it is sent: a client that breaks off leaves nothing.
    let body = axum::body::to_bytes(body, 1 << 30).await;
    let body = body.map_err(std::io::Error::other)?;
    if let Some((status, code)) = lies.status {
        return Ok(refusal(status, code));
    }
    if let Some(given) = give_key(&path, &parts) {
        return Ok(given);
    }
    let refused = match google_key {
        Some(key) => refused_by_google(&parts.headers, &key),
        None => refused(&parts, &body, &lies),
    };
    if let Some(refused) = refused {
        return Ok(refused);
    }
    let Some(path) = path.strip_prefix(&format!("/{BUCKET}")) else {
        return Ok(refusal(404, "NoSuchBucket"));
    };
    let mut state = state.lock().unwrap();
    if path.is_empty() && parts.method == Method::GET {
        return Ok(list(&state, &lies, parts.uri.query().unwrap_or_default()));
    }
    let key = path.trim_start_matches('/').to_owned();
    Ok(match parts.method {
        Method::PUT if lies.unwritable.is_some_and(|part| key.contains(part)) => {
            refusal(403, "AccessDenied")
        }
        Method::PUT => {
            let mut conditions = [IF_NONE_MATCH.as_str(), "x-goog-if-generation-match"].into_iter();
            let conditional = conditions.any(|name| parts.headers.contains_key(name));
            if conditional && !lies.no_conditions && state.objects.contains_key(&key) {
                return Ok(refusal(412, "PreconditionFailed"));
            }
            let tag = tag(&body);
            state.objects.insert(key, body);
            let mut response = Response::new(Body::empty());
            response.headers_mut().insert(ETAG, tag.parse().unwrap());
            response
        }
        Method::DELETE if lies.no_deletes => refusal(403, "AccessDenied"),
        Method::DELETE => {
            state.objects.remove(&key);
            status(204, Body::empty())
        }
        Method::GET => get(&mut state, &lies, &key, &parts.headers),
        _ => refusal(405, "MethodNotAllowed"),
    })
}

fn get(state: &mut State, lies: &Lies, key: &str, headers: &HeaderMap) -> Response<Body> {
    let Some(object) = state.objects.get(key) else {
        return refusal(404, "NoSuchKey");
    };
    if lies.busy.is_some_and(|part| key.contains(part)) {
        return refusal(503, "SlowDown");
    }
    let tag = tag(object);
    let mut bytes = object.to_vec();
    let size = bytes.len();
    if lies.altered.is_some_and(|part| key.contains(part)) {
        *bytes.last_mut().unwrap() ^= 1;
    }
    let mut response = Response::builder().header(ETAG, tag);
    if let Some(range) = headers.get(RANGE) {
        let range = range.to_str().unwrap().strip_prefix("bytes=").unwrap();
        let (from, to) = range.split_once('-').unwrap();
        let from: usize = from.parse().unwrap();
        let end = to.parse::<usize>().unwrap().min(size - 1) + 1;
        bytes = bytes[from..end].to_vec();
        let range = format!("bytes {from}-{}/{size}", end - 1);
        response = response.status(206).header(CONTENT_RANGE, range);
    }
    let mut body = Body::from(bytes.clone());
    if lies.cut && !state.cut.iter().any(|cut| cut == key) {
        state.cut.push(key.to_owned());
        let half = Bytes::from(bytes[..bytes.len() / 2].to_vec());
        let broken = std::io::Error::other("broken on request");
        let parts = [Ok(half), Err(broken)];
        // The first part is on its way before the connection breaks.
        let parts = futures_util::stream::unfold(parts.into_iter(), |mut parts| async {
            let part = parts.next()?;
            if part.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Some((part, parts))
        });
        body = Body::from_stream(parts);
    }
    let written = humantime::parse_rfc3339(WRITTEN).unwrap();
    response
        .header(LAST_MODIFIED, httpdate::fmt_http_date(written))
        .header(CONTENT_LENGTH, bytes.len())
        .body(body)
        .unwrap()
}

fn tag(object: &[u8]) -> String {
    format!("\"{}\"", Digest::of(object).hex())
}

/// A refusal of a request without a token that this key has signed (RS256).
fn refused_by_google(headers: &HeaderMap, key: &[u8]) -> Option<Response<Body>> {
    let is_good = || {
        let token = headers.get(AUTHORIZATION)?.to_str().ok()?;
        let (signed, signature) = token.strip_prefix("Bearer ")?.rsplit_once('.')?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        let algorithm = &ring::signature::RSA_PKCS1_2048_8192_SHA256;
        let key = ring::signature::UnparsedPublicKey::new(algorithm, key);
        key.verify(signed.as_bytes(), &signature).ok()
    };
    if is_good().is_some() {
        return None;
    }
    Some(refusal(401, "AuthenticationRequired"))
}

/// A refusal of a request that is not signed as it should be.
fn refused(parts: &Parts, body: &[u8], lies: &Lies) -> Option<Response<Body>> {
    let headers = &parts.headers;
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let signed = text("authorization").unwrap_or_default();
    let key = format!("AWS4-HMAC-SHA256 Credential={KEY}/");
    if !signed.starts_with(&key) || !has_signed_headers(signed) {
        return Some(refusal(403, "InvalidAccessKeyId"));
    }
    if !is_signed(parts) {
        return Some(refusal(403, "SignatureDoesNotMatch"));
    }
    if text("x-amz-content-sha256") != Some(&Digest::of(body).hex()) {
        return Some(refusal(400, "XAmzContentSHA256Mismatch"));
    }
    if lies.session.is_some() && text("x-amz-security-token") != lies.session {
        return Some(refusal(403, "InvalidToken"));
    }
    None
}

/// A key as a platform gives it, to those who show its token.
fn give_key(path: &str, parts: &Parts) -> Option<Response<Body>> {
    let end = "2100-01-01T00:00:00Z";
    let query = parts.uri.query().unwrap_or_default();
    let document = match path {
        "/platform/pod" if parts.headers.get(AUTHORIZATION)? == PLATFORM_TOKEN => format!(
            r#"{{"AccessKeyId": "{KEY}", "SecretAccessKey": "secret", "Token": "{SESSION}",
                "Expiration": "{end}"}}"#
        ),
        "/platform/sts"
            if query.contains(PLATFORM_TOKEN) && query.contains("RoleArn=arn%3Aours") =>
        {
            format!(
                "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
                 <AccessKeyId>{KEY}</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>\
                 <SessionToken>{SESSION}</SessionToken><Expiration>{end}</Expiration></Credentials>\
                 </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
            )
        }
        _ => return None,
    };
    Some(Response::new(Body::from(document)))
}

/// Whether the signature is that of this request with the store's secret (AWS Signature
/// Version 4).
fn is_signed(parts: &Parts) -> bool {
    let text = |name: &str| match parts.headers.get(name) {
        Some(value) => value.to_str().unwrap().trim(),
        None => "",
    };
    let authorization = text("authorization");
    let field = |name: &str| {
        let (_, value) = authorization.split_once(name).unwrap_or_default();
        value.split([',', ' ']).next().unwrap_or_default()
    };
    let scope = field("Credential=");
    let scope = scope.split_once('/').unwrap_or_default().1;
    let names = field("SignedHeaders=");
    let mut query: Vec<&str> = parts.uri.query().unwrap_or_default().split('&').collect();
    query.sort_unstable();
    let mut lines = vec![
        parts.method.to_string(),
        parts.uri.path().to_owned(),
        query.join("&"),
    ];
    lines.extend(
        names
            .split(';')
            .map(|name| format!("{name}:{}", text(name))),
    );
    lines.extend([
        String::new(),
        names.to_owned(),
        text("x-amz-content-sha256").to_owned(),
    ]);
    let request = Digest::of(lines.join("\n").as_bytes()).hex();
    let signed = format!(
        "AWS4-HMAC-SHA256\n{}\n{scope}\n{request}",
        text("x-amz-date")
    );
    let mac = |key: &[u8], text: &str| {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key);
        ring::hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
    };
    let secret = format!("AWS4{SECRET}").into_bytes();
    let key = scope.split('/').fold(secret, |key, part| mac(&key, part));
    let mac = mac(&key, &signed);
    let wanted = Digest::from_bytes(mac.try_into().unwrap()).hex();
    field("Signature=") == wanted
}

/// Whether the headers that make a request what it is are signed.
fn has_signed_headers(authorization: &str) -> bool {
    let names = authorization
        .split("SignedHeaders=")
        .nth(1)
        .unwrap_or_default();
    let names = names.split(',').next().unwrap_or_default();
    let mut wanted = ["host", "x-amz-content-sha256", "x-amz-date"].into_iter();
    wanted.all(|name| names.split(';').any(|signed| signed == name))
}

fn list(state: &State, lies: &Lies, query: &str) -> Response<Body> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let pairs: BTreeMap<&str, String> = pairs
        .map(|(name, value)| {
            let value = percent_encoding::percent_decode_str(value);
            (name, value.decode_utf8().unwrap().into_owned())
        })
        .collect();
    let prefix = pairs.get("prefix").map_or("", String::as_str);
    let after = pairs.get("continuation-token").map_or("", String::as_str);
    let keys: Vec<&String> = state
        .objects
        .keys()
        .filter(|key| key.starts_with(prefix) && key.as_str() > after && !lies.empty_lists)
        .collect();
    let most = pairs
        .get("max-keys")
        .map_or(PAGE, |most| most.parse().unwrap());
    let page = keys.iter().take(most);
    let contents = page.map(|key| {
        let size = state.objects[*key].len();
        format!(
            "<Contents><Key>{key}</Key><LastModified>{WRITTEN}</LastModified><Size>{size}</Size>\
             </Contents>"
        )
    });
    let mut document: String = contents.collect();
    if keys.len() > most {
        let token = keys[most - 1];
        document.extend([
            "<NextContinuationToken>",
            token.as_str(),
            "</NextContinuationToken>",
        ]);
    }
    let document = format!(
        "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         {document}</ListBucketResult>"
    );
    Response::new(Body::from(document))
}

fn refusal(code: u16, name: &str) -> Response<Body> {
    let document = format!("<Error><Code>{name}</Code><Message>on request</Message></Error>");
    status(code, Body::from(document))
}

fn status(code: u16, body: Body) -> Response<Body> {
    Response::builder().status(code).body(body).unwrap()
}
