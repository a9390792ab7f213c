//! The bytes of a connection, plain or TLS: the first bytes are read to detect
//! the protocol and replayed, and writes time out if the client does not read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use crate::serve::net::in_flight::PROGRESS;

/// The first bytes of an HTTP/2 connection (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How much is still read from a rejected client, in bytes and time. Closing with
/// unread bytes would reset the connection, and lose the response.
const LAST_READ: u64 = 64 << 10;
const LAST_TIME: Duration = Duration::from_secs(1);

/// A connection's bytes.
pub(crate) struct Stream {
    io: Either<TcpStream, Box<TlsStream<TcpStream>>>,
    /// The bytes that were read already.
    beginning: Bytes,
    stall: Stall,
}

/// The protocol of a client, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Possibly HTTP/1.1.
    Http1,
    /// HTTP/2 without an upgrade.
    Http2,
    /// TLS.
    Tls,
    /// Anything else.
    Other,
}

/// The timeout of writes.
struct Stall {
    timeout: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// How many bytes were taken since a write began to wait; `None` if none
    /// waits.
    waited: Option<usize>,
}

impl Stream {
    /// A connection without TLS.
    pub(crate) fn plain(stream: TcpStream, stall_timeout: Duration) -> Self {
        Self::new(Either::Left(stream), stall_timeout)
    }

    /// A connection with TLS.
    pub(crate) fn tls(stream: TlsStream<TcpStream>, stall_timeout: Duration) -> Self {
        Self::new(Either::Right(Box::new(stream)), stall_timeout)
    }

    fn new(io: Either<TcpStream, Box<TlsStream<TcpStream>>>, timeout: Duration) -> Self {
        Self {
            io,
            beginning: Bytes::new(),
            stall: Stall {
                timeout,
                timer: None,
                waited: None,
            },
        }
    }

    /// Whether the client has a verified certificate.
    pub(crate) fn certified(&self) -> bool {
        match &self.io {
            Either::Left(_) => false,
            Either::Right(stream) => stream.get_ref().1.peer_certificates().is_some(),
        }
    }

    /// Detects the protocol by the first bytes, which later reads return again.
    /// `None` if the client sends nothing.
    pub(crate) async fn begin(&mut self) -> Option<Protocol> {
        let mut start = BytesMut::with_capacity(PREFACE.len());
        loop {
            let left = PREFACE.len() - start.len();
            match self.read_buf(&mut (&mut start).limit(left)).await {
                Ok(0) | Err(_) => return None,
                Ok(_) if start.len() < PREFACE.len() && PREFACE.starts_with(&start) => {}
                Ok(_) => break,
            }
        }
        let protocol = if start[..] == *PREFACE {
            Protocol::Http2
        } else {
            protocol(start[0])
        };
        self.beginning = start.freeze();
        Some(protocol)
    }

    /// Sends a last response, and gives the client time to read it.
    pub(crate) async fn dismiss(mut self, response: &[u8]) {
        let last = async {
            self.write_all(response).await?;
            self.shutdown().await?;
            // Unread bytes would make the system drop the response.
            let mut rest = self.take(LAST_READ);
            tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
        };
        let _ = tokio::time::timeout(LAST_TIME, last).await;
    }
}

/// The protocol of a connection with this first byte.
pub(crate) fn protocol(first: u8) -> Protocol {
    match first {
        // The record type of a handshake (RFC 8446, section 5.1).
        0x16 => Protocol::Tls,
        // A method is any token (RFC 9110, section 5.6.2), and an empty line
        // may come before (RFC 9112, section 2.2).
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'\r' | b'\n' => Protocol::Http1,
        first if b"!#$%&'*+-.^_`|~".contains(&first) => Protocol::Http1,
        _ => Protocol::Other,
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.beginning.is_empty() {
            let length = self.beginning.len().min(buffer.remaining());
            buffer.put_slice(&self.beginning[..length]);
            self.beginning.advance(length);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.stall.bound(cx, written, |count| *count)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.stall.bound(cx, written, |count| *count)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.stall.bound(cx, flushed, |()| PROGRESS)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.io).poll_shutdown(cx);
        self.stall.bound(cx, closed, |()| PROGRESS)
    }
}

impl Stall {
    /// Bounds the wait of a write. The wait ends when enough bytes were `taken`, or
    /// when nothing is left to write.
    fn bound<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
        taken: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(written) = written {
            if let (Ok(written), Some(waited)) = (&written, self.waited) {
                let waited = waited + taken(written);
                self.waited = (waited < PROGRESS).then_some(waited);
            }
            return Poll::Ready(written);
        }
        let timeout = self.timeout;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        if self.waited.is_none() {
            timer.as_mut().reset(Instant::now() + timeout);
            self.waited = Some(0);
        }
        ready!(timer.as_mut().poll(cx));
        let problem = "the client has stopped reading";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, problem)))
    }
}
