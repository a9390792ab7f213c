//! Connects like a gRPC client that waits until the server is ready.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

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

use crate::cli::compat::probe::target::Target;
use crate::cli::compat::probe::tls::Tls;

/// The pause after a failed attempt.
const PAUSE: Duration = Duration::from_millis(100);
/// The head of an HTTP/2 frame, in bytes (RFC 9113, section 4.1), and the type
/// of the frame that a server begins with.
const FRAME_HEAD: usize = 9;
const SETTINGS: u8 = 4;

/// A connection to a server that speaks HTTP/2.
pub(crate) struct Connection(http2::SendRequest<Body>);

/// Retries to connect until `patience` ends. The error is that of the last
/// attempt.
pub(crate) async fn connect(
    target: &Target,
    tls: Option<&Tls>,
    patience: Duration,
) -> Result<Connection, String> {
    let end = Instant::now() + patience;
    let mut cause = "no answer".to_owned();
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
                // The small request should not wait to be combined with others.
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

/// Starts HTTP/2, and waits until the server has started it too.
async fn handshake<S>(stream: S) -> io::Result<Connection>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (seen, answered) = oneshot::channel();
    let stream = FirstFrame {
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
        Ok(false) => Err(io::Error::other("the server does not speak HTTP/2")),
        Err(_) => Err(io::Error::other("the connection was closed")),
    }
}

/// Sends requests on the connection, with further headers.
#[derive(Clone)]
pub(crate) struct Requests {
    sender: http2::SendRequest<Body>,
    headers: HeaderMap,
}

impl Connection {
    /// A client of the health service that sends this `authority`.
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
        let requests = Requests {
            sender: self.0,
            headers: headers.into_iter().collect(),
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

/// A stream that reports whether its first frame starts HTTP/2.
struct FirstFrame<S> {
    stream: S,
    head: Vec<u8>,
    seen: Option<oneshot::Sender<bool>>,
}

impl<S: AsyncRead + Unpin> AsyncRead for FirstFrame<S> {
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
                // After a timeout, there is no receiver.
                let _ = seen.send(self.head[3] == SETTINGS);
            }
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FirstFrame<S> {
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
