//! Connections of the gRPC ports. A connection sees one revision of each catalog:
//! the snapshot of its first call. When a new one is published, the connection
//! gets GOAWAY and finishes its streams, and the client reconnects.
//!
//! After GOAWAY, a client makes further calls over the new connection, even those
//! that belong to an open stream. So GOAWAY is only sent once the connection is
//! quiet, and not while the client requests the packages of a list one by one.
//! Calls that cross with GOAWAY count as never processed: the client repeats them
//! on the new connection.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use metrics::{counter, describe_counter, describe_gauge};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;

use crate::name::CatalogName;
use crate::serve::grpc::call::Calls;
use crate::serve::grpc::health::Health;
use crate::serve::grpc::pins::Pins;
use crate::serve::grpc::reflection::Reflection;
use crate::serve::grpc::wire;
use crate::serve::net::connection::{LAST, NotAdmitted, builder, drive, follow};
use crate::serve::net::limits::{Limits, Renewal};
use crate::serve::net::listen::{Listener, Opened};
use crate::serve::net::metrics::count_ended;
use crate::serve::net::stream::Protocol;
use crate::snapshot::Catalogs;

/// The minimum of `SETTINGS_MAX_CONCURRENT_STREAMS`: packageserver requests all
/// packages at once.
const MIN_STREAMS: usize = 1000;
/// The flow-control windows for requests, in bytes. Requests are small.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// The interval between checks whether open responses have been sent.
const STEP: Duration = Duration::from_millis(20);
/// Health checks are admitted beyond all limits.
const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
/// The response to a client that speaks HTTP/1.1.
const GRPC_ONLY: &[u8] = b"HTTP/1.1 505 HTTP Version Not Supported\r\n\
    Content-Type: text/plain; charset=utf-8\r\nContent-Length: 66\r\nConnection: close\r\n\r\n\
    this port speaks gRPC: HTTP/2 from the first byte, not HTTP/1.1 \r\n";

/// How many health and reflection streams may be open, on all ports. Their
/// clients keep them open for as long as they like.
const MAX_SERVICE_STREAMS: usize = 1000;

/// The service of all gRPC ports. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    catalogs: Catalogs,
    health: Health,
    reflection: Reflection,
    limits: Limits,
    /// Permits for calls, of all ports together.
    calls: Arc<Semaphore>,
    /// Permits for streams of health and reflection, of all ports together.
    streams: Arc<Semaphore>,
}

impl Service {
    /// A service for all catalogs. `draining` turns true when almanac stops.
    ///
    /// # Errors
    /// When the descriptors do not decode: a defect of the build.
    pub fn new(
        catalogs: Catalogs,
        limits: Limits,
        draining: watch::Receiver<bool>,
    ) -> Result<Self, tonic_reflection::server::Error> {
        Ok(Self {
            health: Health::new(catalogs.clone(), draining),
            reflection: Reflection::new()?,
            catalogs,
            calls: Arc::new(Semaphore::new(limits.calls.min(Semaphore::MAX_PERMITS))),
            streams: Arc::new(Semaphore::new(MAX_SERVICE_STREAMS)),
            limits,
        })
    }

    /// Serves a port until `stop`. Open connections then finish their streams;
    /// `connections` tracks them.
    pub async fn serve(
        self,
        listener: Listener,
        stop: CancellationToken,
        connections: TaskTracker,
    ) {
        let own = listener.catalog().cloned();
        let limits = self.limits.clone();
        let ending = stop.clone();
        listener
            .accept(&limits, stop, connections, move |opened| {
                self.clone().connection(opened, own.clone(), ending.clone())
            })
            .await;
    }

    /// Serves a connection to its end. `own` is the catalog of a port of its own.
    async fn connection(self, opened: Opened, own: Option<CatalogName>, stop: CancellationToken) {
        if opened.protocol != Protocol::Http2 {
            count_ended(opened.service, "protocol");
            tracing::debug!(peer = %opened.peer.address, "a client speaks HTTP/1.1 to a gRPC port");
            opened.stream.dismiss(GRPC_ONLY).await;
            return;
        }
        let mut builder = builder(&opened, &self.limits);
        // Clients queue beyond these. There are more streams than admitted calls, so
        // that clients get an error instead.
        let streams = self.limits.calls_per_connection.saturating_mul(2);
        let streams = u32::try_from(streams.max(MIN_STREAMS)).unwrap_or(u32::MAX);
        builder
            .http2()
            .max_concurrent_streams(streams)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        let catalogs = self.catalogs.clone();
        let pins = Arc::new(Pins::default());
        let limit = CallLimit {
            calls: Arc::clone(&self.calls),
            service_streams: Arc::clone(&self.streams),
            most: self.limits.calls_per_connection,
            beyond: opened.beyond,
        };
        let calls = Calls {
            catalogs: self.catalogs,
            pins: Arc::clone(&pins),
            own,
            health: self.health,
            reflection: self.reflection,
        };
        let service = follow(calls, &opened, {
            let pins = Arc::clone(&pins);
            move |request, open| {
                if pins.left() && request.uri().path() != HEALTH_CHECK {
                    return Err(NotAdmitted::Unseen);
                }
                limit.admit(request, open)
            }
        });
        let renew = {
            let (catalogs, peer) = (catalogs, opened.peer.address);
            let state = Arc::clone(&opened.state);
            let renewal = self.limits.renewal;
            async move {
                let mut publications = catalogs.publications();
                while publications.changed().await.is_ok() {
                    if pins.outdated(&catalogs) {
                        let quiet = async {
                            while !pins.leave(|| state.is_quiet(quiet(&pins, &renewal))) {
                                state.wait_until_quiet(renewal.quiet).await;
                                tokio::time::sleep(STEP).await;
                            }
                        };
                        if tokio::time::timeout(renewal.latest, quiet).await.is_err() {
                            pins.leave_anyway();
                        }
                        counter!("almanac_grpc_goaways_total").increment(1);
                        tracing::debug!(%peer, "new content: asking the client to reconnect");
                        return LAST;
                    }
                }
                // The publisher is gone: almanac stops.
                pending().await
            }
        };
        drive(opened, &builder, service, &stop, renew).await;
    }
}

/// How long a connection has to be quiet before it is asked to close.
fn quiet(pins: &Pins, renewal: &Renewal) -> Duration {
    if pins.half_asked() {
        renewal.half_asked
    } else {
        renewal.quiet
    }
}

/// The limits of calls on a connection.
struct CallLimit {
    /// Permits for the calls of all connections.
    calls: Arc<Semaphore>,
    /// Permits for streams of health and reflection.
    service_streams: Arc<Semaphore>,
    /// Maximum calls on this connection.
    most: usize,
    /// The connection limit, if this connection is beyond it.
    beyond: Option<usize>,
}

impl CallLimit {
    fn admit(
        &self,
        request: &Request<Incoming>,
        open: usize,
    ) -> Result<Option<OwnedSemaphorePermit>, NotAdmitted> {
        if request.uri().path() == HEALTH_CHECK && open < MIN_STREAMS {
            return Ok(None);
        }
        let rejected = |limit: &'static str, text: String| {
            counter!("almanac_grpc_calls_refused_total", "limit" => limit).increment(1);
            let response = wire::error(&Status::resource_exhausted(text));
            Err(NotAdmitted::Respond(Box::new(response)))
        };
        if let Some(most) = self.beyond {
            let text = format!(
                "{most} connections are open on this port, as many as it lets in; try again later"
            );
            return rejected("connections", text);
        }
        if open >= self.most {
            let text = format!("more than {} calls are open on this connection", self.most);
            return rejected("connection", text);
        }
        // Their clients keep them open for as long as they like.
        if request.uri().path().starts_with("/grpc.") {
            let text = "too many watches and reflection streams are open, try again later";
            let permit = Arc::clone(&self.service_streams).try_acquire_owned();
            return permit.map_or_else(|_| rejected("streams", text.into()), |it| Ok(Some(it)));
        }
        match Arc::clone(&self.calls).try_acquire_owned() {
            Ok(permit) => Ok(Some(permit)),
            Err(_) => rejected("all", "too many calls are open, try again later".to_owned()),
        }
    }
}

/// Describes the metrics of gRPC connections.
pub(crate) fn describe_metrics() {
    describe_counter!(
        "almanac_grpc_calls_refused_total",
        "Calls that were rejected by a limit, by limit"
    );
    describe_gauge!(
        "almanac_grpc_pinned_connections",
        "Connections that see a catalog, by catalog and generation (current or old)"
    );
    describe_counter!(
        "almanac_grpc_goaways_total",
        "Connections that were asked to reconnect because of new content"
    );
}
