//! What is counted and logged of each call. Each is a span of the log, which
//! ends with a line when the answer was sent.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};
use std::time::Instant;

use axum::response::Response;
use metrics::{Counter, Histogram, counter, histogram};
use tonic::{Code, Status};
use tracing::Span;
use tracing::field::Empty;

use crate::serve::grpc::pins::Open;
use crate::serve::grpc::services::Asked;
use crate::serve::grpc::wire;
use crate::serve::net::in_flight::Answer;
use crate::serve::net::listen::Peer;
use crate::snapshot::Catalog;

/// A call, from its arrival on.
pub(super) struct Call {
    service: &'static str,
    method: &'static str,
    /// What is logged meanwhile stands in it.
    pub(super) span: Span,
    /// The catalog that it means, once that is known.
    pub(super) catalog: Option<Arc<Catalog>>,
    /// What tells that it is open, when that counts.
    pub(super) open: Option<Open>,
    began: Instant,
    answer: Arc<Answer>,
}

impl Call {
    /// A call that arrives now, with what it asks for by this path.
    pub(super) fn begin(asked: &Asked, path: &str, peer: Peer, answer: &Arc<Answer>) -> Self {
        let (service, method) = (asked.service_label(), asked.method_label());
        let span = tracing::debug_span!(
            target: "almanac::access",
            "call",
            service,
            // As the client has it, also when there is no such method.
            method = wire::shortened(path.rsplit('/').next().unwrap_or_default()),
            catalog = Empty,
            code = Empty,
            peer = %peer.address,
            bytes = Empty,
        );
        Self {
            service,
            method,
            span,
            catalog: None,
            open: None,
            began: Instant::now(),
            answer: Arc::clone(answer),
        }
    }

    /// Counts the call when it is known how it is answered, and its bytes when
    /// they are sent.
    pub(super) fn observe(self, answered: &Result<Response, Status>) {
        let code = answered.as_ref().err().map_or(Code::Ok, Status::code);
        let catalog = self.catalog.as_ref().map_or("", |one| one.name.as_str());
        self.span.record("catalog", catalog);
        self.span.record("code", tracing::field::debug(code));
        let meters = meters(self.service, self.method, catalog, code);
        meters.requests.increment(1);
        meters.seconds.record(self.began.elapsed().as_secs_f64());
        let (span, open) = (self.span, self.open);
        self.answer.report(move |sent| {
            drop(open);
            meters.bytes.increment(sent.bytes);
            span.record("bytes", sent.bytes);
            tracing::debug!(
                target: "almanac::access",
                parent: &span,
                elapsed = ?sent.elapsed,
                "answered"
            );
        });
    }
}

/// What is counted of the calls of a method that are answered alike.
struct Meters {
    requests: Counter,
    seconds: Histogram,
    bytes: Counter,
}

/// Catalog, then service, method and code. As many as there are in the metrics.
type Known = HashMap<String, HashMap<(&'static str, &'static str, Code), Arc<Meters>>>;

/// Finding them by their labels took as long as the rest of a small call.
static METERS: LazyLock<RwLock<Known>> = LazyLock::new(RwLock::default);

/// What counts this call.
fn meters(service: &'static str, method: &'static str, catalog: &str, code: Code) -> Arc<Meters> {
    let key = (service, method, code);
    let all = METERS.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(meters) = all.get(catalog).and_then(|meters| meters.get(&key)) {
        return Arc::clone(meters);
    }
    drop(all);
    let labels = [
        ("service", service.to_owned()),
        ("method", method.to_owned()),
        ("catalog", catalog.to_owned()),
        ("code", format!("{code:?}")),
    ];
    let meters = Arc::new(Meters {
        requests: counter!("almanac_grpc_requests_total", &labels),
        seconds: histogram!("almanac_grpc_request_seconds", &labels[1..]),
        bytes: counter!("almanac_grpc_sent_bytes_total", &labels[1..]),
    });
    let mut all = METERS.write().unwrap_or_else(PoisonError::into_inner);
    let of_catalog = all.entry(catalog.to_owned()).or_default();
    Arc::clone(of_catalog.entry(key).or_insert(meters))
}
