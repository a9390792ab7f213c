//! Accepting connections, up to the detection of each client's protocol.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use metrics::counter;
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::name::CatalogName;
use crate::serve::metrics::count_ended;
use crate::serve::net::connection_limit::{ConnectionLimit, ConnectionSlot};
use crate::serve::net::connection_state::ConnectionState;
use crate::serve::net::limits::Limits;
use crate::serve::net::stream::{Protocol, Stream, protocol};
use crate::serve::net::tls::Tls;

/// How long to wait when the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The response to a client that speaks HTTP to a TLS port.
const TLS_ONLY: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain; charset=utf-8\r\nContent-Length: 25\r\nConnection: close\r\n\r\n\
    this port speaks TLS only";

/// A bound port.
pub struct Listener {
    /// The name of the service.
    pub service: &'static str,
    /// The only catalog served here; `None` for all.
    pub catalog: Option<CatalogName>,
    /// The bound address, with its port.
    pub address: SocketAddr,
    /// TLS, if the port has it.
    pub tls: Option<Tls>,
    tcp: TcpListener,
}

/// A port that cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {service}: {problem}")]
pub struct ListenError {
    /// The service of the port.
    pub service: &'static str,
    /// The address.
    pub address: SocketAddr,
    /// The reason.
    pub problem: io::Error,
}

/// Binds a port for a service.
pub async fn bind(service: &'static str, address: SocketAddr) -> Result<Listener, ListenError> {
    let failed = |problem| ListenError {
        service,
        address,
        problem,
    };
    let tcp = TcpListener::bind(address).await.map_err(failed)?;
    let address = tcp.local_addr().map_err(failed)?;
    Ok(Listener {
        service,
        catalog: None,
        tcp,
        address,
        tls: None,
    })
}

/// The remote end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Whether it has a verified client certificate.
    pub certified: bool,
    /// Whether the connection has TLS.
    pub secure: bool,
}

/// A connection whose client has sent its first bytes.
pub(crate) struct Opened {
    pub(crate) service: &'static str,
    pub(crate) peer: Peer,
    pub(crate) stream: Stream,
    pub(crate) protocol: Protocol,
    pub(crate) state: Arc<ConnectionState>,
    /// The connection limit, if this connection is beyond it: its requests get
    /// an error.
    pub(crate) beyond: Option<usize>,
}

impl Listener {
    /// Registers the port with the runtime of the caller, for a thread that has its own.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn moved_here(self) -> io::Result<Self> {
        let tcp = TcpListener::from_std(self.tcp.into_std()?)?;
        Ok(Self { tcp, ..self })
    }

    /// Passes on each connection that has a slot and whose client has sent its
    /// first bytes.
    pub(crate) async fn accept<F>(
        self,
        limits: &Limits,
        stop: CancellationToken,
        tracker: TaskTracker,
        handle: impl Fn(Opened) -> F + Clone + Send + 'static,
    ) where
        F: Future<Output = ()> + Send,
    {
        let service = self.service;
        let mut limit = ConnectionLimit::new(service, limits.connections);
        loop {
            let accepted = tokio::select! {
                accepted = self.tcp.accept() => accepted,
                () = stop.cancelled() => return,
            };
            let (tcp, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(service, %error, "cannot accept a connection");
                    let errno = Errno::from_io_error(&error);
                    if matches!(errno, Some(Errno::MFILE | Errno::NFILE)) {
                        limit.make_room();
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            counter!("almanac_connections_total", "service" => service).increment(1);
            let slot = tokio::select! {
                slot = limit.take() => slot,
                () = stop.cancelled() => return,
            };
            // Responses are written whole, so delaying small writes gains nothing.
            let _ = tcp.set_nodelay(true);
            let opening = Opening {
                service,
                peer: address,
                tls: self.tls.clone(),
                limits: limits.clone(),
                slot: Arc::clone(&slot),
            };
            let (stop, handle) = (stop.clone(), handle.clone());
            tracker.spawn(async move {
                let serve = async move {
                    if let Some(opened) = opening.open(tcp, &stop).await {
                        handle(opened).await;
                    }
                };
                tokio::select! {
                    () = serve => {}
                    () = slot.over(), if slot.beyond.is_some() => {}
                }
            });
        }
    }
}

/// A connection that was just accepted.
struct Opening {
    service: &'static str,
    peer: SocketAddr,
    tls: Option<Tls>,
    limits: Limits,
    slot: Arc<ConnectionSlot>,
}

impl Opening {
    /// Waits for the client's first bytes. hyper knows neither limits nor shutdown
    /// before that.
    async fn open(self, tcp: TcpStream, stop: &CancellationToken) -> Option<Opened> {
        tokio::select! {
            opened = self.begin(tcp) => opened,
            () = self.slot.state.asked_to_close.cancelled() => None,
            () = tokio::time::sleep(self.limits.idle_timeout) => {
                count_ended(self.service, "silent");
                None
            }
            () = stop.cancelled() => None,
        }
    }

    async fn begin(&self, tcp: TcpStream) -> Option<Opened> {
        let (service, peer) = (self.service, self.peer);
        let mut stream = match &self.tls {
            None => Stream::plain(tcp, self.limits.stall_timeout),
            Some(tls) => self.shake_hands(tls, tcp).await?,
        };
        let protocol = stream.begin().await?;
        let unknown = match protocol {
            Protocol::Tls => "a client speaks TLS to a port without TLS",
            Protocol::Other => "a client speaks an unknown protocol",
            Protocol::Http1 | Protocol::Http2 => {
                return Some(Opened {
                    service,
                    peer: Peer {
                        address: peer,
                        certified: stream.certified(),
                        secure: self.tls.is_some(),
                    },
                    stream,
                    protocol,
                    state: Arc::clone(&self.slot.state),
                    beyond: self.slot.beyond,
                });
            }
        };
        count_ended(service, "protocol");
        tracing::debug!(service, %peer, "{unknown}");
        None
    }

    async fn shake_hands(&self, tls: &Tls, tcp: TcpStream) -> Option<Stream> {
        let (service, peer, limits) = (self.service, self.peer, &self.limits);
        let mut first = [0];
        let peeked = tokio::time::timeout(limits.handshake_timeout, tcp.peek(&mut first)).await;
        match peeked {
            Ok(Ok(0) | Err(_)) => return None,
            Ok(Ok(_)) if protocol(first[0]) == Protocol::Http1 => {
                count_ended(service, "protocol");
                tracing::debug!(service, %peer, "a client speaks HTTP to a TLS port");
                let stream = Stream::plain(tcp, limits.stall_timeout);
                stream.dismiss(TLS_ONLY).await;
                return None;
            }
            Ok(Ok(_)) => {}
            Err(_) => {
                count_ended(service, "handshake");
                return None;
            }
        }
        match tls.accept(tcp, limits.handshake_timeout).await {
            Ok(stream) => Some(Stream::tls(stream, limits.stall_timeout)),
            Err(error) => {
                count_ended(service, "handshake");
                tracing::debug!(service, %peer, %error, "a TLS handshake failed");
                None
            }
        }
    }
}
