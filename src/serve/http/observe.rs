//! What is counted and logged of each request, and how long it may take to be
//! answered.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::CONTENT_ENCODING;
use http::{Method, StatusCode};
use metrics::{Counter, Histogram, counter, histogram};
use tokio::time::Instant;

use crate::serve::Peer;
use crate::serve::access::Place;
use crate::serve::http::refusal::Refusal;
use crate::serve::net::in_flight::Answer;
use crate::snapshot::Catalogs;

/// How long it may take until an answer begins, the reading of a request's
/// body included.
const TIMEOUT: Duration = Duration::from_mins(1);
/// What is said when it took longer.
const LONG: Refusal = Refusal::Text(
    StatusCode::SERVICE_UNAVAILABLE,
    "the answer took too long, try again later",
);
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
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let response = tokio::time::timeout(TIMEOUT, next.run(request)).await;
    let response = response.unwrap_or_else(|_| LONG.into_response());
    let seen = Seen {
        began,
        method: &method,
        route: &route,
        catalog: catalog.as_ref().map_or("", |catalog| catalog.name.as_str()),
        path: &path,
    };
    seen.answered(&response, answer.as_ref(), peer);
    response
}

/// What is known of a request once it is answered.
pub(super) struct Seen<'a> {
    pub(super) began: Instant,
    pub(super) method: &'a Method,
    pub(super) route: &'a str,
    /// The name of one that there is, or empty.
    pub(super) catalog: &'a str,
    pub(super) path: &'a str,
}

impl Seen<'_> {
    /// Counts it, and logs it when the answer was sent.
    pub(super) fn answered(
        &self,
        response: &Response,
        answer: Option<&Arc<Answer>>,
        peer: Option<Peer>,
    ) {
        let method = match *self.method {
            Method::GET => "GET",
            Method::HEAD => "HEAD",
            Method::POST => "POST",
            Method::OPTIONS => "OPTIONS",
            _ => "other",
        };
        let code = response.status().as_u16();
        let encoding = response.headers().get(CONTENT_ENCODING);
        let encoding = encoding.and_then(|encoding| encoding.to_str().ok());
        let meters = Meters::of(&Labels {
            method,
            route: self.route,
            code,
            catalog: self.catalog,
            encoding: encoding.unwrap_or("identity"),
        });
        meters.requests.increment(1);
        meters.seconds.record(self.began.elapsed().as_secs_f64());
        let Some(answer) = answer else { return };
        // Nobody reads the log of each request, unless they said so.
        if !tracing::enabled!(target: "almanac::access", tracing::Level::DEBUG) {
            answer.count_bytes(&meters.sent);
            return;
        }
        let path: String = self.path.chars().take(MAX_PATH).collect();
        answer.report(move |sent| {
            meters.sent.increment(sent.bytes);
            tracing::debug!(
                target: "almanac::access",
                method,
                path,
                catalog = meters.catalog,
                code,
                peer = peer.map(|peer| tracing::field::display(peer.address)),
                bytes = sent.bytes,
                elapsed = ?sent.elapsed,
                "request"
            );
        });
    }
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
    method: &'static str,
    route: String,
    code: u16,
    catalog: String,
    encoding: String,
    requests: Counter,
    seconds: Histogram,
    sent: Counter,
}

/// Those of each catalog: few enough to look at one after the other.
type Known = HashMap<String, Vec<&'static Meters>>;

/// Finding them by their labels took as long as the rest of a small answer.
static KNOWN: LazyLock<RwLock<Known>> = LazyLock::new(RwLock::default);

impl Meters {
    /// Those that count this kind of answers.
    fn of(labels: &Labels<'_>) -> &'static Self {
        thread_local! {
            /// One kind follows itself more often than not, and the table of
            /// all is what all threads would wait for.
            static LAST: Cell<Option<&'static Meters>> = const { Cell::new(None) };
        }
        let last = LAST.get().filter(|last| last.count(labels));
        let meters = last.unwrap_or_else(|| Self::known(labels));
        LAST.set(Some(meters));
        meters
    }

    fn known(labels: &Labels<'_>) -> &'static Self {
        let all = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
        let mut of_catalog = all.get(labels.catalog).into_iter().flatten();
        if let Some(meters) = of_catalog.find(|meters| meters.count(labels)) {
            return meters;
        }
        drop(all);
        // Kept for ever, as the metrics are.
        let meters: &Self = Box::leak(Box::new(Self::new(labels)));
        let mut all = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        let of_catalog = all.entry(labels.catalog.to_owned()).or_default();
        // Another request may have come first; both then count the same.
        of_catalog.push(meters);
        meters
    }

    fn new(labels: &Labels<'_>) -> Self {
        let Labels {
            method,
            route,
            code,
            catalog,
            encoding,
        } = *labels;
        let labels = [
            ("method", method.to_owned()),
            ("route", route.to_owned()),
            ("code", code.to_string()),
            ("catalog", catalog.to_owned()),
            ("encoding", encoding.to_owned()),
        ];
        Self {
            method,
            route: route.to_owned(),
            code,
            catalog: catalog.to_owned(),
            encoding: encoding.to_owned(),
            requests: counter!("almanac_http_requests_total", &labels),
            seconds: histogram!("almanac_http_request_seconds", &labels[1..]),
            sent: counter!("almanac_http_sent_bytes_total", &labels[1..]),
        }
    }

    /// Whether they count this kind of answers.
    fn count(&self, labels: &Labels<'_>) -> bool {
        self.code == labels.code
            && self.catalog == labels.catalog
            && self.method == labels.method
            && self.route == labels.route
            && self.encoding == labels.encoding
    }
}
