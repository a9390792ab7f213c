//! The bytes of a connection: plain or through TLS, with what was read of them
//! to learn what a client speaks, and never waiting for long for a client that
//! takes nothing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_rustls::server::TlsStream;

/// What an HTTP/2 connection begins with (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How much is read of a client that was sent away, so that it comes to read
/// why, in bytes and in time.
const LAST_READ: u64 = 64 << 10;
const LAST_TIME: Duration = Duration::from_secs(1);

/// A connection's bytes.
pub(super) struct Stream {
    io: Io,
    /// What was read already.
    beginning: Bytes,
    stall: Stall,
}

/// What a client speaks, by what it began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Something that may be HTTP/1.1.
    Http1,
    /// HTTP/2 without an upgrade.
    Http2,
    /// TLS.
    Tls,
    /// Nothing that a client of ours says.
    Other,
}

enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// How long a write may wait.
struct Stall {
    timeout: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether a write waits.
    waiting: bool,
}

impl Stream {
    /// A connection without TLS.
    pub(super) fn plain(stream: TcpStream, stall_timeout: Duration) -> Self {
        Self::new(Io::Plain(stream), stall_timeout)
    }

    /// A connection with TLS.
    pub(super) fn tls(stream: TlsStream<TcpStream>, stall_timeout: Duration) -> Self {
        Self::new(Io::Tls(Box::new(stream)), stall_timeout)
    }

    fn new(io: Io, timeout: Duration) -> Self {
        Self {
            io,
            beginning: Bytes::new(),
            stall: Stall {
                timeout,
                timer: None,
                waiting: false,
            },
        }
    }

    /// Whether the client has shown a certificate, which was verified.
    pub(super) fn certified(&self) -> bool {
        match &self.io {
            Io::Plain(_) => false,
            Io::Tls(stream) => stream.get_ref().1.peer_certificates().is_some(),
        }
    }

    /// Reads what a client begins with, which is still read by whoever reads
    /// on; `None` when it says nothing.
    pub(super) async fn begin(&mut self) -> Option<Protocol> {
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

    /// Says a last word and lets the client read it.
    pub(super) async fn dismiss(mut self, word: &[u8]) {
        let last = async {
            self.write_all(word).await?;
            self.shutdown().await?;
            // What is not read would make the system drop what was written.
            let mut rest = self.take(LAST_READ);
            tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
        };
        let _ = tokio::time::timeout(LAST_TIME, last).await;
    }
}

/// What a connection speaks whose first byte is this one.
pub(super) fn protocol(first: u8) -> Protocol {
    match first {
        // The record type of a handshake (RFC 8446, section 5.1).
        0x16 => Protocol::Tls,
        // Methods are any tokens; those with a letter first are answered.
        b'A'..=b'Z' | b'a'..=b'z' => Protocol::Http1,
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
        match &mut self.io {
            Io::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Io::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.io {
            Io::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Io::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        };
        self.stall.bound(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.io {
            Io::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Io::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        };
        self.stall.bound(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.io {
            Io::Plain(stream) => stream.is_write_vectored(),
            Io::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = match &mut self.io {
            Io::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Io::Tls(stream) => Pin::new(stream).poll_flush(cx),
        };
        self.stall.bound(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = match &mut self.io {
            Io::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Io::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        };
        self.stall.bound(cx, closed)
    }
}

impl Stall {
    /// Lets a write wait only for so long.
    fn bound<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = false;
            return written;
        }
        let (timeout, waited) = (self.timeout, self.waiting);
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        if !waited {
            timer.as_mut().reset(Instant::now() + timeout);
            self.waiting = true;
        }
        ready!(timer.as_mut().poll(cx));
        let problem = "the client takes nothing of what is sent";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, problem)))
    }
}
