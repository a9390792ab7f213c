//! What the registry answers.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::stream;
use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, LINK, LOCATION, RANGE, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use images::digest::Digest;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::{Access, Behaviour, DigestHeader, Recorded, State};

/// One body of a blob on its way, as the state counts them.
struct Sending(Arc<Mutex<State>>);

impl Sending {
    fn begin(state: &Arc<Mutex<State>>) -> Self {
        let mut counts = state.lock().unwrap();
        counts.sending += 1;
        counts.most_at_once = counts.most_at_once.max(counts.sending);
        drop(counts);
        Self(Arc::clone(state))
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.lock().unwrap().sending -= 1;
    }
}

/// How long the tokens of the registry hold, in seconds.
const TOKEN_LIFETIME: u32 = 300;
/// How long the server gets to send what it has before a connection is cut.
const FLUSH: Duration = Duration::from_millis(20);

/// Takes connections until it is aborted, and its connections with it.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    state: Arc<Mutex<State>>,
) {
    let app = axum::Router::new().fallback(move |request: Request<Body>| {
        let state = Arc::clone(&state);
        async move { answer(&state, request).await }
    });
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let service = hyper_util::service::TowerToHyperService::new(app.clone());
        let tls = tls.clone();
        connections.spawn(async move {
            let server = auto::Builder::new(TokioExecutor::new());
            // A client that goes away is none of the registry's business.
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

#[expect(clippy::too_many_lines, reason = "a route each")]
async fn answer(state: &Arc<Mutex<State>>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let behaviour = {
        let mut state = state.lock().unwrap();
        state.requests.push(Recorded {
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            headers: parts.headers.clone(),
        });
        let mut behaviour = state.behaviour.clone();
        match &mut state.behaviour.times {
            Some(0) => behaviour.status = None,
            Some(times) => *times -= 1,
            None => {}
        }
        behaviour
    };
    if behaviour.silent {
        std::future::pending::<()>().await;
    }
    if let Some(status) = behaviour.status {
        return told_off(&behaviour, status);
    }
    if parts.uri.path() == "/token" {
        let form = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        return token(state, &behaviour, &parts.headers, &form);
    }
    if let Some(refusal) = refuse_stranger(state, &behaviour, &parts.headers) {
        return refusal;
    }
    if parts.method == Method::HEAD && behaviour.no_head {
        return error(405, "UNSUPPORTED", "no HEAD here");
    }
    let path = parts.uri.path();
    if path == "/v2/" {
        let mut builder = Response::builder();
        if behaviour.stored_signatures.is_some() {
            builder = builder.header("X-Registry-Supports-Signatures", "1");
        }
        return with(builder, Body::from("{}"));
    }
    if path.starts_with("/extensions/v2/")
        && let Some(document) = behaviour.stored_signatures
    {
        return with(Response::builder(), Body::from(document));
    }
    let Some(path) = path.strip_prefix("/v2/") else {
        return error(404, "NAME_UNKNOWN", "no such path");
    };
    if path.is_empty() {
        return Response::new(Body::from("{}"));
    }
    if let Some((repository, name)) = path.rsplit_once("/manifests/") {
        let key = (repository.to_owned(), name.to_owned());
        let found = state.lock().unwrap().manifests.get(&key).cloned();
        return manifest(&parts, &behaviour, found);
    }
    if let Some((repository, digest)) = path.rsplit_once("/referrers/") {
        let key = (repository.to_owned(), digest.to_owned());
        let referrers = state.lock().unwrap().referrers.clone();
        if let Some(referrers) = referrers {
            let all = referrers.get(&key).cloned().unwrap_or_default();
            let (manifests, next) = page(&parts, &behaviour, all);
            let index = json!({"schemaVersion": 2, "manifests": manifests}).to_string();
            let (index, kind) = (
                Bytes::from(index),
                "application/vnd.oci.image.index.v1+json",
            );
            let digest = Digest::of(&index);
            let mut answer = content(&parts, &behaviour, kind, digest, &index, None);
            if let Some(next) = next {
                answer.headers_mut().insert(LINK, next.parse().unwrap());
            }
            return answer;
        }
    }
    if let Some((_, name)) = path.rsplit_once("/blobs/") {
        if let Some(base) = &behaviour.redirect_blobs {
            let target = format!("{base}{}?signature=hidden", parts.uri.path());
            return with(
                Response::builder().status(307).header(LOCATION, target),
                Body::empty(),
            );
        }
        let found = name.parse().ok().and_then(|digest: Digest| {
            let bytes = state.lock().unwrap().blobs.get(&digest).cloned()?;
            Some((digest, bytes))
        });
        return match found {
            Some((digest, bytes)) => {
                let kind = "application/octet-stream";
                content(
                    &parts,
                    &behaviour,
                    kind,
                    digest,
                    &bytes,
                    Some(Sending::begin(state)),
                )
            }
            None => error(404, "BLOB_UNKNOWN", "blob unknown"),
        };
    }
    error(404, "NAME_UNKNOWN", "no such path")
}

/// The referrers on a page, and the link to the next one.
fn page(parts: &Parts, behaviour: &Behaviour, all: Vec<Value>) -> (Vec<Value>, Option<String>) {
    let Some(size) = behaviour.page_of_referrers else {
        return (all, None);
    };
    let query = parts.uri.query().unwrap_or_default();
    let from = query
        .strip_prefix("from=")
        .map_or(0, |from| from.parse().unwrap());
    let rest = all.len().saturating_sub(from);
    let path = parts.uri.path();
    let next = match size {
        // There is always another page.
        0 => Some(format!("<{path}?{query}x>; rel=\"next\"")),
        size => (rest > size).then(|| format!("<{path}?from={}>; rel=\"next\"", from + size)),
    };
    (all.into_iter().skip(from).take(size).collect(), next)
}

/// A manifest by name or digest, or that there is none.
fn manifest(
    parts: &Parts,
    behaviour: &Behaviour,
    found: Option<(String, Bytes)>,
) -> Response<Body> {
    if behaviour.not_a_manifest {
        let page = Bytes::from_static(b"<html>Log in</html>");
        return content(
            parts,
            behaviour,
            "text/html",
            Digest::of(&page),
            &page,
            None,
        );
    }
    let Some((media_type, bytes)) = found else {
        return error(404, "MANIFEST_UNKNOWN", "manifest unknown");
    };
    let digest = Digest::of(&bytes);
    let etag = format!("\"{digest}\"");
    let asked = parts.headers.get(IF_NONE_MATCH);
    if behaviour.etags && asked.is_some_and(|asked| asked == etag.as_str()) {
        return with(
            Response::builder().status(304).header(ETAG, etag),
            Body::empty(),
        );
    }
    let mut response = content(parts, behaviour, &media_type, digest, &bytes, None);
    if behaviour.etags {
        response.headers_mut().insert(ETAG, etag.parse().unwrap());
    }
    response
}

/// A manifest or a blob, with all the lies that were asked for.
fn content(
    parts: &Parts,
    behaviour: &Behaviour,
    media_type: &str,
    digest: Digest,
    bytes: &Bytes,
    sending: Option<Sending>,
) -> Response<Body> {
    let is_wrong_head = behaviour.wrong_head && parts.method == Method::HEAD;
    let digest = match behaviour.digest_header {
        _ if is_wrong_head => Some(Digest::of(b"something else").to_string()),
        DigestHeader::Right => Some(digest.to_string()),
        DigestHeader::Wrong => Some(Digest::of(b"something else").to_string()),
        DigestHeader::Nonsense => Some("sha256:nonsense".to_owned()),
        DigestHeader::Absent => None,
    };
    let mut builder = Response::builder().header(CONTENT_TYPE, media_type);
    if let Some(digest) = digest {
        builder = builder.header("docker-content-digest", digest);
    }
    for number in 0..behaviour.more_headers {
        builder = builder.header(format!("x-more-{number}"), "more");
    }
    let mut bytes = bytes.clone();
    let is_blob = sending.is_some();
    if is_blob && behaviour.gzipped {
        bytes = gzip(&bytes).into();
    }
    if is_blob && (behaviour.gzipped || behaviour.called_gzip) {
        builder = builder.header(CONTENT_ENCODING, "gzip");
    }
    if behaviour.altered {
        let mut altered = bytes.to_vec();
        if let Some(last) = altered.last_mut() {
            *last ^= 1;
        }
        bytes = altered.into();
    }
    let from = parts
        .headers
        .get(RANGE)
        .filter(|_| !behaviour.no_ranges)
        .map(|range| {
            let range = range.to_str().unwrap().strip_prefix("bytes=").unwrap();
            range.strip_suffix('-').unwrap().parse::<usize>().unwrap()
        });
    if let Some(from) = from {
        let from = from + usize::from(behaviour.wrong_range);
        let range = format!("bytes {from}-{}/{}", bytes.len() - 1, bytes.len());
        builder = builder.status(206).header(CONTENT_RANGE, range);
        bytes = bytes.slice(from..);
    }
    if let Some(percent) = behaviour.percent {
        let length = (bytes.len() * usize::from(percent)).div_ceil(100);
        let mut other = bytes.to_vec();
        other.resize(length, b'!');
        bytes = other.into();
    } else {
        builder = builder.header(CONTENT_LENGTH, bytes.len());
    }
    if parts.method == Method::HEAD {
        return with(builder, Body::empty());
    }
    with(builder, body(behaviour, bytes, sending))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

fn body(behaviour: &Behaviour, mut bytes: Bytes, sending: Option<Sending>) -> Body {
    let (size, pause) = behaviour.slow.unwrap_or((64 << 10, Duration::ZERO));
    let mut cut = behaviour.cut.is_some();
    if let Some(percent) = behaviour.cut {
        bytes.truncate((bytes.len() * usize::from(percent)).div_ceil(100));
    }
    let body = stream::poll_fn({
        let mut sleep: Option<Pin<Box<tokio::time::Sleep>>> = None;
        move |context: &mut Context<'_>| {
            if bytes.is_empty() && !cut {
                return Poll::Ready(None);
            }
            // What came before is flushed before a cut.
            let least = if bytes.is_empty() {
                FLUSH
            } else {
                Duration::ZERO
            };
            let pause = pause.max(least);
            if !pause.is_zero() {
                let waiting = sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(pause)));
                std::task::ready!(waiting.as_mut().poll(context));
                sleep = None;
            }
            if bytes.is_empty() {
                cut = false;
                return Poll::Ready(Some(Err(std::io::Error::other("cut as asked"))));
            }
            let piece = bytes.split_to(size.min(bytes.len()));
            if let Some(Sending(state)) = &sending {
                state.lock().unwrap().sent += piece.len() as u64;
            }
            Poll::Ready(Some(Ok(piece)))
        }
    });
    Body::from_stream(body)
}

/// A token for whoever may have one; an anonymous one pulls as well when
/// everybody may.
fn token(
    state: &Mutex<State>,
    behaviour: &Behaviour,
    headers: &HeaderMap,
    form: &[u8],
) -> Response<Body> {
    let welcome = match &behaviour.access {
        Access::Token(user, password) => {
            let refresh = format!("refresh_token={password}");
            is_basic(headers, user, password)
                || form
                    .split(|byte| *byte == b'&')
                    .any(|pair| pair == refresh.as_bytes())
        }
        Access::AnonymousToken | Access::Realm(_) => true,
        Access::Open | Access::Basic(..) | Access::Nobody(_) => false,
    };
    if !welcome {
        return error(401, "UNAUTHORIZED", "wrong user or password");
    }
    let mut state = state.lock().unwrap();
    state.tokens_given += 1;
    let token = format!("token-{}", state.tokens_given);
    state.tokens.insert(token.clone());
    let name = if form.is_empty() {
        "token"
    } else {
        "access_token"
    };
    let answer = json!({name: token, "expires_in": TOKEN_LIFETIME});
    with(Response::builder(), Body::from(answer.to_string()))
}

fn refuse_stranger(
    state: &Mutex<State>,
    behaviour: &Behaviour,
    headers: &HeaderMap,
) -> Option<Response<Body>> {
    let host = headers
        .get("host")
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default();
    let secure = state.lock().unwrap().has_tls;
    let scheme = if secure { "https" } else { "http" };
    let own_realm = format!("{scheme}://{host}/token");
    let challenge = match &behaviour.access {
        Access::Open => return None,
        Access::Basic(user, password) => {
            if is_basic(headers, user, password) {
                return None;
            }
            "Basic realm=\"test\"".to_owned()
        }
        Access::Nobody(challenge) => {
            let mut refusal = error(401, "UNAUTHORIZED", "authentication required");
            if let Some(challenge) = challenge {
                let challenge = challenge.parse().unwrap();
                refusal.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            }
            return Some(refusal);
        }
        other => {
            let sent = headers
                .get(AUTHORIZATION)
                .and_then(|value| value.to_str().ok());
            let token = sent.and_then(|sent| sent.strip_prefix("Bearer "));
            if token.is_some_and(|token| state.lock().unwrap().tokens.contains(token)) {
                return None;
            }
            let realm = match other {
                Access::Realm(realm) => realm,
                _ => &own_realm,
            };
            format!("Bearer realm=\"{realm}\",service=\"test registry\"")
        }
    };
    let mut refusal = error(401, "UNAUTHORIZED", "authentication required");
    refusal
        .headers_mut()
        .insert(WWW_AUTHENTICATE, challenge.parse().unwrap());
    Some(refusal)
}

fn is_basic(headers: &HeaderMap, user: &str, password: &str) -> bool {
    let expected = format!(
        "Basic {}",
        BASE64_STANDARD.encode(format!("{user}:{password}"))
    );
    headers
        .get(AUTHORIZATION)
        .is_some_and(|sent| sent == expected.as_str())
}

fn told_off(behaviour: &Behaviour, status: u16) -> Response<Body> {
    let mut response = match behaviour.text {
        Some(text) => {
            let builder = Response::builder().status(StatusCode::from_u16(status).unwrap());
            with(builder.header(CONTENT_TYPE, "text/plain"), Body::from(text))
        }
        None => error(status, "TOLD_OFF", "as the test asked"),
    };
    if let Some(wait) = &behaviour.retry_after {
        response
            .headers_mut()
            .insert(RETRY_AFTER, wait.parse().unwrap());
    }
    response
}

fn error(status: u16, code: &str, message: &str) -> Response<Body> {
    let document = json!({"errors": [{"code": code, "message": message}]});
    let builder = Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .header(CONTENT_TYPE, "application/json");
    with(builder, Body::from(document.to_string()))
}

fn with(builder: http::response::Builder, body: Body) -> Response<Body> {
    builder.body(body).unwrap()
}
