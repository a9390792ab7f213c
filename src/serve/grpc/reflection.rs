//! `grpc.reflection`, both versions, by tonic. tonic ends a stream with OK when a
//! message cannot be decoded, so each message is checked before.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tower::ServiceExt as _;

use crate::proto;
use crate::serve::grpc::wire::{self, MAX_NAME_REQUEST};

/// Describes the services. Cheap to clone.
#[derive(Clone)]
pub(super) struct Reflection(Router);

impl Reflection {
    pub(super) fn new() -> Result<Self, tonic_reflection::server::Error> {
        let builder = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(
                    tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
                )
        };
        let services = tonic::service::Routes::new(builder().build_v1()?);
        let services = services.add_service(builder().build_v1alpha()?);
        Ok(Self(services.prepare().into_axum_router()))
    }

    /// Answers the only method until the connection is asked to close.
    pub(super) async fn answer(
        &self,
        request: Request,
        closing: CancellationToken,
    ) -> Result<Response, Status> {
        // A stream that crosses with GOAWAY is answered.
        let closing = Some(closing).filter(|closing| !closing.is_cancelled());
        let closing = closing.unwrap_or_default();
        let refused = Arc::new(OnceLock::new());
        let request = request.map(|body| {
            let frames = checked(body, Arc::clone(&refused)).map(Ok::<_, Infallible>);
            Body::new(StreamBody::new(
                frames.take_until(closing.cancelled_owned()),
            ))
        });
        let answered = self.0.clone().oneshot(request);
        let answered = tokio::time::timeout(wire::REQUEST_TIMEOUT, answered).await;
        let Ok(response) = answered.map_err(|_| wire::too_late())?;
        if let Some(status) = Status::from_header_map(response.headers()) {
            return Err(status);
        }
        Ok(response.map(|body| {
            Body::new(
                body.map_frame(move |frame| match (frame.into_trailers(), refused.get()) {
                    (Ok(_), Some(status)) => Frame::trailers(wire::trailers(status)),
                    (Ok(trailers), None) => Frame::trailers(trailers),
                    (Err(frame), _) => frame,
                }),
            )
        }))
    }
}

/// The framed messages of a request up to the first invalid one, whose status goes
/// to `refused`.
fn checked(body: Body, refused: Arc<OnceLock<Status>>) -> impl Stream<Item = Frame<Bytes>> + Send {
    let messages = wire::Messages::of(body, MAX_NAME_REQUEST);
    stream::unfold((messages, refused), async |(mut messages, refused)| {
        // Both versions have the same messages.
        let next = messages.next().await.and_then(|message| {
            message.map_or(Ok(None), |message| {
                wire::decode::<ServerReflectionRequest>(message.clone())?;
                Ok(Some(message))
            })
        });
        match next {
            Ok(message) => {
                let frame = Frame::data(wire::framed(&message?.into()));
                Some((frame, (messages, refused)))
            }
            Err(status) => {
                // The stream ends here, so this is the only one.
                let _ = refused.set(status);
                None
            }
        }
    })
}
