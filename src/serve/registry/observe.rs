//! What is counted and logged of each call.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::Request;
use axum::response::Response;
use metrics::{counter, histogram};
use tonic::{Code, Status};

use crate::name::CatalogName;
use crate::serve::answer::Answer;
use crate::serve::listen::Peer;

/// A call, from its arrival on.
pub(super) struct Call {
    pub(super) service: &'static str,
    pub(super) method: String,
    began: Instant,
    peer: Option<Peer>,
    answer: Option<Arc<Answer>>,
}

impl Call {
    /// A call that arrives now.
    pub(super) fn begin(service: &'static str, method: String, request: &Request) -> Self {
        Self {
            service,
            method,
            began: Instant::now(),
            peer: request.extensions().get().copied(),
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
        let labels = [
            ("service", self.service.to_owned()),
            ("method", method.clone()),
            ("catalog", catalog.clone()),
            ("code", format!("{code:?}")),
        ];
        counter!("almanac_grpc_requests_total", &labels).increment(1);
        histogram!("almanac_grpc_request_seconds", &labels[1..])
            .record(self.began.elapsed().as_secs_f64());
        let Some(answer) = self.answer else { return };
        let (service, peer) = (self.service, self.peer);
        answer.report(move |sent| {
            counter!("almanac_grpc_sent_bytes_total", &labels[1..]).increment(sent.bytes);
            tracing::debug!(
                target: "almanac::access",
                service,
                method,
                catalog,
                ?code,
                peer = peer.map(|peer| tracing::field::display(peer.address)),
                bytes = sent.bytes,
                elapsed = ?sent.elapsed,
                "call"
            );
        });
    }
}
