//! One connection, from its first request to its end, which comes in one of
//! several ways: the client's, an error, almanac's stop, being at nothing for
//! too long, making room for others, or new content.

use std::error::Error;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Request, StatusCode, Version};
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

use crate::serve::net::in_flight::{Answer, Sending, Streams};
use crate::serve::net::limits::Limits;
use crate::serve::net::listen::{Listener, Opened, Peer, ended};
use crate::serve::net::stream::Protocol;

/// How many streams a client of HTTP may have open.
const MAX_HTTP_STREAMS: u32 = 250;
/// The most that is read of a request's head, in bytes.
const MAX_HEAD: usize = 64 << 10;
/// The same for HTTP/2, as its peers count it.
const MAX_HEADERS: u32 = 32 << 10;
/// How much of an answer may be ahead of what a client has room for, in bytes
/// a stream. It is memory that is mapped, for the most part.
const MAX_SEND_BUFFER: usize = 1 << 20;
/// When to try again for a place, in seconds.
const SOON: HeaderValue = HeaderValue::from_static("5");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// How long a connection that was asked to go may stay at nothing.
pub(crate) const LAST: Duration = Duration::from_secs(5);
/// The same when somebody waits for its place.
const LAST_FOR_ROOM: Duration = Duration::from_millis(250);

/// What answers the requests of a port.
pub trait Answers: Clone + Send + Sync + 'static {
    /// Answers a request of a peer; `sending` follows the answer to its end.
    fn answer(
        &self,
        request: Request<Incoming>,
        peer: Peer,
        sending: &Arc<Answer>,
    ) -> impl Future<Output = Response> + Send;
}

/// Handlers find who asks, and what follows the answer, in the request.
impl Answers for Router {
    async fn answer(
        &self,
        mut request: Request<Incoming>,
        peer: Peer,
        sending: &Arc<Answer>,
    ) -> Response {
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(Arc::clone(sending));
        let Ok(response) = self.clone().call(request).await;
        response
    }
}

impl Listener {
    /// Serves what answers over HTTP/1.1 and HTTP/2 until it is stopped. Open
    /// connections then finish what they are at; `connections` tells when.
    pub async fn serve(
        self,
        answers: impl Answers,
        limits: Limits,
        stop: CancellationToken,
        connections: TaskTracker,
    ) {
        // What a request holds is about what a connection does, and one of
        // HTTP/2 has many.
        let most = limits.connections.min(Semaphore::MAX_PERMITS);
        let requests = Arc::new(Semaphore::new(most));
        let context = (answers, limits.clone(), stop.clone(), requests);
        self.accept(&limits, stop, connections, move |opened| {
            let (answers, limits, stop, requests) = context.clone();
            async move {
                let mut builder = builder(&opened, &limits);
                builder.http2().max_concurrent_streams(MAX_HTTP_STREAMS);
                let beyond = opened.beyond;
                let service = front(answers, &opened, move |request, _| {
                    let version = request.version();
                    let refused = |what, most| {
                        let refusal = no_place(version, what, most);
                        Err(Refusal::Answer(Box::new(refusal)))
                    };
                    if let Some(most) = beyond {
                        return refused("connections", most);
                    }
                    if version < Version::HTTP_2 {
                        return Ok(None);
                    }
                    match Arc::clone(&requests).try_acquire_owned() {
                        Ok(permit) => Ok(Some(permit)),
                        Err(_) => refused("requests", most),
                    }
                });
                // A client of HTTP/1.1 cannot be told. What it has begun to say
                // is a head that takes too long.
                let last = match opened.protocol {
                    Protocol::Http2 => LAST,
                    _ => LAST_FOR_ROOM,
                };
                let idle = {
                    let (service, activity) = (opened.service, Arc::clone(&opened.activity));
                    async move {
                        activity.idle(limits.idle_timeout).await;
                        ended(service, "idle");
                        last
                    }
                };
                drive(opened, &builder, service, &stop, idle).await;
            }
        })
        .await;
    }
}

/// What a client of HTTP is told whose connection or request is one too many.
fn no_place(version: Version, what: &str, most: usize) -> Response {
    let text = format!("{most} {what} are open, as many as may be; try again later\n");
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, TEXT);
    headers.insert(RETRY_AFTER, SOON);
    // In HTTP/2 there is no such header: GOAWAY comes.
    if version < Version::HTTP_2 {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// What holds for the connections of all ports.
pub(crate) fn builder(opened: &Opened, limits: &Limits) -> auto::Builder<Streams> {
    let streams = Streams::new(opened.service, limits.stall_timeout);
    let mut builder = auto::Builder::new(streams);
    // A client that does not come to the end of a request's head is at nothing,
    // and ended for that. A timer for each head would cost more than the head.
    builder.http1().max_buf_size(MAX_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEADERS)
        .max_send_buf_size(MAX_SEND_BUFFER)
        .keep_alive_interval(limits.keep_alive)
        .keep_alive_timeout(limits.keep_alive_timeout);
    match opened.protocol {
        Protocol::Http2 => builder.http2_only(),
        _ => builder.http1_only(),
    }
}

/// Why a request is not let in.
pub(crate) enum Refusal {
    /// It is answered with this.
    Answer(Box<Response>),
    /// It counts as never seen: the client makes it again over another
    /// connection (RFC 9113, section 8.7). There is no such thing in HTTP/1.1.
    Unseen,
}

/// Has requests answered and follows each answer to its end. `admit` gets the
/// request and how many others are open on the connection; it may take a place
/// for the answer, or refuse.
pub(crate) fn front<S, A>(
    answers: S,
    opened: &Opened,
    admit: A,
) -> impl Service<
    Request<Incoming>,
    Response = http::Response<Sending>,
    Error = h2::Error,
    Future: Send + 'static,
> + use<S, A>
where
    S: Answers,
    A: Fn(&Request<Incoming>, usize) -> Result<Option<OwnedSemaphorePermit>, Refusal>,
{
    let (activity, peer) = (Arc::clone(&opened.activity), opened.peer);
    service_fn(move |request: Request<Incoming>| {
        let busy = activity.begin();
        let admitted = admit(&request, busy.others());
        let answers = answers.clone();
        async move {
            let permit = match admitted {
                Ok(permit) => permit,
                Err(Refusal::Answer(refusal)) => {
                    let answer = Answer::begin(busy, None);
                    return Ok(refusal.map(|body| answer.sending(body)));
                }
                Err(Refusal::Unseen) => return Err(h2::Reason::REFUSED_STREAM.into()),
            };
            // In here, since it is not known before which task it is.
            let answer = Answer::begin(busy, permit);
            let response = answers.answer(request, peer, &answer).await;
            Ok(response.map(|body| answer.sending(body)))
        }
    })
}

/// What a connection is told.
enum Signal {
    /// To end at once.
    Cut,
    /// To finish what it is at, and to end when it has been at nothing for so
    /// long.
    Go(Duration),
}

/// Serves a connection to its end. When `renew` comes, the client is asked to
/// go, and may stay at nothing for as long as that says.
pub(crate) async fn drive<S, F>(
    opened: Opened,
    builder: &auto::Builder<Streams>,
    service: S,
    stop: &CancellationToken,
    renew: impl Future<Output = Duration> + Send,
) where
    S: Service<
            Request<Incoming>,
            Response = http::Response<Sending>,
            Error = h2::Error,
            Future = F,
        >,
    F: Future<Output = Result<http::Response<Sending>, h2::Error>> + Send + 'static,
{
    let (peer, activity) = (opened.peer.address, opened.activity);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(opened.stream), service));
    // Looking at each of them whenever something moves would take as long as a
    // small answer: so only those are looked at that have something to say.
    let mut signals = FuturesUnordered::<Pin<Box<dyn Future<Output = Signal> + Send + '_>>>::new();
    signals.push(Box::pin(activity.is_cut().map(|()| Signal::Cut)));
    signals.push(Box::pin(
        activity.dismissed().map(|()| Signal::Go(LAST_FOR_ROOM)),
    ));
    signals.push(Box::pin(stop.cancelled().map(|()| Signal::Go(LAST))));
    signals.push(Box::pin(renew.map(Signal::Go)));
    let mut ending: Option<Instant> = None;
    let mut last = LAST;
    let result = loop {
        let over = async {
            // Long enough for the client to hear of it.
            tokio::time::sleep_until(ending.unwrap_or_else(Instant::now) + last).await;
            activity.idle(last).await;
        };
        tokio::select! {
            result = connection.as_mut() => break result,
            () = over, if ending.is_some() => return,
            Some(signal) = signals.next() => match signal {
                Signal::Cut => {
                    ended(opened.service, "stalled");
                    return;
                }
                Signal::Go(_) if ending.is_some() => continue,
                Signal::Go(longest) => last = longest,
            },
        }
        ending = Some(Instant::now());
        connection.as_mut().graceful_shutdown();
    };
    if let Err(error) = result {
        if is_stall(&*error) {
            ended(opened.service, "stalled");
        }
        tracing::debug!(service = opened.service, %peer, %error, "connection ended");
    }
}

/// Whether a connection ended since its client took nothing.
fn is_stall(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return error.kind() == io::ErrorKind::TimedOut;
        }
        cause = error.source();
    }
    false
}
