//! One connection, from its first request to its end: the client closes it, it
//! fails, almanac stops, it is idle for too long, others need its slot, or new
//! content was published.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::pin::pin;
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
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

use crate::serve::metrics::count_ended;
use crate::serve::net::date;
use crate::serve::net::in_flight::{InFlight, InFlightBody, Permits, StreamExecutor};
use crate::serve::net::limits::Limits;
use crate::serve::net::listen::{Listener, Opened, Peer};
use crate::serve::net::stream::Protocol;

/// How many streams a client of HTTP may have open.
const MAX_HTTP_STREAMS: u32 = 250;
/// The largest head of a request, in bytes.
const MAX_HEAD: usize = 64 << 10;
/// The same for HTTP/2, in its own way of counting.
const MAX_HEADERS: u32 = 32 << 10;
/// How much of a response may be buffered beyond the client's window, in bytes a
/// stream. Most of it is mapped memory.
const MAX_SEND_BUFFER: usize = 1 << 20;
/// `Retry-After` of a request beyond a limit, in seconds.
const SOON: HeaderValue = HeaderValue::from_static("5");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// How long a connection may stay idle after it was asked to close.
pub(crate) const LAST: Duration = Duration::from_secs(5);
/// The same when another client waits for its slot.
const LAST_FOR_ROOM: Duration = Duration::from_millis(250);

/// Handles the requests of a port.
pub trait RequestHandler: Clone + Send + Sync + 'static {
    /// Responds to a request. `in_flight` lasts until the response is sent.
    fn handle(
        &self,
        request: Request<Incoming>,
        peer: Peer,
        in_flight: &Arc<InFlight>,
    ) -> impl Future<Output = Response> + Send;
}

/// Routes find the peer and the [`InFlight`] in the extensions of a request.
impl RequestHandler for Router {
    async fn handle(
        &self,
        mut request: Request<Incoming>,
        peer: Peer,
        in_flight: &Arc<InFlight>,
    ) -> Response {
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(Arc::clone(in_flight));
        let Ok(response) = self.clone().call(request).await;
        response
    }
}

impl Listener {
    /// Serves HTTP/1.1 and HTTP/2 until `stop`. Open connections then finish their
    /// requests; `connections` tracks them.
    pub async fn serve(
        self,
        handler: impl RequestHandler,
        limits: Limits,
        stop: CancellationToken,
        connections: TaskTracker,
    ) {
        // A request takes about as much memory as a connection, and HTTP/2
        // connections have many.
        let most = limits.connections.min(Semaphore::MAX_PERMITS);
        let requests = Arc::new(Semaphore::new(most));
        let context = (handler, limits.clone(), stop.clone(), requests);
        self.accept(&limits, stop, connections, move |opened| {
            let (handler, limits, stop, requests) = context.clone();
            async move {
                let mut builder = builder(&opened, &limits);
                builder.http2().max_concurrent_streams(MAX_HTTP_STREAMS);
                let beyond = opened.beyond;
                let service = follow(handler, &opened, move |request, _| {
                    let version = request.version();
                    let rejected = |what, most| Err(Box::new(over_limit(version, what, most)));
                    if let Some(most) = beyond {
                        return rejected("connections", most);
                    }
                    if version < Version::HTTP_2 {
                        return Ok(Permits::default());
                    }
                    match Arc::clone(&requests).try_acquire_owned() {
                        Ok(permit) => Ok([Some(permit), None]),
                        Err(_) => rejected("requests", most),
                    }
                });
                // HTTP/1.1 has no GOAWAY. If the client has sent a part of a head,
                // that took too long.
                let last = match opened.protocol {
                    Protocol::Http2 => LAST,
                    _ => LAST_FOR_ROOM,
                };
                let idle = {
                    let (service, state) = (opened.service, Arc::clone(&opened.state));
                    async move {
                        state.wait_until_idle(limits.idle_timeout).await;
                        count_ended(service, "idle");
                        last
                    }
                };
                drive(opened, &builder, service, &stop, idle).await;
            }
        })
        .await;
    }
}

/// The response to a request or connection beyond the limits.
fn over_limit(version: Version, what: &str, most: usize) -> Response {
    let text = format!("{most} {what} are open, which is the limit; try again later\n");
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, TEXT);
    headers.insert(RETRY_AFTER, SOON);
    // HTTP/2 has GOAWAY instead of this header.
    if version < Version::HTTP_2 {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The settings of connections on all ports.
pub(crate) fn builder(opened: &Opened, limits: &Limits) -> auto::Builder<StreamExecutor> {
    let streams = StreamExecutor {
        service: opened.service,
        stall_timeout: limits.stall_timeout,
    };
    let mut builder = auto::Builder::new(streams);
    // A connection with an incomplete head counts as idle and is closed. A timer
    // for each head would cost more than the head.
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

/// The service of a connection: it follows each response to its end. `admit` gets
/// the request and the number of others that are open on the connection. It may
/// return permits to hold meanwhile, or a response that rejects the request.
pub(crate) fn follow<S, A>(
    handler: S,
    opened: &Opened,
    admit: A,
) -> impl Service<
    Request<Incoming>,
    Response = http::Response<InFlightBody>,
    Error = Infallible,
    Future: Send + 'static,
> + use<S, A>
where
    S: RequestHandler,
    A: Fn(&Request<Incoming>, usize) -> Result<Permits, Box<Response>>,
{
    let (state, peer) = (Arc::clone(&opened.state), opened.peer);
    service_fn(move |request: Request<Incoming>| {
        let active = state.begin();
        let admitted = admit(&request, active.others);
        let handler = handler.clone();
        async move {
            let (permits, rejected) = match admitted {
                Ok(permits) => (permits, None),
                Err(response) => (Permits::default(), Some(*response)),
            };
            // Not earlier: it has to run in the task of its stream.
            let in_flight = InFlight::begin(active, permits);
            let mut response = match rejected {
                Some(response) => response,
                None => handler.handle(request, peer, &in_flight).await,
            };
            date::set(response.headers_mut());
            Ok(response.map(|body| in_flight.body(body)))
        }
    })
}

/// A signal to a connection.
enum Signal {
    /// Close at once.
    Abort,
    /// Finish open requests, and close after being idle for this long.
    Close(Duration),
}

/// Serves a connection to its end. When `renew` completes, the client is asked to
/// close, and may stay idle for the returned time.
pub(crate) async fn drive<S, F>(
    opened: Opened,
    builder: &auto::Builder<StreamExecutor>,
    service: S,
    stop: &CancellationToken,
    renew: impl Future<Output = Duration> + Send,
) where
    S: Service<
            Request<Incoming>,
            Response = http::Response<InFlightBody>,
            Error = Infallible,
            Future = F,
        >,
    F: Future<Output = Result<http::Response<InFlightBody>, Infallible>> + Send + 'static,
{
    let (peer, state) = (opened.peer.address, opened.state);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(opened.stream), service));
    // Polling each of these whenever the connection wakes up would take as long
    // as a small response. This set only polls those that woke up.
    let asked = state.asked_to_close.cancelled();
    let mut signals = FuturesUnordered::from_iter([
        state.abort.cancelled().map(|()| Signal::Abort).boxed(),
        asked.map(|()| Signal::Close(LAST_FOR_ROOM)).boxed(),
        stop.cancelled().map(|()| Signal::Close(LAST)).boxed(),
        renew.map(Signal::Close).boxed(),
    ]);
    let mut ending: Option<Instant> = None;
    let mut last = LAST;
    let result = loop {
        let over = async {
            // Long enough for the client to receive it.
            tokio::time::sleep_until(ending.unwrap_or_else(Instant::now) + last).await;
            state.wait_until_idle(last).await;
        };
        tokio::select! {
            result = connection.as_mut() => break result,
            () = over, if ending.is_some() => return,
            Some(signal) = signals.next() => match signal {
                Signal::Abort => {
                    count_ended(opened.service, "stalled");
                    return;
                }
                Signal::Close(_) if ending.is_some() => continue,
                Signal::Close(longest) => last = longest,
            },
        }
        ending = Some(Instant::now());
        connection.as_mut().graceful_shutdown();
    };
    if let Err(error) = result {
        if is_stall(&*error) {
            count_ended(opened.service, "stalled");
        }
        tracing::debug!(service = opened.service, %peer, %error, "connection ended");
    }
}

/// Whether a connection ended because its client stopped reading.
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
