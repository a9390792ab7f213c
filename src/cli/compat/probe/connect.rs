//! Connecting as a gRPC client does that waits until the server is there.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::Status;
use tonic::body::Body;
use tonic_health::pb::health_client::HealthClient;
use tower::Service;

use crate::cli::compat::probe::tls::Tls;

/// How long to wait after an attempt that failed.
const PAUSE: Duration = Duration::from_millis(100);
/// The port where none is written, as gRPC has it.
const DEFAULT_PORT: u16 = 443;
/// The head of an HTTP/2 frame, in bytes (RFC 9113, section 4.1), and the type
/// of the frame that a server begins with.
const FRAME_HEAD: usize = 9;
const SETTINGS: u8 = 4;

/// Where the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    host: String,
    port: u16,
}

/// A connection on which the server has answered as one of HTTP/2.
pub(crate) struct Connection(http2::SendRequest<Body>);

/// Connects, again and again until `patience` ends; else says why the last
/// attempt failed.
pub(crate) async fn connect(
    target: &Target,
    tls: Option<&Tls>,
    patience: Duration,
) -> Result<Connection, String> {
    let end = Instant::now() + patience;
    let mut cause = "it does not answer".to_owned();
    loop {
        match timeout_at(end, attempt(target, tls)).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => cause = error.to_string(),
            Err(_) => return Err(cause),
        }
        if timeout_at(end, sleep(PAUSE)).await.is_err() {
            return Err(cause);
        }
    }
}

async fn attempt(target: &Target, tls: Option<&Tls>) -> io::Result<Connection> {
    let mut failed = io::Error::other("the name has no address");
    for address in target.addresses().await? {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // A question of a few bytes should not wait for more.
                stream.set_nodelay(true)?;
                return match tls {
                    Some(tls) => handshake(tls.connect(stream).await?).await,
                    None => handshake(stream).await,
                };
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Begins HTTP/2, and waits for the server to begin it as well.
async fn handshake<S>(stream: S) -> io::Result<Connection>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (seen, answered) = oneshot::channel();
    let stream = Beginning {
        stream,
        head: Vec::with_capacity(FRAME_HEAD),
        seen: Some(seen),
    };
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    tokio::spawn(connection);
    match answered.await {
        Ok(true) => Ok(Connection(sender)),
        Ok(false) => Err(io::Error::other("what answers speaks no HTTP/2")),
        Err(_) => Err(io::Error::other("the connection was closed")),
    }
}

impl Target {
    /// Reads `HOST:PORT`, also as gRPC writes it (`dns:///HOST:PORT`).
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let refused = || format!("{text:?} is no HOST:PORT");
        let short = ["dns:///", "passthrough:///"];
        let bare = short.iter().find_map(|start| text.strip_prefix(start));
        let bare = bare.unwrap_or(text);
        let (host, port) = match bare.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, port.parse().map_err(|_| refused())?)
            }
            _ => (bare, DEFAULT_PORT),
        };
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        if bare.is_empty() || host.contains(['/', '@', ' ', '[', ']']) {
            return Err(refused());
        }
        Ok(Self {
            host: if host.is_empty() { "localhost" } else { host }.to_owned(),
            port,
        })
    }

    /// The host alone.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// What the call says that it wants to reach.
    pub(crate) fn authority(&self) -> String {
        self.to_string()
    }

    /// The addresses, in the order in which they are tried. Loopback ones need
    /// no file or server to tell them.
    async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        if self.host == "localhost" {
            return Ok(vec![
                (Ipv4Addr::LOCALHOST, self.port).into(),
                (Ipv6Addr::LOCALHOST, self.port).into(),
            ]);
        }
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await?;
        Ok(found.collect())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Sends requests on the connection, with further headers.
#[derive(Clone)]
pub(crate) struct Requests {
    sender: http2::SendRequest<Body>,
    headers: HeaderMap,
}

impl Connection {
    /// A client of the health service that calls the server by `authority`.
    pub(crate) fn health(
        self,
        authority: &str,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Result<HealthClient<Requests>, Status> {
        let origin = Uri::builder()
            .scheme("http")
            .authority(authority)
            .path_and_query("/")
            .build()
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(name, value);
        }
        let requests = Requests {
            sender: self.0,
            headers: all,
        };
        Ok(HealthClient::with_origin(requests, origin))
    }
}

impl Service<Request<Body>> for Requests {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.sender.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        for (name, value) in &self.headers {
            request.headers_mut().append(name, value.clone());
        }
        Box::pin(self.sender.send_request(request))
    }
}

/// A stream that tells whether the first thing that came over it is the
/// beginning of HTTP/2.
struct Beginning<S> {
    stream: S,
    head: Vec<u8>,
    seen: Option<oneshot::Sender<bool>>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Beginning<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if self.seen.is_some() {
            let wanted = FRAME_HEAD - self.head.len();
            let new = buffer.filled()[before..].iter().take(wanted);
            self.head.extend(new);
            if self.head.len() == FRAME_HEAD
                && let Some(seen) = self.seen.take()
            {
                // Nobody listens any more when the time is over.
                let _ = seen.send(self.head[3] == SETTINGS);
            }
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Beginning<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_grpc_reads_it() {
        for (text, shown) in [
            (":50051", "localhost:50051"),
            ("localhost:1", "localhost:1"),
            ("10.0.0.1:1", "10.0.0.1:1"),
            ("[::1]:1", "[::1]:1"),
            ("[::1]", "[::1]:443"),
            ("::1", "[::1]:443"),
            ("a.example", "a.example:443"),
            ("dns:///a.example:1", "a.example:1"),
            ("passthrough:///a:1", "a:1"),
        ] {
            assert_eq!(Target::parse(text).unwrap().to_string(), shown);
        }
        for text in [
            "",
            "a:",
            "a:b",
            "a:70000",
            "unix:///a",
            "http://a:1",
            "a b:1",
        ] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }
}
