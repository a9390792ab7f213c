//! One HTTP/2 connection sees one generation of each catalog.
//!
//! OLM takes a catalog in by many calls on one connection, and notices new
//! content only by a new connection. So a connection pins each catalog's
//! snapshot at its first call for it; when a pinned snapshot is replaced, the
//! connection gets GOAWAY and finishes its streams, and the client comes back
//! on a new one.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use metrics::counter;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

use crate::name::CatalogName;
use crate::serve::Listener;
use crate::serve::listen::{KEEP_ALIVE, KEEP_ALIVE_TIMEOUT, begun};
use crate::snapshot::{Catalog, Catalogs, Snapshot};

/// How many streams a client may have open: packageserver asks for all
/// packages at once.
const MAX_STREAMS: u32 = 1000;
/// How much of an answer may wait for a slow reader, in bytes a stream.
const MAX_SEND_BUFFER: usize = 512 << 10;

/// The snapshots that a connection has seen.
#[derive(Default)]
pub(super) struct Pins(Mutex<HashMap<CatalogName, Arc<Snapshot>>>);

impl Pins {
    /// The catalog's snapshot for this connection.
    pub(super) fn snapshot(&self, catalog: &Catalog) -> Option<Arc<Snapshot>> {
        let mut pins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pinned) = pins.get(&catalog.name) {
            return Some(Arc::clone(pinned));
        }
        let snapshot = catalog.snapshot()?;
        pins.insert(catalog.name.clone(), Arc::clone(&snapshot));
        Some(snapshot)
    }

    /// Whether any of them is not the catalog's latest any more.
    fn outdated(&self, catalogs: &Catalogs) -> bool {
        let pins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pins.iter().any(|(name, pinned)| {
            let latest = catalogs.get(name.as_str()).and_then(Catalog::snapshot);
            latest.is_some_and(|latest| !Arc::ptr_eq(&latest, pinned))
        })
    }
}

/// Serves the gRPC port until it is stopped. Open connections then finish
/// their streams; `connections` tells when.
pub async fn serve(
    listener: Listener,
    router: Router,
    catalogs: Catalogs,
    limit: usize,
    stop: CancellationToken,
    connections: TaskTracker,
) {
    let ended = stop.clone();
    listener
        .accept(limit, stop, connections, move |stream, peer| {
            connection(
                stream,
                peer,
                router.clone(),
                catalogs.clone(),
                ended.clone(),
            )
        })
        .await;
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    catalogs: Catalogs,
    stop: CancellationToken,
) {
    if !begun(&stream, &stop).await {
        return;
    }
    let pins = Arc::new(Pins::default());
    let service = service_fn({
        let pins = Arc::clone(&pins);
        move |mut request: http::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(Arc::clone(&pins));
            router.clone().call(request)
        }
    });
    let mut publications = catalogs.publications();
    let mut connection = pin!(
        http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_send_buf_size(MAX_SEND_BUFFER)
            .max_header_list_size(32 << 10)
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service)
    );
    let mut ending = false;
    let ended = loop {
        tokio::select! {
            ended = connection.as_mut() => break ended,
            () = stop.cancelled(), if !ending => {}
            changed = publications.changed(), if !ending => {
                if changed.is_ok() && !pins.outdated(&catalogs) {
                    continue;
                }
                counter!("almanac_grpc_goaways_total").increment(1);
                tracing::debug!(%peer, "new content: asking the client to connect again");
            }
        }
        ending = true;
        connection.as_mut().graceful_shutdown();
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "connection ended");
    }
}
