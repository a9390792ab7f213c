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
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::sync::Semaphore;
use tonic::{Code, Status};

use crate::answers::grpc::framing::{PREFIX, prefix};
use crate::serve::memory_budget;
use crate::serve::net::body::Slices;
use crate::snapshot::{Message, Stream};

/// Parsed once: each response has it.
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// The largest request message, in bytes, as in opm.
const MAX_REQUEST: usize = 4 << 20;
/// The largest message to health and reflection, in bytes: the name of a service,
/// a symbol or a file.
pub(super) const MAX_NAME_REQUEST: usize = 16 << 10;
/// Larger request messages are counted, in bytes. Usual ones are a few names.
const LARGE_REQUEST: usize = 16 << 10;
/// How many large ones are read at once, on all connections: they are held in
/// memory until they are complete.
static LARGE_REQUESTS: Semaphore = Semaphore::const_new(16);
/// How long a client may take to send its request.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads and decodes the one message of a request.
pub(super) async fn read<T: prost::Message + Default>(request: Request) -> Result<T, Status> {
    read_at_most(MAX_REQUEST, request).await
}

/// The same with another limit, in bytes.
pub(super) async fn read_at_most<T: prost::Message + Default>(
    most: usize,
    request: Request,
) -> Result<T, Status> {
    let mut messages = Messages::of(request.into_body(), most);
    let only = tokio::time::timeout(REQUEST_TIMEOUT, messages.only()).await;
    decode(only.map_err(|_| too_late())??)
}

/// Decodes a message of a request.
pub(super) fn decode<T: prost::Message + Default>(message: Bytes) -> Result<T, Status> {
    T::decode(message).map_err(|_| {
        Status::internal(
            "grpc: error unmarshalling request: proto:\u{a0}cannot parse invalid wire-format data",
        )
    })
}

/// The status of a request that does not arrive in time.
pub(super) fn too_late() -> Status {
    Status::deadline_exceeded("the request took too long to arrive")
}

/// The messages of a request.
pub(super) struct Messages {
    body: Body,
    /// The bytes of the next one so far.
    bytes: BytesMut,
    most: usize,
}

impl Messages {
    /// The messages of a body, each at most `most` bytes.
    pub(super) fn of(body: Body, most: usize) -> Self {
        let bytes = BytesMut::new();
        Self { body, bytes, most }
    }

    /// The next message; `None` at the end.
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

    /// The only message of a request.
    async fn only(&mut self) -> Result<Bytes, Status> {
        let message = self.next().await?.ok_or_else(not_whole)?;
        while self.bytes.is_empty() {
            if !self.more().await? {
                return Ok(message);
            }
        }
        Err(Status::internal("the request holds more than one message"))
    }

    /// Reads more bytes; false at the end.
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
    Status::internal("the request's message is incomplete")
}

/// Checks that a request is a gRPC call, or returns the response.
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
    if status == StatusCode::METHOD_NOT_ALLOWED {
        let allowed = HeaderValue::from_static("POST");
        response.headers_mut().insert(ALLOW, allowed);
    }
    *response.status_mut() = status;
    Err(Box::new(response))
}

/// `application/grpc`, optionally with the protobuf encoding.
fn is_grpc(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    matches!(kind, "application/grpc" | "application/grpc+proto")
}

/// One message and the status OK. Its parts are joined as they are sent, so that a
/// client that does not read holds no copies.
pub(super) fn unary(message: Message) -> Response {
    let prefix = Bytes::copy_from_slice(&prefix(length(&message)));
    let mut parts = VecDeque::from(message.parts);
    parts.push_front(prefix);
    respond(Slices::new(parts))
}

/// Framed messages and the status OK, if the memory budget admits the list of
/// their pieces.
pub(super) fn stream(stream: Stream) -> Result<Response, Status> {
    let parts = memory_budget::hold_all(stream.parts).map_err(|_| {
        Status::resource_exhausted("too many responses wait for slow clients, try again later")
    })?;
    Ok(respond(Slices::new(parts)))
}

/// Messages as they are produced, then the status OK.
pub(super) fn live(
    messages: impl futures_util::Stream<Item = Message> + Send + 'static,
) -> Response {
    let messages = messages.map(|message| Frame::data(framed(&message)));
    let end = futures_util::stream::iter([Frame::trailers(ok())]);
    let frames = messages.chain(end).map(Ok::<_, Infallible>);
    begin(Body::new(StreamBody::new(frames)))
}

/// A framed message.
pub(super) fn framed(message: &Message) -> Bytes {
    let mut bytes = BytesMut::with_capacity(PREFIX + message.length);
    bytes.extend_from_slice(&prefix(length(message)));
    for part in &message.parts {
        bytes.extend_from_slice(part);
    }
    bytes.freeze()
}

/// The length of a stored message in its prefix.
#[expect(
    clippy::cast_possible_truncation,
    reason = "stored messages are far below 4 GiB: their size was limited when they were made"
)]
fn length(message: &Message) -> u32 {
    message.length as u32
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

/// The trailers of a successful call.
fn ok() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
    trailers
}

/// A response with a status only.
pub(super) fn error(status: &Status) -> Response {
    let mut response = begin(Body::empty());
    response.headers_mut().extend(trailers(status));
    response
}

/// The trailers of a status.
pub(super) fn trailers(status: &Status) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if status.add_header(&mut headers).is_err() {
        let code = Code::Internal as i32;
        headers.insert(GRPC_STATUS, HeaderValue::from(code));
    }
    headers
}

/// Text of a client, cut to fit into a header.
pub(super) fn shortened(text: &str) -> String {
    const MOST: usize = 1024;
    text.chars().take(MOST).collect()
}
