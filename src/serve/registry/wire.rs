//! gRPC over HTTP/2: one request message in, framed messages and a status out.
//! The protocol: <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt as _;
use tokio::sync::Semaphore;
use tonic::{Code, Status};

use crate::serve::body::Slices;
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
/// Bytes before each message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// Reads and decodes the one message of a request.
pub(super) async fn read<T: prost::Message + Default>(request: Request) -> Result<T, Status> {
    let bytes = tokio::time::timeout(REQUEST_TIMEOUT, message(request.into_body()))
        .await
        .unwrap_or_else(|_| {
            Err(Status::deadline_exceeded(
                "the request took too long to arrive",
            ))
        })?;
    T::decode(bytes).map_err(|_| {
        Status::internal(
            "grpc: error unmarshalling request: proto:\u{a0}cannot parse invalid wire-format data",
        )
    })
}

async fn message(mut body: Body) -> Result<Bytes, Status> {
    let mut bytes = BytesMut::new();
    let mut length = None;
    let mut _large = None;
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Status::cancelled(format!("the request broke off: {error}")))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        bytes.extend_from_slice(&data);
        if length.is_none() && bytes.len() >= PREFIX {
            let compressed = bytes.get_u8() != 0;
            let announced = bytes.get_u32() as usize;
            if compressed {
                return Err(Status::unimplemented(
                    "compressed requests are not supported",
                ));
            }
            if announced > MAX_REQUEST {
                return Err(Status::resource_exhausted(format!(
                    "grpc: received message larger than max ({announced} vs. {MAX_REQUEST})"
                )));
            }
            if announced > LARGE_REQUEST {
                let permit = LARGE_REQUESTS.try_acquire().map_err(|_| {
                    Status::resource_exhausted("too many large requests, try again later")
                })?;
                _large = Some(permit);
            }
            length = Some(announced);
        }
        if length.is_some_and(|length| bytes.len() > length) {
            return Err(Status::internal("the request holds more than one message"));
        }
    }
    match length {
        Some(length) if bytes.len() == length => Ok(bytes.freeze()),
        _ => Err(Status::internal("the request's message is not whole")),
    }
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
    let mut prefix = BytesMut::with_capacity(PREFIX);
    prefix.put_u8(0);
    prefix.put_u32(message.length as u32);
    respond(Slices::new(
        std::iter::once(prefix.freeze()).chain(message.parts),
    ))
}

/// Messages and the status OK. Their parts are small, and copied together:
/// every part would be a frame of its own on the wire.
pub(super) fn frames(messages: impl IntoIterator<Item = Message>) -> Response {
    let mut bytes = BytesMut::new();
    for message in messages {
        bytes.reserve(PREFIX + message.length);
        bytes.put_u8(0);
        bytes.put_u32(message.length as u32);
        for part in &message.parts {
            bytes.extend_from_slice(part);
        }
    }
    respond(Slices::new([bytes.freeze()]))
}

/// Messages that were framed before, and the status OK.
pub(super) fn stream(stream: Stream) -> Response {
    respond(Slices::new([stream.frames]))
}

fn respond(body: Slices) -> Response {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let mut response = Response::new(Body::new(body.with_trailers(trailers)));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// No message and a status that says why.
pub(super) fn refuse(status: &Status) -> Response {
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    if status.add_header(headers).is_err() {
        let code = Code::Internal as i32;
        headers.insert("grpc-status", HeaderValue::from(code));
    }
    response
}

/// A text of a client, cut to what fits into a header.
pub(super) fn shortened(text: &str) -> String {
    const MOST: usize = 1024;
    text.chars().take(MOST).collect()
}
