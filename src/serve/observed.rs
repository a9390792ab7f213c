//! The metrics and the log line of a request to the HTTP port.

use std::sync::Arc;

use axum::response::Response;
use http::Method;
use http::header::CONTENT_ENCODING;
use tokio::time::Instant;

use crate::serve::net::in_flight::InFlight;
use crate::serve::net::listen::Peer;
use crate::serve::request_metrics::{Api, RequestMetrics};

/// How much of a path is logged, in characters.
const MAX_PATH: usize = 256;

/// A request whose response is ready to send.
pub(crate) struct Observed<'a> {
    pub(crate) began: Instant,
    pub(crate) method: &'a Method,
    pub(crate) route: &'a str,
    /// The name of an existing catalog, or empty; `None` if routes name none.
    pub(crate) catalog: Option<&'a str>,
    pub(crate) path: &'a str,
}

impl Observed<'_> {
    /// Counts it, and logs it once the response is sent.
    pub(crate) fn responded(
        &self,
        response: &Response,
        in_flight: Option<&Arc<InFlight>>,
        peer: Option<Peer>,
    ) {
        // Clients can make up methods.
        let method = match *self.method {
            Method::GET => "GET",
            Method::HEAD => "HEAD",
            Method::POST => "POST",
            Method::OPTIONS => "OPTIONS",
            _ => "other",
        };
        let status = response.status();
        let encoding = response.headers().get(CONTENT_ENCODING);
        let encoding = encoding.and_then(|encoding| encoding.to_str().ok());
        let labels = [
            ("method", method),
            ("route", self.route),
            ("code", status.as_str()),
            ("catalog", self.catalog.unwrap_or_default()),
            ("encoding", encoding.unwrap_or("identity")),
        ];
        let metrics = RequestMetrics::of(Api::Http, &labels);
        metrics.count(self.began.elapsed().as_secs_f64());
        let Some(in_flight) = in_flight else { return };
        // The log line costs more than the counters, and is off by default.
        if !tracing::enabled!(target: "almanac::access", tracing::Level::DEBUG) {
            in_flight.count_bytes(metrics);
            return;
        }
        let path: String = self.path.chars().take(MAX_PATH).collect();
        let catalog = self.catalog.map(str::to_owned);
        in_flight.report(move |sent| {
            metrics.count_sent(sent.bytes);
            tracing::debug!(
                target: "almanac::access",
                method,
                path,
                catalog,
                code = status.as_u16(),
                peer = peer.map(|peer| tracing::field::display(peer.address)),
                bytes = sent.bytes,
                elapsed = ?sent.elapsed,
                "request"
            );
        });
    }
}
