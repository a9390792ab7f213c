//! Accepting connections, up to where it is known what each client speaks.

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
use crate::serve::net::connection_limit::{Place, Places};
use crate::serve::net::connection_state::Activity;
use crate::serve::net::limits::Limits;
use crate::serve::net::stream::{Protocol, Stream, protocol};
use crate::serve::net::tls::Tls;

/// How long to wait when the system has no descriptor left for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// What a client is told that speaks HTTP to a port with TLS.
const TLS_ONLY: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain; charset=utf-8\r\nContent-Length: 25\r\nConnection: close\r\n\r\n\
    this port speaks TLS only";

/// A bound port.
pub struct Listener {
    service: &'static str,
    catalog: Option<CatalogName>,
    tcp: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
}

/// A port that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {service}: {problem}")]
pub struct ListenError {
    /// What was to be served there.
    pub service: &'static str,
    /// The address.
    pub address: SocketAddr,
    /// Why not.
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

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Whether it has shown a certificate, which was verified.
    pub certified: bool,
}

/// A connection whose client has begun to speak.
pub(crate) struct Opened {
    pub(crate) service: &'static str,
    pub(crate) peer: Peer,
    pub(crate) stream: Stream,
    pub(crate) protocol: Protocol,
    pub(crate) activity: Arc<Activity>,
    /// The most connections that there may be, when this is one more: its
    /// client is told so.
    pub(crate) beyond: Option<usize>,
}

impl Listener {
    /// With TLS, if there is any.
    #[must_use]
    pub fn secured(self, tls: Option<Tls>) -> Self {
        Self { tls, ..self }
    }

    /// For one catalog alone.
    #[must_use]
    pub fn of_catalog(self, name: CatalogName) -> Self {
        Self {
            catalog: Some(name),
            ..self
        }
    }

    /// The address, with the port that was really bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is served here.
    pub fn service(&self) -> &'static str {
        self.service
    }

    /// The one catalog that is served here, if it is one.
    pub fn catalog(&self) -> Option<&CatalogName> {
        self.catalog.as_ref()
    }

    /// Whether it speaks TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Hands on each connection whose client has begun to speak, as soon as
    /// there is a place for it.
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
        let mut places = Places::new(service, limits.connections);
        loop {
            let accepted = tokio::select! {
                accepted = self.tcp.accept() => accepted,
                () = stop.cancelled() => return,
            };
            let (tcp, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(service, %error, "a connection was not accepted");
                    let errno = Errno::from_io_error(&error);
                    if matches!(errno, Some(Errno::MFILE | Errno::NFILE)) {
                        places.make_room();
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            counter!("almanac_connections_total", "service" => service).increment(1);
            let place = tokio::select! {
                place = places.take() => place,
                () = stop.cancelled() => return,
            };
            // Answers are whole when they are written: nothing to wait for.
            let _ = tcp.set_nodelay(true);
            let opening = Opening {
                service,
                tcp,
                address,
                tls: self.tls.clone(),
                place,
            };
            let (limits, stop, handle) = (limits.clone(), stop.clone(), handle.clone());
            tracker.spawn(async move {
                let place = opening.place.clone();
                let serve = async move {
                    if let Some(opened) = opening.open(&limits, &stop).await {
                        handle(opened).await;
                    }
                };
                tokio::select! {
                    () = serve => {}
                    () = place.over(), if place.beyond().is_some() => {}
                }
            });
        }
    }
}

/// Counts a connection that almanac ended, and why.
pub(crate) fn ended(service: &'static str, reason: &'static str) {
    counter!("almanac_connections_ended_total", "service" => service, "reason" => reason)
        .increment(1);
}

/// A connection that was just accepted.
struct Opening {
    service: &'static str,
    tcp: TcpStream,
    address: SocketAddr,
    tls: Option<Tls>,
    place: Arc<Place>,
}

impl Opening {
    /// Waits until the client has begun to speak. Neither a limit nor the end
    /// of almanac reaches hyper before that.
    async fn open(self, limits: &Limits, stop: &CancellationToken) -> Option<Opened> {
        let activity = self.place.activity();
        let service = self.service;
        tokio::select! {
            opened = self.begin(limits) => opened,
            () = activity.dismissed() => None,
            () = tokio::time::sleep(limits.idle_timeout) => {
                ended(service, "silent");
                None
            }
            () = stop.cancelled() => None,
        }
    }

    async fn begin(self, limits: &Limits) -> Option<Opened> {
        let (service, peer) = (self.service, self.address);
        let mut stream = match self.tls {
            None => Stream::plain(self.tcp, limits.stall_timeout),
            Some(tls) => shake_hands(&tls, self.tcp, service, peer, limits).await?,
        };
        let protocol = stream.begin().await?;
        match protocol {
            Protocol::Tls => {
                ended(service, "protocol");
                tracing::debug!(service, %peer, "a client speaks TLS to a port without it");
                return None;
            }
            Protocol::Other => {
                ended(service, "protocol");
                tracing::debug!(service, %peer, "a client speaks what is not known");
                return None;
            }
            Protocol::Http1 | Protocol::Http2 => {}
        }
        Some(Opened {
            service,
            peer: Peer {
                address: peer,
                certified: stream.certified(),
            },
            stream,
            protocol,
            activity: self.place.activity(),
            beyond: self.place.beyond(),
        })
    }
}

async fn shake_hands(
    tls: &Tls,
    tcp: TcpStream,
    service: &'static str,
    peer: SocketAddr,
    limits: &Limits,
) -> Option<Stream> {
    let mut first = [0];
    let peeked = tokio::time::timeout(limits.handshake_timeout, tcp.peek(&mut first)).await;
    match peeked {
        Ok(Ok(0) | Err(_)) => return None,
        Ok(Ok(_)) if protocol(first[0]) == Protocol::Http1 => {
            ended(service, "protocol");
            tracing::debug!(service, %peer, "a client speaks HTTP to a port with TLS");
            let stream = Stream::plain(tcp, limits.stall_timeout);
            stream.dismiss(TLS_ONLY).await;
            return None;
        }
        Ok(Ok(_)) => {}
        Err(_) => {
            ended(service, "handshake");
            return None;
        }
    }
    match tls.accept(tcp, limits.handshake_timeout).await {
        Ok(stream) => Some(Stream::tls(stream, limits.stall_timeout)),
        Err(error) => {
            ended(service, "handshake");
            tracing::debug!(service, %peer, %error, "a handshake failed");
            None
        }
    }
}
