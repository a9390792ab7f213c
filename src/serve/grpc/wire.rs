//! gRPC over HTTP/2: one request message in, framed messages and a status out.
//! The protocol: <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::StreamExt as _;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::sync::Semaphore;
use tonic::{Code, Status};

use crate::answers::grpc::framing::{PREFIX, prefix};
use crate::serve::net::body::Slices;
use crate::serve::worker_pool;
use crate::snapshot::{Message, Stream};

/// The largest request message, in bytes, as the peer has it.
const MAX_REQUEST: usize = 4 << 20;
/// A request message that is larger than this is a large one, in bytes. What
/// clients ask with are a few names.
const LARGE_REQUEST: usize = 16 << 10;
/// How many large ones are read at once, on all connections: they are held in
/// memory until they are whole.
static LARGE_REQUESTS: Semaphore = Semaphore::const_new(16);
/// How long a client may take to send its request.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads and decodes the one message of a request.
pub(super) async fn read<T: prost::Message + Default>(request: Request) -> Result<T, Status> {
    read_at_most(MAX_REQUEST, request).await
}

/// The same, with a limit of its own, in bytes.
pub(super) async fn read_at_most<T: prost::Message + Default>(
    most: usize,
    request: Request,
) -> Result<T, Status> {
    let mut messages = Messages::of(request.into_body(), most);
    let only = tokio::time::timeout(REQUEST_TIMEOUT, messages.only()).await;
    decode(only.map_err(|_| too_late())??)
}

/// A message of a request.
pub(super) fn decode<T: prost::Message + Default>(message: Bytes) -> Result<T, Status> {
    T::decode(message).map_err(|_| {
        Status::internal(
            "grpc: error unmarshalling request: proto:\u{a0}cannot parse invalid wire-format data",
        )
    })
}

/// What a client is told whose request does not come.
pub(super) fn too_late() -> Status {
    Status::deadline_exceeded("the request took too long to arrive")
}

/// The messages of a request.
pub(super) struct Messages {
    body: Body,
    /// What has come of the next one.
    bytes: BytesMut,
    most: usize,
}

impl Messages {
    /// Of a body, none larger than so many bytes.
    pub(super) fn of(body: Body, most: usize) -> Self {
        let bytes = BytesMut::new();
        Self { body, bytes, most }
    }

    /// The next one; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        while self.bytes.len() < PREFIX {
            if !self.more().await? {
                if self.bytes.is_empty() {
                    return Ok(None);
                }
                return Err(not_whole());
            }
        }
        let compressed = self.bytes.get_u8() != 0;
        let length = self.bytes.get_u32() as usize;
        if compressed {
            return Err(Status::unimplemented(
                "compressed requests are not supported",
            ));
        }
        if length > self.most {
            return Err(Status::resource_exhausted(format!(
                "grpc: received message larger than max ({length} vs. {})",
                self.most
            )));
        }
        let _large = if length > LARGE_REQUEST {
            Some(LARGE_REQUESTS.try_acquire().map_err(|_| {
                Status::resource_exhausted("too many large requests, try again later")
            })?)
        } else {
            None
        };
        while self.bytes.len() < length {
            if !self.more().await? {
                return Err(not_whole());
            }
        }
        Ok(Some(self.bytes.split_to(length).freeze()))
    }

    /// The one message of a request that has no other.
    async fn only(&mut self) -> Result<Bytes, Status> {
        let message = self.next().await?.ok_or_else(not_whole)?;
        while self.bytes.is_empty() {
            if !self.more().await? {
                return Ok(message);
            }
        }
        Err(Status::internal("the request holds more than one message"))
    }

    /// Waits for more bytes; false at the end.
    async fn more(&mut self) -> Result<bool, Status> {
        let Some(frame) = self.body.frame().await else {
            return Ok(false);
        };
        let frame =
            frame.map_err(|error| Status::cancelled(format!("the request broke off: {error}")))?;
        if let Ok(data) = frame.into_data() {
            self.bytes.extend_from_slice(&data);
        }
        Ok(true)
    }
}

fn not_whole() -> Status {
    Status::internal("the request's message is not whole")
}

/// Whether this is a gRPC call at all; else the answer to it.
pub(super) fn check(request: &Request) -> Result<(), Box<Response>> {
    let kind = request
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    let status = if request.method() != Method::POST {
        StatusCode::METHOD_NOT_ALLOWED
    } else if is_grpc(kind) {
        return Ok(());
    } else {
        StatusCode::UNSUPPORTED_MEDIA_TYPE
    };
    let mut response = Response::new(Body::from("this port speaks gRPC only\n"));
    *response.status_mut() = status;
    Err(Box::new(response))
}

/// `application/grpc`, with an encoding behind it that is protobuf.
fn is_grpc(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    matches!(kind, "application/grpc" | "application/grpc+proto")
}

/// A single message and the status OK. Its parts are put together as they are
/// sent: a client that does not read them shall not make us hold copies.
pub(super) fn unary(message: Message) -> Response {
    let prefix = Bytes::copy_from_slice(&prefix(message.length as u32));
    let parts = std::iter::once(prefix).chain(message.parts);
    respond(Slices::new(parts.collect::<VecDeque<_>>()))
}

/// Messages that were framed before, and the status OK, if there is room to
/// hold the list of their pieces until the client takes them.
pub(super) fn stream(stream: Stream) -> Result<Response, Status> {
    let parts = worker_pool::hold_all(stream.parts).map_err(|_| {
        Status::resource_exhausted(
            "too many answers wait for clients that do not take them, try again later",
        )
    })?;
    Ok(respond(Slices::new(parts)))
}

/// Messages as they come, and the status OK at their end.
pub(super) fn live(
    messages: impl futures_util::Stream<Item = Message> + Send + 'static,
) -> Response {
    let messages = messages.map(|message| Frame::data(framed(&message)));
    let end = futures_util::stream::iter([Frame::trailers(ok())]);
    let frames = messages.chain(end).map(Ok::<_, Infallible>);
    begin(Body::new(StreamBody::new(frames)))
}

/// A message with its prefix.
pub(super) fn framed(message: &Message) -> Bytes {
    let mut bytes = BytesMut::with_capacity(PREFIX + message.length);
    bytes.extend_from_slice(&prefix(message.length as u32));
    for part in &message.parts {
        bytes.extend_from_slice(part);
    }
    bytes.freeze()
}

fn respond(body: Slices) -> Response {
    begin(Body::new(body.with_trailers(ok())))
}

fn begin(body: Body) -> Response {
    let mut response = Response::new(body);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// What an answer ends with that is no refusal.
fn ok() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    trailers
}

/// No message and a status that says why.
pub(super) fn refuse(status: &Status) -> Response {
    let mut response = begin(Body::empty());
    response.headers_mut().extend(end(status));
    response
}

/// What an answer ends with that a status says something of.
pub(super) fn end(status: &Status) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if status.add_header(&mut headers).is_err() {
        let code = Code::Internal as i32;
        headers.insert("grpc-status", HeaderValue::from(code));
    }
    headers
}

/// A text of a client, cut to what fits into a header.
pub(super) fn shortened(text: &str) -> String {
    const MOST: usize = 1024;
    text.chars().take(MOST).collect()
}
