//! Accepting connections, a bounded number of them, and letting them end well.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use metrics::{counter, gauge};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a client may take for a request's head, also between requests on
/// one connection.
const HEADER_TIMEOUT: Duration = Duration::from_mins(1);
/// How often a quiet HTTP/2 connection is asked whether it is there.
pub(super) const KEEP_ALIVE: Duration = Duration::from_mins(1);
/// How long it may take to answer that.
pub(super) const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// What an HTTP/2 connection begins with (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How long to wait for the rest of it. Clients send it whole.
const PREFACE_PAUSE: Duration = Duration::from_millis(10);
/// How long to wait when the system has no descriptor left for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A bound port.
pub struct Listener {
    service: &'static str,
    tcp: TcpListener,
    address: SocketAddr,
}

/// A port that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {service}: {source}")]
pub struct ListenError {
    /// What was to be served there.
    pub service: &'static str,
    /// The address.
    pub address: SocketAddr,
    /// Why not.
    pub source: io::Error,
}

/// Binds a port for a service.
pub async fn bind(service: &'static str, address: SocketAddr) -> Result<Listener, ListenError> {
    let failed = |source| ListenError {
        service,
        address,
        source,
    };
    let tcp = TcpListener::bind(address).await.map_err(failed)?;
    let address = tcp.local_addr().map_err(failed)?;
    Ok(Listener {
        service,
        tcp,
        address,
    })
}

impl Listener {
    /// The address, with the port that was really bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is served here.
    pub fn service(&self) -> &'static str {
        self.service
    }

    /// Serves a router over HTTP/1.1 and HTTP/2 until it is stopped. Open
    /// connections then finish what they are at; `connections` tells when.
    pub async fn serve(
        self,
        router: Router,
        limit: usize,
        stop: CancellationToken,
        connections: TaskTracker,
    ) {
        let ended = stop.clone();
        self.accept(limit, stop, connections, move |stream, peer| {
            http_connection(stream, peer, router.clone(), ended.clone())
        })
        .await;
    }

    /// Hands each connection to `handle`, at most `limit` at once: more wait
    /// in the system's queue.
    pub(super) async fn accept<F>(
        self,
        limit: usize,
        stop: CancellationToken,
        connections: TaskTracker,
        handle: impl Fn(TcpStream, SocketAddr) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let permits = Arc::new(Semaphore::new(limit));
        let open = gauge!("almanac_connections", "service" => self.service);
        loop {
            let accepted = tokio::select! {
                permit = Arc::clone(&permits).acquire_owned() => {
                    tokio::select! {
                        accepted = self.tcp.accept() => accepted.map(|a| (a, permit)),
                        () = stop.cancelled() => return,
                    }
                }
                () = stop.cancelled() => return,
            };
            match accepted {
                Ok(((stream, peer), permit)) => {
                    counter!("almanac_connections_total", "service" => self.service).increment(1);
                    // Answers are whole when they are written: nothing to wait for.
                    let _ = stream.set_nodelay(true);
                    let connection = handle(stream, peer);
                    let open = open.clone();
                    connections.spawn(async move {
                        open.increment(1.0);
                        connection.await;
                        open.decrement(1.0);
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(service = self.service, %error, "a connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Waits until a client has begun to speak, and tells whether it did: neither
/// a limit nor the end of almanac reaches hyper before that.
pub(super) async fn begun(stream: &TcpStream, stop: &CancellationToken) -> bool {
    let mut start = [0; PREFACE.len()];
    let beginning = async {
        loop {
            match stream.peek(&mut start).await {
                Ok(0) | Err(_) => return false,
                Ok(length) if length < PREFACE.len() && PREFACE.starts_with(&start[..length]) => {
                    tokio::time::sleep(PREFACE_PAUSE).await;
                }
                Ok(_) => return true,
            }
        }
    };
    tokio::select! {
        begun = tokio::time::timeout(HEADER_TIMEOUT, beginning) => begun.unwrap_or(false),
        () = stop.cancelled() => false,
    }
}

async fn http_connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    stop: CancellationToken,
) {
    if !begun(&stream, &stop).await {
        return;
    }
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(250)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT);
    let mut connection =
        pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "connection ended");
    }
}
