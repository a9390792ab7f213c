//! What is counted and logged of each call. Each is a span of the log, which
//! ends with a line when the answer was sent.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::Request;
use axum::response::Response;
use metrics::{counter, histogram};
use tonic::{Code, Status};
use tracing::Span;
use tracing::field::Empty;

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
    answer: Option<Arc<Answer>>,
}

impl Call {
    /// A call that arrives now.
    pub(super) fn begin(
        service: &'static str,
        method: String,
        request: &Request,
        open: Open,
    ) -> Self {
        let peer = request.extensions().get().map(|peer: &Peer| peer.address);
        let span = tracing::debug_span!(
            target: "almanac::access",
            "call",
            service,
            method = wire::shortened(&method),
            catalog = Empty,
            code = Empty,
            peer = peer.map(tracing::field::display),
            bytes = Empty,
        );
        Self {
            service,
            method,
            span,
            began: Instant::now(),
            open,
            answer: request.extensions().get().cloned(),
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
        // A client may make up methods; metrics may not grow with them.
        let method = if code == Code::Unimplemented {
            "unknown".to_owned()
        } else {
            self.method
        };
        let catalog = catalog.map_or("", CatalogName::as_str).to_owned();
        self.span.record("catalog", &*catalog);
        self.span.record("code", tracing::field::debug(code));
        let labels = [
            ("service", self.service.to_owned()),
            ("method", method),
            ("catalog", catalog),
            ("code", format!("{code:?}")),
        ];
        counter!("almanac_grpc_requests_total", &labels).increment(1);
        histogram!("almanac_grpc_request_seconds", &labels[1..])
            .record(self.began.elapsed().as_secs_f64());
        let Some(answer) = self.answer else { return };
        let (span, open) = (self.span, self.open);
        answer.report(move |sent| {
            drop(open);
            counter!("almanac_grpc_sent_bytes_total", &labels[1..]).increment(sent.bytes);
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
