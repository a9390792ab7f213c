//! Reading responses.

use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use reqwest::{Response, Url};

use crate::display::clip;
use crate::error::{Error, Login};
use crate::reference::Reference;
use crate::registry::message::RegistryMessage;
use crate::registry::url::{redacted, same_origin};

/// The largest error document that is read, in bytes.
const MAX_ERROR_DOCUMENT: usize = 64 << 10;
/// The longest name of an encoding that an error repeats, in characters.
const MAX_ENCODING: usize = 50;
/// The longest wait that a registry can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);

/// The error of a failed response to a request for `requested`, with the message
/// of that host. What another host says behind a redirect is left out: it is not
/// the registry's, and may be none of the registry's business.
pub(super) async fn status_error(
    reference: &Reference,
    requested: &Url,
    response: Response,
    login: Login,
) -> Error {
    let status = response.status();
    let retry_after = retry_after(response.headers(), SystemTime::now());
    let url = redacted(response.url());
    let is_plain = response.url().scheme() == "http";
    let is_own = same_origin(requested, response.url());
    let login = if is_own { login } else { Login::OtherHost };
    // A failed response without a readable body still has its status.
    let body = if is_own {
        body(reference, response, MAX_ERROR_DOCUMENT).await.ok()
    } else {
        None
    };
    let body = body.unwrap_or_default();
    Error::Status {
        reference: reference.clone(),
        url,
        status,
        message: RegistryMessage::parse(status, &body),
        retry_after,
        login,
        expects_tls: is_plain && wants_tls(status, &body),
    }
}

/// Whether the answer to a request without TLS asks for TLS, as servers do in words of
/// their own.
pub fn wants_tls(status: StatusCode, body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body).to_ascii_lowercase();
    status == StatusCode::BAD_REQUEST
        && ["https", "tls", "ssl"]
            .iter()
            .any(|word| text.contains(word))
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
        match chunk.map_err(|error| Error::from_transport(reference, &url, error))? {
            None => return Ok(bytes.freeze()),
            Some(chunk) if chunk.len() > limit - bytes.len() => return Err(too_large()),
            Some(chunk) => bytes.extend_from_slice(&chunk),
        }
    }
}

/// The encoding of a body. None was requested, but some servers store layers with the
/// name of their compression.
pub(super) fn encoding(response: &Response) -> Option<String> {
    let encoding = response.headers().get(CONTENT_ENCODING)?;
    let encoding = String::from_utf8_lossy(encoding.as_bytes());
    let encoding = encoding.trim();
    let is_none = encoding.is_empty() || encoding.eq_ignore_ascii_case("identity");
    (!is_none).then(|| clip(encoding, MAX_ENCODING))
}

/// Whether the response is a success with a body.
pub(super) fn is_ok(response: &Response) -> bool {
    response.status() == StatusCode::OK
}

/// `Retry-After` in seconds or as a date, at most an hour.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // A number with too many digits is above the cap as well.
        text.parse().map_or(MAX_RETRY_AFTER, Duration::from_secs)
    } else {
        let date = httpdate::parse_http_date(text).ok()?;
        // A date in the past means no wait.
        date.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn retry_after_is_seconds_or_a_date_and_capped() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (text, seconds) in [
            ("7", Some(7)),
            (" 7 ", Some(7)),
            ("0", Some(0)),
            ("86400", Some(3600)),
            ("99999999999999999999999999", Some(3600)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("Sat, 06 Nov 2094 08:00:00 GMT", Some(3600)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            let headers = [(RETRY_AFTER, HeaderValue::from_str(text).unwrap())];
            let wait = retry_after(&headers.into_iter().collect(), now);
            assert_eq!(wait.map(|wait| wait.as_secs()), seconds, "{text}");
        }
    }
}
