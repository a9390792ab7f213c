//! What is being answered, from the request to the last byte that the client
//! took: how long, how much, and whether it goes on.
//!
//! The body of an answer is handed to hyper long before it is written, and h2
//! keeps what no window is open for. So each piece of a body holds on to its
//! [`Answer`] until it has been written or thrown away; only then is the
//! connection free of it, its place is given back and it is reported.

use std::future::Future;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf, Bytes};
use http_body::{Frame, SizeHint};
use metrics::{Counter, counter};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use crate::serve::net::connection_state::Busy;

tokio::task_local! {
    /// Where the answer is put that a task of [`Streams`] gives.
    static SLOT: Arc<Slot>;
}

/// How much a client has to take of what waits for it, in bytes, for it to count
/// as taken: not a byte at a time.
pub(crate) const PROGRESS: usize = 4 << 10;

/// What is being answered.
pub struct Answer {
    /// Bytes that were written.
    written: AtomicU64,
    /// Pieces that were handed on and are not written yet.
    waiting: AtomicUsize,
    /// When a piece was last handed on, or [`PROGRESS`] more bytes written, in
    /// milliseconds since it began; and how many were written then.
    moved: AtomicU64,
    marked: AtomicU64,
    report: Mutex<Option<Report>>,
    busy: Busy,
    /// Given back at the end.
    _permit: Option<OwnedSemaphorePermit>,
    /// Gone at the end.
    _end: Mutex<Option<oneshot::Sender<()>>>,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// Bytes of its body that were written.
    pub(crate) bytes: u64,
    /// From the request to the last of them.
    pub(crate) elapsed: Duration,
}

/// Who hears of it.
enum Report {
    /// Only the bytes count.
    Bytes(&'static Counter),
    Whole(Box<dyn FnOnce(Sent) + Send>),
}

/// The body of an answer.
pub(crate) struct Sending {
    body: Body,
    answer: Arc<Answer>,
}

/// A piece of it.
pub(crate) struct Piece {
    bytes: Bytes,
    answer: Arc<Answer>,
}

/// Runs the streams of HTTP/2 connections, each in a task of its own, and ends
/// those whose client takes nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams {
    service: &'static str,
    stall_timeout: Duration,
}

#[derive(Default)]
struct Slot {
    answer: Mutex<Option<Weak<Answer>>>,
    end: Mutex<Option<oneshot::Sender<()>>>,
}

impl Answer {
    /// An answer that begins now. In a task of [`Streams`], that looks after it
    /// from now on.
    pub(crate) fn begin(busy: Busy, permit: Option<OwnedSemaphorePermit>) -> Arc<Self> {
        let end = SLOT.try_with(|slot| lock(&slot.end).take());
        let answer = Arc::new(Self {
            written: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            moved: AtomicU64::new(0),
            marked: AtomicU64::new(0),
            report: Mutex::new(None),
            busy,
            _permit: permit,
            _end: Mutex::new(end.ok().flatten()),
        });
        let _ = SLOT.try_with(|slot| *lock(&slot.answer) = Some(Arc::downgrade(&answer)));
        answer
    }

    /// When its request came.
    pub(crate) fn began(&self) -> Instant {
        self.busy.began()
    }

    /// Calls this with what became of the answer, once that is known.
    pub(crate) fn report(&self, report: impl FnOnce(Sent) + Send + 'static) {
        *lock(&self.report) = Some(Report::Whole(Box::new(report)));
    }

    /// Counts its bytes, once they are sent.
    pub(crate) fn count_bytes(&self, counter: &'static Counter) {
        *lock(&self.report) = Some(Report::Bytes(counter));
    }

    /// The body to send.
    pub(crate) fn sending(self: Arc<Self>, body: Body) -> Sending {
        Sending { body, answer: self }
    }

    fn moved(&self) {
        let now = Instant::now();
        let since = now.saturating_duration_since(self.began());
        self.moved
            .store(since.as_millis() as u64, Ordering::Relaxed);
        self.busy.connection().moved(now);
    }

    /// Bytes of a piece were written, and whether it was the whole rest of it.
    fn wrote(&self, count: u64, whole: bool) {
        if whole && self.waiting.load(Ordering::Relaxed) == 1 {
            // Nothing waits now; what comes next looks at the clock.
            self.written.fetch_add(count, Ordering::Relaxed);
            return;
        }
        let written = self.written.fetch_add(count, Ordering::Relaxed) + count;
        if written - self.marked.load(Ordering::Relaxed) < PROGRESS as u64 {
            self.busy.connection().moved(Instant::now());
            return;
        }
        self.marked.store(written, Ordering::Relaxed);
        self.moved();
    }

    /// How long something has waited for the client to take it.
    fn stalled(&self) -> Duration {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return Duration::ZERO;
        }
        let moved = Duration::from_millis(self.moved.load(Ordering::Relaxed));
        self.began().elapsed().saturating_sub(moved)
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let now = Instant::now();
        let bytes = self.written.load(Ordering::Relaxed);
        let report = self.report.get_mut();
        match report.unwrap_or_else(PoisonError::into_inner).take() {
            Some(Report::Bytes(counter)) => counter.increment(bytes),
            Some(Report::Whole(report)) => report(Sent {
                bytes,
                elapsed: now.saturating_duration_since(self.began()),
            }),
            None => {}
        }
        self.busy.ends(now);
    }
}

impl http_body::Body for Sending {
    type Data = Piece;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, axum::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| {
                frame.map_data(|bytes| {
                    self.answer.waiting.fetch_add(1, Ordering::Relaxed);
                    self.answer.moved();
                    Piece {
                        bytes,
                        answer: Arc::clone(&self.answer),
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

impl Buf for Piece {
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
        self.answer.wrote(count as u64, whole);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        // When it was written is known already.
        self.answer.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Streams {
    /// Ends a stream when its client takes nothing for that long.
    pub(crate) fn new(service: &'static str, stall_timeout: Duration) -> Self {
        Self {
            service,
            stall_timeout,
        }
    }

    /// Waits until the answer in the slot stalls.
    async fn stalled(self, slot: &Slot) {
        loop {
            let answer = lock(&slot.answer).as_ref().and_then(Weak::upgrade);
            let stalled = answer.map_or(Duration::ZERO, |answer| answer.stalled());
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

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let streams = *self;
        let (end, ended) = oneshot::channel();
        let slot = Arc::new(Slot {
            answer: Mutex::new(None),
            end: Mutex::new(Some(end)),
        });
        // The task would hold it twice, and for longer than it is needed.
        let mut stream = Box::pin(SLOT.scope(Arc::clone(&slot), stream));
        tokio::spawn(async move {
            let stalls = tokio::select! {
                biased;
                _ = stream.as_mut() => false,
                () = streams.stalled(&slot) => true,
            };
            // When it stalls this resets the stream.
            drop(stream);
            if stalls {
                streams.count();
                return;
            }
            // What is left is the connection's, and nothing that could be
            // taken back but all of it.
            lock(&slot.end).take();
            tokio::select! {
                biased;
                _ = ended => {}
                () = streams.stalled(&slot) => {
                    streams.count();
                    if let Some(answer) = lock(&slot.answer).as_ref().and_then(Weak::upgrade) {
                        answer.busy.connection().cut();
                    }
                }
            }
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
