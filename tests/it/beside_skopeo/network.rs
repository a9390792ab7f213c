//! Registries with any name, behind one proxy.
//!
//! Both programs are told to use the proxy, so that a case can name hosts such
//! as `docker.io` without a name service. The proxy answers as each host itself
//! and records what it was asked. Hosts on this machine bypass proxies, so
//! there is one real port for them.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use super::pki::{Signer, server};
use super::registry::{Answer, Asked, answer};

use crate::support::runtime::background;

/// The hosts of a case, by `HOST[:PORT]` as in image references.
pub(super) type World = BTreeMap<String, Host>;

/// A host that gives tokens and has no images.
pub(super) const TOKEN_HOST: &str = "token.test";

/// How a host behaves.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) connection: Connection,
    /// Whether only clients with a certificate may connect.
    pub(super) wants_certificate: bool,
    pub(super) access: Access,
    pub(super) answer: Answer,
}

/// How a host takes connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// With TLS, and a certificate of this authority.
    Tls(Signer),
    /// With plain http alone.
    Plain,
    /// With TLS on a port and plain http on the same.
    Either,
    Refused,
}

/// The authentication that a host wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Open,
    /// Any user and password.
    Basic,
    /// Refuses each user and password.
    BasicRefused,
    /// A token, which this host (or else its own) gives for anything.
    Token(Option<&'static str>),
    /// The same; its token service refuses each user.
    TokenRefused,
    /// None that is offered.
    Unauthorized,
}

impl Host {
    pub(super) fn open() -> Self {
        Self {
            connection: Connection::Tls(Signer::Trusted),
            wants_certificate: false,
            access: Access::Open,
            answer: Answer::Image,
        }
    }
}

/// One program's way through the network.
pub(super) struct Visit {
    world: World,
    local: SocketAddr,
    seen: Mutex<Vec<Seen>>,
}

/// A connection or a request, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// `SCHEME://HOST:PORT`.
    pub(super) origin: String,
    pub(super) repository: Option<String>,
    pub(super) credentials: Option<String>,
    pub(super) certificate: Option<String>,
    /// Whether it is a token service that was asked.
    pub(super) is_token_service: bool,
}

impl Seen {
    fn at(origin: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            repository: None,
            credentials: None,
            certificate: None,
            is_token_service: false,
        }
    }
}

/// A proxy, and a port of this machine.
pub(super) struct Network {
    pub(super) proxy: SocketAddr,
    pub(super) local: SocketAddr,
    current: Arc<Mutex<Arc<Visit>>>,
    _runtime: Runtime,
}

impl Network {
    pub(super) fn start() -> Self {
        let runtime = background();
        let bind = || runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let (proxy, local) = (bind(), bind());
        let addresses = (proxy.local_addr().unwrap(), local.local_addr().unwrap());
        let visit = Arc::new(Visit::new(World::new(), addresses.1));
        let current = Arc::new(Mutex::new(visit));
        for (listener, is_proxy) in [(proxy, true), (local, false)] {
            let current = Arc::clone(&current);
            runtime.spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let visit = Arc::clone(&current.lock().unwrap());
                    // A peer that goes away ends its connection and nothing else.
                    tokio::spawn(async move {
                        if is_proxy {
                            let _ = serve_proxy(stream, visit).await;
                        } else {
                            let _ = serve_local(stream, visit).await;
                        }
                    });
                }
            });
        }
        Self {
            proxy: addresses.0,
            local: addresses.1,
            current,
            _runtime: runtime,
        }
    }

    /// Lets a program visit a world, and returns what was seen of it.
    pub(super) fn visit<T>(&self, world: &World, program: impl FnOnce() -> T) -> (T, Vec<Seen>) {
        let visit = Arc::new(Visit::new(world.clone(), self.local));
        *self.current.lock().unwrap() = Arc::clone(&visit);
        let output = program();
        let seen = visit.seen.lock().unwrap().clone();
        (output, seen)
    }
}

impl Visit {
    fn new(world: World, local: SocketAddr) -> Self {
        Self {
            world,
            local,
            seen: Mutex::default(),
        }
    }

    fn note(&self, seen: Seen) {
        self.seen.lock().unwrap().push(seen);
    }

    /// The host with a name and a port; one that does not exist refuses.
    fn host(&self, scheme: &str, authority: &str) -> Host {
        let default = if scheme == "https" { ":443" } else { ":80" };
        let name = authority.strip_suffix(default).unwrap_or(authority);
        let refused = || Host {
            connection: Connection::Refused,
            ..Host::open()
        };
        self.world.get(name).cloned().unwrap_or_else(refused)
    }
}

/// The connection ends without an answer.
#[derive(Debug, thiserror::Error)]
#[error("refused")]
struct Refused;

async fn serve_proxy(stream: TcpStream, visit: Arc<Visit>) -> Result<(), hyper::Error> {
    let service = service_fn(move |request| proxied(request, Arc::clone(&visit)));
    hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await
}

async fn proxied(
    request: Request<Incoming>,
    visit: Arc<Visit>,
) -> Result<Response<Full<Bytes>>, Refused> {
    let host = request.uri().host().unwrap_or_default().to_owned();
    let is_tunnel = request.method() == Method::CONNECT;
    let (scheme, default) = if is_tunnel {
        ("https", 443)
    } else {
        ("http", 80)
    };
    let port = request.uri().port_u16().unwrap_or(default);
    let authority = format!("{host}:{port}");
    let origin = format!("{scheme}://{authority}");
    visit.note(Seen::at(&origin));
    let host = visit.host(scheme, &authority);
    if host.connection == Connection::Refused {
        return Err(Refused);
    }
    if is_tunnel {
        tokio::spawn(async move {
            let Ok(upgraded) = hyper::upgrade::on(request).await else {
                return;
            };
            let _ = tunnelled(TokioIo::new(upgraded), origin, host, visit).await;
        });
        return Ok(Response::new(Full::default()));
    }
    if let Connection::Tls(_) = host.connection {
        let mut response = Response::new(Full::from("this is a TLS port"));
        *response.status_mut() = http::StatusCode::BAD_REQUEST;
        return Ok(response);
    }
    Ok(asked(request, &origin, &host, &visit, None).await)
}

/// A connection to a port of this machine.
async fn serve_local(stream: TcpStream, visit: Arc<Visit>) -> io::Result<()> {
    let mut first = [0];
    stream.peek(&mut first).await?;
    let is_tls = first[0] == 0x16;
    let scheme = if is_tls { "https" } else { "http" };
    let authority = visit.local.to_string();
    let origin = format!("{scheme}://{authority}");
    visit.note(Seen::at(&origin));
    let host = visit.host(scheme, &authority);
    match host.connection {
        Connection::Refused => Ok(()),
        _ if is_tls => tunnelled(stream, origin, host, visit).await,
        Connection::Tls(_) => {
            let mut stream = stream;
            let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(answer).await
        }
        Connection::Plain | Connection::Either => {
            serve(stream, origin, host, visit, None).await;
            Ok(())
        }
    }
}

/// Requests through a tunnel, which is TLS.
async fn tunnelled<S>(stream: S, origin: String, host: Host, visit: Arc<Visit>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut stream = stream;
    let signer = match host.connection {
        Connection::Tls(signer) => signer,
        Connection::Either => Signer::Stranger,
        Connection::Plain | Connection::Refused => {
            // As a server without TLS answers what it takes for a request.
            let mut some = [0; 64];
            let _ = stream.read(&mut some).await?;
            let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
            return stream.write_all(answer).await;
        }
    };
    let name = origin.rsplit_once("://").map_or("", |(_, name)| name);
    let name = name.rsplit_once(':').map_or(name, |(name, _)| name);
    let acceptor = TlsAcceptor::from(server(signer, name, host.wants_certificate));
    let stream = acceptor.accept(stream).await?;
    let shown = stream.get_ref().1.peer_certificates();
    let shown = shown.and_then(|chain| chain.first());
    let certificate =
        shown.map(|der| format!("certificate {}", &images::Digest::of(der).hex()[..12]));
    serve(stream, origin, host, visit, certificate).await;
    Ok(())
}

async fn serve<S>(
    stream: S,
    origin: String,
    host: Host,
    visit: Arc<Visit>,
    certificate: Option<String>,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let context = Arc::new((origin, host, visit, certificate));
    let service = service_fn(move |request| {
        let context = Arc::clone(&context);
        async move {
            let (origin, host, visit, certificate) = &*context;
            Ok::<_, Infallible>(asked(request, origin, host, visit, certificate.clone()).await)
        }
    });
    // A peer that goes away ends its connection and nothing else.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn asked(
    request: Request<Incoming>,
    origin: &str,
    host: &Host,
    visit: &Visit,
    certificate: Option<String>,
) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes);
    let request = Asked::new(&parts, &body.unwrap_or_default());
    visit.note(Seen {
        repository: request.repository(),
        credentials: request.credentials.clone(),
        is_token_service: request.is_for_token(),
        certificate,
        ..Seen::at(origin)
    });
    answer(&request, origin, host)
}

/// The hosts that were asked, in order, each with the repositories there.
///
/// Where nobody answers, skopeo asks for an old version of the protocol too:
/// the same two addresses count once.
pub(super) fn places(seen: &[Seen]) -> Vec<(String, Vec<String>)> {
    let mut places: Vec<(String, Vec<String>)> = Vec::new();
    let is_place = |seen: &&Seen| !seen.is_token_service && !seen.origin.contains(TOKEN_HOST);
    for seen in seen.iter().filter(is_place) {
        let here = match places.last_mut() {
            Some((origin, repositories)) if *origin == seen.origin => repositories,
            _ => {
                places.push((seen.origin.clone(), Vec::new()));
                &mut places.last_mut().unwrap().1
            }
        };
        if let Some(repository) = &seen.repository
            && here.last() != Some(repository)
        {
            here.push(repository.clone());
        }
        if let [.., a, b, c, d] = &places[..]
            && (a, b) == (c, d)
            && b.1.is_empty()
        {
            places.truncate(places.len() - 2);
        }
    }
    places
}

/// The credentials and certificates that each host saw.
pub(super) fn secrets(seen: &[Seen]) -> BTreeSet<(String, String)> {
    let mut secrets = BTreeSet::new();
    for seen in seen {
        for secret in [&seen.credentials, &seen.certificate].into_iter().flatten() {
            secrets.insert((seen.origin.clone(), secret.clone()));
        }
    }
    secrets
}
