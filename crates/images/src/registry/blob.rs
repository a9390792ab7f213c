//! Streaming a blob, with resumption.
//!
//! Registries, blob stores and proxies cut bodies. The received bytes stay
//! valid: the rest is requested with `Range`, and size and digest are verified
//! for the whole. A server without ranges sends everything again, and the known
//! bytes are skipped. A blob transfers at most about twice its size.

use bytes::{Buf as _, Bytes};
use http::StatusCode;
use http::header::CONTENT_RANGE;
use reqwest::{Response, Url};
use tokio::time::{Instant, timeout_at};

use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::Descriptor;
use crate::reference::Reference;
use crate::registry::request_limits::RequestPermit;
use crate::registry::response::encoding;
use crate::registry::retry::Retries;
use crate::registry::session::Session;
use crate::registry::url::redacted;
use crate::verify::{Verifier, VerifyError};

/// The allowed transfer beyond twice the size, in bytes: a small blob can start
/// again for each attempt.
const SLACK: u64 = 1 << 20;

/// The bytes of a blob, verified as they arrive. The end is reported only if
/// size and digest match, and the first byte too many is an error. After a cut
/// the stream resumes, as long as it makes progress. Dropping it closes the
/// connection.
pub struct BlobStream {
    session: Session,
    request: BlobRequest,
    verifier: Verifier,
    retries: Retries,
    deadline: Instant,
    /// Known bytes that the server sends again.
    skip: u64,
    transferred: u64,
    resumptions: u32,
    state: State,
    _permit: RequestPermit,
}

/// The request for a blob.
pub(super) struct BlobRequest {
    pub(super) reference: Reference,
    /// The address at the registry, before any redirect.
    pub(super) url: Url,
    pub(super) accept: &'static str,
    descriptor: Descriptor,
}

enum State {
    Open(Response),
    Ended,
    Failed,
}

impl BlobRequest {
    pub(super) fn new(
        reference: &Reference,
        descriptor: &Descriptor,
        url: &Url,
        accept: &'static str,
    ) -> Self {
        Self {
            reference: reference.clone(),
            url: url.clone(),
            accept,
            descriptor: descriptor.clone(),
        }
    }
}

impl BlobStream {
    /// A stream of the body of `response`, which ends at `deadline`.
    pub(super) fn new(
        session: Session,
        request: BlobRequest,
        response: Response,
        deadline: Instant,
        permit: RequestPermit,
    ) -> Self {
        Self {
            verifier: Verifier::new(&request.descriptor),
            retries: session.retries(),
            session,
            request,
            deadline,
            skip: 0,
            transferred: 0,
            resumptions: 0,
            state: State::Open(response),
            _permit: permit,
        }
    }

    /// The next bytes, or `None` at the verified end. After an error all
    /// further calls fail.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let outcome = self.advance().await;
        // Closes the connection in both cases.
        match outcome {
            Ok(Some(_)) => {}
            Ok(None) => self.state = State::Ended,
            Err(_) => self.state = State::Failed,
        }
        outcome
    }

    /// The number of transferred bytes, including repeated ones.
    pub fn transferred(&self) -> u64 {
        self.transferred
    }

    /// The number of resumptions.
    pub fn resumptions(&self) -> u32 {
        self.resumptions
    }

    async fn advance(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let response = match &mut self.state {
                State::Open(response) => response,
                State::Ended => return Ok(None),
                State::Failed => {
                    return Err(Error::BlobFailed {
                        reference: self.request.reference.clone(),
                        digest: self.digest(),
                    });
                }
            };
            let (url, encoding) = (response.url().clone(), encoding(response));
            let error = match timeout_at(self.deadline, response.chunk()).await {
                Err(_) => return Err(self.late(&url)),
                Ok(Ok(Some(mut bytes))) => {
                    self.transferred += bytes.len() as u64;
                    let known =
                        usize::try_from(self.skip).map_or(bytes.len(), |n| n.min(bytes.len()));
                    self.skip -= known as u64;
                    bytes.advance(known);
                    if bytes.is_empty() {
                        continue;
                    }
                    self.verifier
                        .update(&bytes)
                        .map_err(|source| self.mismatch(&url, encoding, source))?;
                    self.retries.progress();
                    return Ok(Some(bytes));
                }
                // The connection can break after the last byte.
                Ok(_) if self.verifier.missing() == 0 => {
                    return match self.verifier.finish() {
                        Ok(()) => Ok(None),
                        Err(source) => Err(self.mismatch(&url, encoding, source)),
                    };
                }
                Ok(Err(error)) => Error::from_transport(&self.request.reference, &url, error),
                Ok(Ok(None)) => self.mismatch(
                    &url,
                    encoding,
                    VerifyError::TooShort {
                        digest: self.digest(),
                        size: self.request.descriptor.size,
                        actual: self.verifier.received(),
                    },
                ),
            };
            self.resume(error).await?;
        }
    }

    /// Requests the rest, after `error` ended the response before.
    async fn resume(&mut self, mut error: Error) -> Result<(), Error> {
        // Closes the connection before the wait.
        self.state = State::Failed;
        loop {
            let Some(wait) = self.retries.after(&error) else {
                return Err(error);
            };
            let next = Instant::now() + wait;
            if next >= self.deadline {
                return Err(error);
            }
            let from = self.verifier.received();
            tracing::debug!(
                digest = %self.digest(), from, reason = error.reason(), ?wait, %error,
                "a body broke off; requesting the rest"
            );
            tokio::time::sleep_until(next).await;
            let rest = self.session.rest(
                &self.request.reference,
                &self.request.url,
                self.request.accept,
                from,
            );
            match timeout_at(self.deadline, rest).await {
                Err(_) => return Err(self.late(&self.request.url)),
                Ok(Err(next)) => error = next,
                Ok(Ok(response)) => {
                    self.skip = if response.status() == StatusCode::PARTIAL_CONTENT {
                        self.check_range(&response, from)?;
                        0
                    } else if self.exceeds_transfer_limit() {
                        return Err(error);
                    } else {
                        from
                    };
                    self.resumptions += 1;
                    self.state = State::Open(response);
                    return Ok(());
                }
            }
        }
    }

    /// Checks that a response has the bytes after the first `from`.
    fn check_range(&self, response: &Response, from: u64) -> Result<(), Error> {
        let size = self.request.descriptor.size;
        let range = response.headers().get(CONTENT_RANGE);
        let range = range.and_then(|range| range.to_str().ok());
        match range.and_then(content_range) {
            Some((start, end, total))
                if start == from && end < size && total.is_none_or(|total| total == size) =>
            {
                Ok(())
            }
            _ => Err(Error::Range {
                reference: self.request.reference.clone(),
                url: redacted(response.url()),
                from,
                size,
            }),
        }
    }

    /// Whether another transfer of the whole, from a server without ranges,
    /// would exceed the limit.
    fn exceeds_transfer_limit(&self) -> bool {
        let size = self.request.descriptor.size;
        let limit = size.saturating_mul(2).saturating_add(SLACK);
        self.transferred.saturating_add(size) > limit
    }

    fn digest(&self) -> Digest {
        self.request.descriptor.digest
    }

    fn late(&self, url: &Url) -> Error {
        Error::Timeout {
            reference: self.request.reference.clone(),
            url: redacted(url),
        }
    }

    fn mismatch(&self, url: &Url, encoding: Option<String>, source: VerifyError) -> Error {
        if let Some(encoding) = encoding {
            return Error::Encoded {
                reference: self.request.reference.clone(),
                url: redacted(url),
                encoding,
            };
        }
        Error::BlobMismatch {
            reference: self.request.reference.clone(),
            url: redacted(url),
            source,
        }
    }
}

/// The first byte, the last byte and, unless it is `*`, the total size.
fn content_range(text: &str) -> Option<(u64, u64, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (start.trim().parse().ok()?, end.trim().parse().ok()?);
    let total = match total.trim() {
        "*" => None,
        total => Some(total.parse().ok()?),
    };
    (start <= end).then_some((start, end, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_range_is_parsed() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, 9, Some(10))));
        assert_eq!(content_range("bytes 5-9/*"), Some((5, 9, None)));
        for none in [
            "",
            "bytes",
            "bytes */10",
            "bytes 9-5/10",
            "items 0-1/2",
            "bytes a-b/c",
        ] {
            assert_eq!(content_range(none), None, "{none}");
        }
    }
}
