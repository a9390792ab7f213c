//! Requests in flight, from their arrival to the last byte of the response.
//!
//! hyper takes the body of a response long before it writes it, and h2 buffers
//! what the client's flow-control window does not admit. So each piece of a body
//! holds its [`InFlight`] until it has been written or dropped. Only then the
//! request ends: its permit is returned and its metrics are reported.

use std::future::Future;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf, Bytes};
use http_body::{Frame, SizeHint};
use metrics::counter;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use crate::serve::net::connection_state::{ActiveRequest, milliseconds};
use crate::serve::request_metrics::RequestMetrics;

tokio::task_local! {
    /// The request of the current task of [`StreamExecutor`].
    static SLOT: Arc<Slot>;
}

/// How many bytes a client has to read before that counts as progress. A client
/// that reads single bytes makes none.
pub(crate) const PROGRESS: usize = 4 << 10;

/// The permits that a request holds until its response is sent.
pub(crate) type Permits = [Option<OwnedSemaphorePermit>; 2];

/// A request in flight.
pub struct InFlight {
    /// Bytes of its response that were written.
    written: AtomicU64,
    /// Pieces that hyper took and has not written yet.
    waiting: AtomicUsize,
    /// When hyper last took a piece, or [`PROGRESS`] more bytes were written, in
    /// milliseconds since the request arrived; and how many were written then.
    moved: AtomicU64,
    marked: AtomicU64,
    report: Mutex<Option<Report>>,
    active: ActiveRequest,
    /// Returned at the end.
    _permits: Permits,
    /// Dropped at the end.
    _end: Mutex<Option<oneshot::Sender<()>>>,
}

/// The outcome of a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// Bytes of its body that were written.
    pub(crate) bytes: u64,
    /// The time from the request's arrival to the last of them.
    pub(crate) elapsed: Duration,
}

/// The report of the outcome.
enum Report {
    /// Counts the bytes. This needs no allocation.
    Bytes(Arc<RequestMetrics>),
    Whole(Box<dyn FnOnce(Sent) + Send>),
}

/// The body of a response.
pub(crate) struct InFlightBody {
    body: Body,
    request: Arc<InFlight>,
}

/// A piece of a body.
pub(crate) struct InFlightPiece {
    bytes: Bytes,
    request: Arc<InFlight>,
}

/// Runs the streams of HTTP/2 connections, each in a task of its own, and aborts
/// those whose client does not read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamExecutor {
    pub(crate) service: &'static str,
    /// Streams are aborted after their client has read nothing for that long.
    pub(crate) stall_timeout: Duration,
}

#[derive(Default)]
struct Slot {
    request: Mutex<Option<Weak<InFlight>>>,
    end: Mutex<Option<oneshot::Sender<()>>>,
}

impl InFlight {
    /// A request that arrives now. In a task of [`StreamExecutor`], that task
    /// watches it for stalls.
    pub(crate) fn begin(active: ActiveRequest, permits: Permits) -> Arc<Self> {
        let end = SLOT.try_with(|slot| slot.end.lock().take());
        let request = Arc::new(Self {
            written: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            moved: AtomicU64::new(0),
            marked: AtomicU64::new(0),
            report: Mutex::new(None),
            active,
            _permits: permits,
            _end: Mutex::new(end.ok().flatten()),
        });
        let _ = SLOT.try_with(|slot| *slot.request.lock() = Some(Arc::downgrade(&request)));
        request
    }

    /// When it arrived.
    pub(crate) fn began(&self) -> Instant {
        self.active.began
    }

    /// Calls `report` with the outcome at the end.
    pub(crate) fn report(&self, report: impl FnOnce(Sent) + Send + 'static) {
        *self.report.lock() = Some(Report::Whole(Box::new(report)));
    }

    /// Counts the bytes of the response at the end.
    pub(crate) fn count_bytes(&self, metrics: Arc<RequestMetrics>) {
        *self.report.lock() = Some(Report::Bytes(metrics));
    }

    /// The body to send.
    pub(crate) fn body(self: Arc<Self>, body: Body) -> InFlightBody {
        InFlightBody {
            body,
            request: self,
        }
    }

    fn moved(&self) {
        let now = Instant::now();
        let since = now.saturating_duration_since(self.began());
        self.moved.store(milliseconds(since), Ordering::Relaxed);
        self.active.connection.moved(now);
    }

    /// Bytes of a piece were written; `whole` tells whether it was its end.
    fn wrote(&self, count: u64, whole: bool) {
        if whole && self.waiting.load(Ordering::Relaxed) == 1 {
            // Nothing waits now. The next piece reads the clock.
            self.written.fetch_add(count, Ordering::Relaxed);
            return;
        }
        let written = self.written.fetch_add(count, Ordering::Relaxed) + count;
        if written - self.marked.load(Ordering::Relaxed) < PROGRESS as u64 {
            self.active.connection.moved(Instant::now());
            return;
        }
        self.marked.store(written, Ordering::Relaxed);
        self.moved();
    }

    /// How long a piece has waited for the client to read.
    fn stalled(&self) -> Duration {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return Duration::ZERO;
        }
        let moved = Duration::from_millis(self.moved.load(Ordering::Relaxed));
        self.began().elapsed().saturating_sub(moved)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let now = Instant::now();
        let bytes = self.written.load(Ordering::Relaxed);
        match self.report.get_mut().take() {
            Some(Report::Bytes(metrics)) => metrics.count_sent(bytes),
            Some(Report::Whole(report)) => report(Sent {
                bytes,
                elapsed: now.saturating_duration_since(self.began()),
            }),
            None => {}
        }
        self.active.ended = Some(now);
    }
}

impl http_body::Body for InFlightBody {
    type Data = InFlightPiece;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<InFlightPiece>, axum::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| {
                frame.map_data(|bytes| {
                    self.request.waiting.fetch_add(1, Ordering::Relaxed);
                    self.request.moved();
                    InFlightPiece {
                        bytes,
                        request: Arc::clone(&self.request),
                    }
                })
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Buf for InFlightPiece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.bytes.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        let whole = !self.bytes.has_remaining();
        self.request.wrote(count as u64, whole);
    }
}

impl Drop for InFlightPiece {
    fn drop(&mut self) {
        // The time of the write is recorded already.
        self.request.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl StreamExecutor {
    /// Waits until the request in the slot stalls.
    async fn stalled(self, slot: &Slot) {
        loop {
            let request = slot.request.lock().as_ref().and_then(Weak::upgrade);
            let stalled = request.map_or(Duration::ZERO, |request| request.stalled());
            match self.stall_timeout.checked_sub(stalled) {
                None | Some(Duration::ZERO) => return,
                Some(left) => tokio::time::sleep(left).await,
            }
        }
    }

    fn count(self) {
        counter!("almanac_stalled_answers_total", "service" => self.service).increment(1);
    }
}

impl<F> hyper::rt::Executor<F> for StreamExecutor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let streams = *self;
        let (end, ended) = oneshot::channel();
        let slot = Arc::new(Slot {
            request: Mutex::new(None),
            end: Mutex::new(Some(end)),
        });
        // Boxed: the task would hold the future twice, and too long.
        let mut stream = Box::pin(SLOT.scope(Arc::clone(&slot), stream));
        tokio::spawn(async move {
            let stalls = tokio::select! {
                biased;
                _ = stream.as_mut() => false,
                () = streams.stalled(&slot) => true,
            };
            // If it stalls, this resets the stream.
            drop(stream);
            if stalls {
                streams.count();
                return;
            }
            // The connection buffers the rest, which only ends with the whole
            // connection.
            slot.end.lock().take();
            tokio::select! {
                biased;
                _ = ended => {}
                () = streams.stalled(&slot) => {
                    streams.count();
                    if let Some(request) = slot.request.lock().as_ref().and_then(Weak::upgrade) {
                        request.active.connection.abort.cancel();
                    }
                }
            }
        });
    }
}
