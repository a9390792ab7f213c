//! Reading responses.

use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use reqwest::Response;

use crate::error::Error;
use crate::reference::Reference;
use crate::registry::message::RegistryMessage;
use crate::registry::retry_after::retry_after;
use crate::registry::url::redacted;

/// The largest error document that is read, in bytes.
const MAX_ERROR_DOCUMENT: usize = 64 << 10;

/// The error of a failed response, with the message of the registry.
pub(super) async fn status_error(
    reference: &Reference,
    response: Response,
    with_credentials: bool,
) -> Error {
    let status = response.status();
    let retry_after = retry_after(response.headers(), SystemTime::now());
    let url = redacted(response.url());
    // A failed response without a readable body still has its status.
    let body = body(reference, response, MAX_ERROR_DOCUMENT).await;
    Error::Status {
        reference: reference.clone(),
        url,
        status,
        message: RegistryMessage::parse(&body.unwrap_or_default()),
        retry_after,
        with_credentials,
    }
}

/// The whole body of a response, of at most `limit` bytes.
pub(super) async fn body(
    reference: &Reference,
    mut response: Response,
    limit: usize,
) -> Result<Bytes, Error> {
    let url = response.url().clone();
    let too_large = || Error::TooLarge {
        reference: reference.clone(),
        url: redacted(&url),
        limit,
    };
    if response
        .content_length()
        .is_some_and(|length| length > limit as u64)
    {
        return Err(too_large());
    }
    let mut bytes = BytesMut::new();
    loop {
        let chunk = response.chunk().await;
        match chunk.map_err(|error| Error::of_transport(reference, &url, error))? {
            None => return Ok(bytes.freeze()),
            Some(chunk) if chunk.len() > limit - bytes.len() => return Err(too_large()),
            Some(chunk) => bytes.extend_from_slice(&chunk),
        }
    }
}

/// Whether the response is a success with a body.
pub(super) fn is_ok(response: &Response) -> bool {
    response.status() == StatusCode::OK
}
