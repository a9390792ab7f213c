//! Connections of the gRPC ports. One sees one generation of each catalog: the
//! snapshot of its first call. When that is replaced, the connection gets
//! GOAWAY and finishes its streams, and the client comes back on a new one.
//!
//! A client makes its further calls over the new connection as soon as it has
//! GOAWAY, also those that go with a stream that is open on the old one: so a
//! connection on which something moves is let finish first, and so is a client
//! that asks for the packages it was listed, one by one. Calls that cross with
//! GOAWAY count as never seen, and come again over the new connection.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use metrics::counter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;

use crate::name::CatalogName;
use crate::serve::grpc::call::Calls;
use crate::serve::grpc::pins::Pins;
use crate::serve::grpc::{Service, wire};
use crate::serve::net::connection::{LAST, Refusal, builder, drive, front};
use crate::serve::net::listen::{Opened, ended};
use crate::serve::net::stream::Protocol;
use crate::serve::{Listener, Renewal};

/// The fewest streams that clients are promised: packageserver asks for all
/// packages at once.
const MIN_STREAMS: usize = 1000;
/// How much of requests may come before it was read, in bytes a stream and a
/// connection. They are small.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// How often it is looked whether the answers that are open have been sent.
const STEP: Duration = Duration::from_millis(20);
/// Whoever asks whether we are well is answered whatever else is going on.
const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
/// What a client is told that speaks HTTP/1.1.
const GRPC_ONLY: &[u8] = b"HTTP/1.1 505 HTTP Version Not Supported\r\n\
    Content-Type: text/plain; charset=utf-8\r\nContent-Length: 66\r\nConnection: close\r\n\r\n\
    this port speaks gRPC: HTTP/2 from the first byte, not HTTP/1.1 \r\n";

impl Service {
    /// Serves a gRPC port until it is stopped. Open connections then finish
    /// their streams; `connections` tells when.
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

    async fn connection(self, opened: Opened, own: Option<CatalogName>, stop: CancellationToken) {
        if opened.protocol != Protocol::Http2 {
            ended(opened.service, "protocol");
            tracing::debug!(peer = %opened.peer.address, "a client speaks HTTP/1.1 to a gRPC port");
            opened.stream.dismiss(GRPC_ONLY).await;
            return;
        }
        let mut builder = builder(&opened, &self.limits);
        // Clients wait for a stream beyond these. They are more than the calls
        // that are let in, so that too many are told so instead.
        let streams = self.limits.calls_per_connection.saturating_mul(2);
        let streams = u32::try_from(streams.max(MIN_STREAMS)).unwrap_or(u32::MAX);
        builder
            .http2()
            .max_concurrent_streams(streams)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        let catalogs = self.registry.catalogs.clone();
        let pins = Arc::new(Pins::default());
        let gate = Gate {
            calls: Arc::clone(&self.calls),
            asides: Arc::clone(&self.asides),
            most: self.limits.calls_per_connection,
            beyond: opened.beyond,
        };
        let calls = Calls {
            registry: self.registry,
            pins: Arc::clone(&pins),
            own,
            health: self.health,
            reflection: self.reflection,
        };
        let service = front(calls, &opened, {
            let pins = Arc::clone(&pins);
            move |request, open| {
                if pins.left() && request.uri().path() != HEALTH_CHECK {
                    return Err(Refusal::Unseen);
                }
                gate.admit(request, open)
            }
        });
        let renew = {
            let (catalogs, peer) = (catalogs, opened.peer.address);
            let activity = Arc::clone(&opened.activity);
            let renewal = self.limits.renewal;
            async move {
                let mut publications = catalogs.publications();
                while publications.changed().await.is_ok() {
                    if pins.outdated(&catalogs) {
                        let quiet = async {
                            while !pins.leave(|| activity.is_quiet(quiet(&pins, &renewal))) {
                                activity.quiet(renewal.quiet).await;
                                tokio::time::sleep(STEP).await;
                            }
                        };
                        if tokio::time::timeout(renewal.latest, quiet).await.is_err() {
                            pins.leave_anyway();
                        }
                        counter!("almanac_grpc_goaways_total").increment(1);
                        tracing::debug!(%peer, "new content: asking the client to connect again");
                        return LAST;
                    }
                }
                // Nothing is published any more: almanac ends.
                pending().await
            }
        };
        drive(opened, &builder, service, &stop, renew).await;
    }
}

/// How long nothing has to move on a connection before it is asked to go.
fn quiet(pins: &Pins, renewal: &Renewal) -> Duration {
    if pins.half_asked() {
        renewal.half_asked
    } else {
        renewal.quiet
    }
}

/// Lets so many calls in.
struct Gate {
    /// Places for the calls of all connections.
    calls: Arc<Semaphore>,
    /// Places for streams of health and reflection.
    asides: Arc<Semaphore>,
    /// The most on one.
    most: usize,
    /// The most connections that there may be, when this is one more.
    beyond: Option<usize>,
}

impl Gate {
    fn admit(
        &self,
        request: &Request<Incoming>,
        open: usize,
    ) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
        if request.uri().path() == HEALTH_CHECK && open < MIN_STREAMS {
            return Ok(None);
        }
        let refused = |limit: &'static str, text: String| {
            counter!("almanac_grpc_calls_refused_total", "limit" => limit).increment(1);
            let refused = wire::refuse(&Status::resource_exhausted(text));
            Err(Refusal::Answer(Box::new(refused)))
        };
        if let Some(most) = self.beyond {
            let text = format!(
                "{most} connections are open on this port, as many as it lets in; try again later"
            );
            return refused("connections", text);
        }
        if open >= self.most {
            let text = format!("more than {} calls are open on this connection", self.most);
            return refused("connection", text);
        }
        // These are open for as long as their clients like.
        if request.uri().path().starts_with("/grpc.") {
            let text = "too many watches and reflection streams are open, try again later";
            let place = Arc::clone(&self.asides).try_acquire_owned();
            return place.map_or_else(|_| refused("streams", text.into()), |it| Ok(Some(it)));
        }
        match Arc::clone(&self.calls).try_acquire_owned() {
            Ok(permit) => Ok(Some(permit)),
            Err(_) => refused("all", "too many calls are open, try again later".to_owned()),
        }
    }
}
