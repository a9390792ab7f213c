//! What is counted and logged of each request, and how long it may take to be
//! answered.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::CONTENT_ENCODING;
use http::{Method, StatusCode};
use metrics::{Counter, Histogram, counter, histogram};

use super::access::Place;
use crate::serve::Peer;
use crate::serve::answer::Answer;
use crate::snapshot::Catalogs;

/// How long it may take until an answer begins, the reading of a request's
/// body included.
const TIMEOUT: Duration = Duration::from_mins(1);
/// How much of a path is logged, in characters.
const MAX_PATH: usize = 256;

pub(super) async fn observe(
    State(catalogs): State<Catalogs>,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let answer: Option<Arc<Answer>> = request.extensions().get().cloned();
    let peer: Option<Peer> = request.extensions().get().copied();
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("unknown", MatchedPath::as_str).to_owned();
    let (mut parts, body) = request.into_parts();
    let place = Place::of(&mut parts).await;
    let request = Request::from_parts(parts, body);
    // A client may make up names; metrics may not grow with them.
    let catalog = match &place {
        Place::Catalog(name) => catalogs.get(name),
        Place::NoName | Place::Elsewhere => None,
    };
    let catalog = catalog.map_or_else(String::new, |catalog| catalog.name.to_string());
    let method = match *request.method() {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    };
    // Nobody reads the log of each request, unless they said so.
    let logged = tracing::enabled!(target: "almanac::access", tracing::Level::DEBUG);
    let path: Option<String> =
        logged.then(|| request.uri().path().chars().take(MAX_PATH).collect());
    let response = tokio::time::timeout(TIMEOUT, next.run(request)).await;
    let response = response.unwrap_or_else(|_| StatusCode::REQUEST_TIMEOUT.into_response());

    let code = response.status().as_u16();
    let encoding = response.headers().get(CONTENT_ENCODING);
    let encoding = encoding.and_then(|encoding| encoding.to_str().ok());
    let meters = Meters::of(&Labels {
        method,
        route: &route,
        code,
        catalog: &catalog,
        encoding: encoding.unwrap_or("identity"),
    });
    meters.requests.increment(1);
    meters.seconds.record(began.elapsed().as_secs_f64());
    if let Some(answer) = answer {
        answer.report(move |sent| {
            meters.sent.increment(sent.bytes);
            let Some(path) = path else {
                return;
            };
            tracing::debug!(
                target: "almanac::access",
                method,
                path,
                catalog,
                code,
                peer = peer.map(|peer| tracing::field::display(peer.address)),
                bytes = sent.bytes,
                elapsed = ?sent.elapsed,
                "request"
            );
        });
    }
    response
}

/// What tells the meters of one kind of answers from others. There is only so
/// much of each, whatever clients send.
struct Labels<'a> {
    method: &'static str,
    route: &'a str,
    code: u16,
    catalog: &'a str,
    encoding: &'a str,
}

/// What is counted of one kind of answers.
struct Meters {
    requests: Counter,
    seconds: Histogram,
    sent: Counter,
}

impl Meters {
    /// Looks them up, which costs less than having them found by all their
    /// labels for each answer.
    fn of(labels: &Labels<'_>) -> Arc<Self> {
        static KNOWN: LazyLock<RwLock<HashMap<String, Arc<Meters>>>> =
            LazyLock::new(RwLock::default);
        let Labels {
            method,
            route,
            code,
            catalog,
            encoding,
        } = labels;
        let key = format!("{method} {route} {code} {catalog} {encoding}");
        let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(meters) = known.get(&key) {
            return Arc::clone(meters);
        }
        drop(known);
        let labels = [
            ("method", (*method).to_owned()),
            ("route", (*route).to_owned()),
            ("code", code.to_string()),
            ("catalog", (*catalog).to_owned()),
            ("encoding", (*encoding).to_owned()),
        ];
        let meters = Arc::new(Self {
            requests: counter!("almanac_http_requests_total", &labels),
            seconds: histogram!("almanac_http_request_seconds", &labels[1..]),
            sent: counter!("almanac_http_sent_bytes_total", &labels[1..]),
        });
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(key, Arc::clone(&meters));
        meters
    }
}
