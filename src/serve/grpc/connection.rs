//! Connections of the gRPC ports. A connection sees one revision of each catalog:
//! the snapshot of its first call. When a new one is published, the connection
//! gets GOAWAY and finishes its streams, and the client reconnects.
//!
//! After GOAWAY, a client makes further calls over the new connection, even those
//! that belong to an open stream. So GOAWAY is only sent once the connection is
//! quiet, and not while the client requests the packages of a list one by one.
//! Calls that cross with GOAWAY see the new revision, as the next connection does
//! (`handover`).

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use metrics::counter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;

use crate::name::CatalogName;
use crate::serve::access::Access;
use crate::serve::grpc::call::Calls;
use crate::serve::grpc::handover::Handovers;
use crate::serve::grpc::health::Health;
use crate::serve::grpc::reflection::Reflection;
use crate::serve::grpc::session::Session;
use crate::serve::grpc::unknown_names::UnknownNames;
use crate::serve::grpc::wire;
use crate::serve::metrics::count_ended;
use crate::serve::net::connection::{LAST, builder, drive, follow};
use crate::serve::net::in_flight::Permits;
use crate::serve::net::limits::{Limits, Renewal};
use crate::serve::net::listen::{Listener, Opened};
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
/// The paths of the services besides those of catalogs.
const SERVICE_STREAMS: &str = "/grpc.";
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
    access: Access,
    unknown_names: UnknownNames,
    health: Health,
    reflection: Reflection,
    limits: Limits,
    /// Permits for calls, of all ports together.
    calls: Arc<Semaphore>,
    /// Permits for streams of health and reflection, of all ports together.
    streams: Arc<Semaphore>,
    handovers: Arc<Handovers>,
}

impl Service {
    /// A service for all catalogs. `access` decides which names are listed. `draining`
    /// turns true when almanac stops.
    ///
    /// # Errors
    /// When the descriptors do not decode: a defect of the build.
    pub fn new(
        catalogs: Catalogs,
        access: Access,
        limits: Limits,
        draining: watch::Receiver<bool>,
    ) -> Result<Self, tonic_reflection::server::Error> {
        Ok(Self {
            health: Health::new(catalogs.clone(), draining),
            reflection: Reflection::new()?,
            catalogs,
            access,
            unknown_names: UnknownNames::default(),
            calls: Arc::new(Semaphore::new(limits.calls.min(Semaphore::MAX_PERMITS))),
            streams: Arc::new(Semaphore::new(MAX_SERVICE_STREAMS)),
            handovers: Handovers::new(&limits.renewal),
            limits,
        })
    }

    /// The names that no catalog answers to.
    pub fn unknown_names(&self) -> UnknownNames {
        self.unknown_names.clone()
    }

    /// Serves a port until `stop`. Open connections then finish their streams;
    /// `connections` tracks them.
    pub async fn serve(
        self,
        listener: Listener,
        stop: CancellationToken,
        connections: TaskTracker,
    ) {
        let own = listener.catalog.clone();
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
        let session = Session::new(Arc::clone(&self.handovers));
        let calls = Arc::new(Calls {
            catalogs: self.catalogs.clone(),
            access: self.access.clone(),
            unknown_names: self.unknown_names.clone(),
            session: Arc::clone(&session),
            own,
            health: self.health.clone(),
            reflection: self.reflection.clone(),
        });
        let beyond = opened.beyond;
        let service = follow(calls, &opened, {
            let (service, session) = (self.clone(), Arc::clone(&session));
            move |request, open| {
                let path = request.uri().path();
                if path == HEALTH_CHECK && open < MIN_STREAMS {
                    return Ok(Permits::default());
                }
                let permit = service.admit(path, open, beyond)?;
                // The connection closes without waiting for other streams: their
                // clients keep them open for as long as they like.
                let call = !path.starts_with(SERVICE_STREAMS);
                Ok([call.then(|| session.begin_call()).flatten(), Some(permit)])
            }
        });
        let renew = {
            let peer = opened.peer.address;
            let state = Arc::clone(&opened.state);
            async move {
                let mut publications = self.catalogs.publications();
                let Renewal {
                    earliest,
                    quiet,
                    half_asked,
                    latest,
                } = self.limits.renewal;
                let is_quiet =
                    |continues| state.is_quiet(if continues { half_asked } else { quiet });
                loop {
                    tokio::select! {
                        // The publisher is gone when almanac stops.
                        Ok(()) = publications.changed() => {}
                        () = session.held() => {}
                    }
                    if !session.outdated(&self.catalogs) {
                        continue;
                    }
                    tokio::time::sleep(earliest).await;
                    session.released().await;
                    let closed = async {
                        while !session.close_if(is_quiet) {
                            state.wait_until_quiet(quiet).await;
                            tokio::time::sleep(STEP).await;
                        }
                    };
                    if tokio::time::timeout(latest, closed).await.is_err() {
                        session.close();
                    }
                    counter!("almanac_grpc_goaways_total").increment(1);
                    tracing::debug!(%peer, "new content: asking the client to reconnect");
                    return LAST;
                }
            }
        };
        drive(opened, &builder, service, &stop, renew).await;
    }

    /// The permit of a call, if the limits admit it. `open` calls are open on its
    /// connection, which may be `beyond` the connection limit.
    fn admit(
        &self,
        path: &str,
        open: usize,
        beyond: Option<usize>,
    ) -> Result<OwnedSemaphorePermit, Box<Response>> {
        let rejected = |limit: &'static str, text: String| {
            counter!("almanac_grpc_calls_refused_total", "limit" => limit).increment(1);
            Box::new(wire::error(&Status::resource_exhausted(text)))
        };
        let most = self.limits.calls_per_connection;
        if let Some(most) = beyond {
            let text = format!(
                "{most} connections are open on this port, as many as it lets in; try again later"
            );
            return Err(rejected("connections", text));
        }
        if open >= most {
            let text = format!("more than {most} calls are open on this connection");
            return Err(rejected("connection", text));
        }
        let (permits, limit, what) = if path.starts_with(SERVICE_STREAMS) {
            (&self.streams, "streams", "watches and reflection streams")
        } else {
            (&self.calls, "all", "calls")
        };
        let permit = Arc::clone(permits).try_acquire_owned();
        permit.map_err(|_| rejected(limit, format!("too many {what} are open, try again later")))
    }
}
