//! Metrics and log lines of calls. Each call is a span, which ends with a line when
//! the response was sent.

use std::borrow::Cow;
use std::sync::Arc;

use axum::response::Response;
use tonic::{Code, Status};
use tracing::Span;
use tracing::field::Empty;

use crate::serve::grpc::methods::CalledMethod;
use crate::serve::grpc::wire;
use crate::serve::net::in_flight::InFlight;
use crate::serve::net::listen::Peer;
use crate::serve::request_metrics::{Api, RequestMetrics};
use crate::snapshot::Catalog;

/// A call, from its arrival.
pub(super) struct Call {
    service: &'static str,
    method: &'static str,
    /// The span of its log lines.
    pub(super) span: Span,
    /// The catalog, once it is known.
    pub(super) catalog: Option<Arc<Catalog>>,
    in_flight: Arc<InFlight>,
}

impl Call {
    /// A call that arrives now, with the method of this path.
    pub(super) fn begin(
        called: &CalledMethod,
        path: &str,
        peer: Peer,
        in_flight: &Arc<InFlight>,
    ) -> Self {
        let (service, method) = (called.service, called.method_label());
        let span = tracing::debug_span!(
            target: "almanac::access",
            "call",
            service,
            // As the client sent it, even if there is no such method.
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
            in_flight: Arc::clone(in_flight),
        }
    }

    /// Counts the call when its response is ready, and its bytes once they are
    /// sent.
    pub(super) fn observe(self, answered: &Result<Response, Status>) {
        let code = answered.as_ref().err().map_or(Code::Ok, Status::code);
        let catalog = self.catalog.as_ref().map_or("", |one| one.name.as_str());
        self.span.record("catalog", catalog);
        self.span.record("code", tracing::field::debug(code));
        // Most calls succeed: their label needs no allocation.
        let label = match code {
            Code::Ok => Cow::Borrowed("Ok"),
            other => Cow::Owned(format!("{other:?}")),
        };
        let labels = [
            ("service", self.service),
            ("method", self.method),
            ("catalog", catalog),
            ("code", &*label),
        ];
        let metrics = RequestMetrics::of(Api::Grpc, &labels);
        metrics.count(self.in_flight.began().elapsed().as_secs_f64());
        let span = self.span;
        // The log line costs more than the counters, and is off by default.
        if span.is_disabled() {
            self.in_flight.count_bytes(metrics);
            return;
        }
        self.in_flight.report(move |sent| {
            metrics.count_sent(sent.bytes);
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
