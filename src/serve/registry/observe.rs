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

use super::call::METHODS;
use super::pins::Open;
use super::wire;
use crate::name::CatalogName;
use crate::serve::answer::Answer;
use crate::serve::listen::Peer;

/// A call, from its arrival on.
pub(super) struct Call {
    pub(super) service: &'static str,
    pub(super) method: String,
    /// What is logged meanwhile stands in it.
    pub(super) span: Span,
    began: Instant,
    open: Open,
    answer: Arc<Answer>,
}

impl Call {
    /// A call that arrives now.
    pub(super) fn begin(
        service: &'static str,
        method: String,
        peer: Peer,
        answer: &Arc<Answer>,
        open: Open,
    ) -> Self {
        let span = tracing::debug_span!(
            target: "almanac::access",
            "call",
            service,
            method = wire::shortened(&method),
            catalog = Empty,
            code = Empty,
            peer = %peer.address,
            bytes = Empty,
        );
        Self {
            service,
            method,
            span,
            began: Instant::now(),
            open,
            answer: Arc::clone(answer),
        }
    }

    /// Counts the call when it is known how it is answered, and its bytes when
    /// they are sent.
    pub(super) fn observe(
        self,
        catalog: Option<&CatalogName>,
        answered: &Result<Response, Status>,
    ) {
        let code = answered.as_ref().err().map_or(Code::Ok, Status::code);
        let catalog = catalog.map_or("", CatalogName::as_str);
        self.span.record("catalog", catalog);
        self.span.record("code", tracing::field::debug(code));
        let meters = meters(self.service, &self.method, catalog, code);
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
fn meters(service: &'static str, method: &str, catalog: &str, code: Code) -> Arc<Meters> {
    // A client may make up methods; metrics may not grow with them.
    let known = METHODS.iter().find(|known| **known == method);
    let method = match known {
        Some(known) if code != Code::Unimplemented => known,
        _ => "unknown",
    };
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
