//! A blob on its way.
//!
//! Registries, their blob stores and the proxies before them cut bodies. What
//! came stays: the rest is asked for with `Range`, and size and digest are
//! held against the whole. A server that does not know ranges sends all again,
//! and what is there already is passed over; since that costs, a blob never
//! takes more than about twice its bytes.

use bytes::{Buf as _, Bytes};
use http::StatusCode;
use http::header::CONTENT_RANGE;
use reqwest::{Response, Url};
use tokio::time::{Instant, timeout_at};

use crate::digest::Digest;
use crate::error::{Error, redacted};
use crate::manifest::Descriptor;
use crate::reference::Reference;
use crate::registry::client::Client;
use crate::registry::gate::Place;
use crate::registry::retry::Retries;
use crate::verify::{Verifier, VerifyError};

/// What a blob may cost beyond twice its size, in bytes: a small one may be
/// begun again as often as there are attempts.
const SLACK: u64 = 1 << 20;

/// The bytes of a blob as they arrive, verified on the way: the end is
/// reported only when size and digest hold, and more bytes than the descriptor
/// promised stop it at once. After a cut it goes on by itself, as long as
/// something comes of that. Dropping it closes the connection.
pub struct BlobStream {
    client: Client,
    wanted: Wanted,
    verifier: Verifier,
    retries: Retries,
    deadline: Instant,
    /// Bytes that come again and are not needed.
    skip: u64,
    transferred: u64,
    resumptions: u32,
    state: State,
    _place: Place,
}

/// What a stream is of.
pub(crate) struct Wanted {
    pub(crate) reference: Reference,
    /// Where the registry has it, before any redirect.
    pub(crate) url: Url,
    pub(crate) accept: &'static str,
    descriptor: Descriptor,
}

enum State {
    Open(Response),
    Ended,
    Failed,
}

impl Wanted {
    pub(crate) fn new(
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
    /// A stream over the body of `response`, given up at `deadline`.
    pub(crate) fn new(
        client: Client,
        wanted: Wanted,
        response: Response,
        deadline: Instant,
        place: Place,
    ) -> Self {
        Self {
            verifier: Verifier::new(&wanted.descriptor),
            retries: client.retries(),
            client,
            wanted,
            deadline,
            skip: 0,
            transferred: 0,
            resumptions: 0,
            state: State::Open(response),
            _place: place,
        }
    }

    /// The next bytes, or `None` at the verified end. After an error it only
    /// gives errors.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let outcome = self.advance().await;
        // Lets go of the connection in both cases.
        match outcome {
            Ok(Some(_)) => {}
            Ok(None) => self.state = State::Ended,
            Err(_) => self.state = State::Failed,
        }
        outcome
    }

    /// How many bytes have come, those that came twice counted twice.
    pub fn transferred(&self) -> u64 {
        self.transferred
    }

    /// How often it went on after a cut.
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
                        reference: self.wanted.reference.clone(),
                        digest: self.digest(),
                    });
                }
            };
            let url = response.url().clone();
            let error = match timeout_at(self.deadline, response.chunk()).await {
                Err(_) => return Err(self.late(&url)),
                Ok(Ok(Some(mut bytes))) => {
                    self.transferred += bytes.len() as u64;
                    let known = self.skip.min(bytes.len() as u64);
                    self.skip -= known;
                    bytes.advance(known as usize);
                    if bytes.is_empty() {
                        continue;
                    }
                    self.verifier
                        .update(&bytes)
                        .map_err(|source| self.mismatch(&url, source))?;
                    self.retries.progress();
                    return Ok(Some(bytes));
                }
                // A connection may break when all has come.
                Ok(_) if self.verifier.missing() == 0 => {
                    return match self.verifier.finish() {
                        Ok(()) => Ok(None),
                        Err(source) => Err(self.mismatch(&url, source)),
                    };
                }
                Ok(Err(error)) => Error::of_transport(&self.wanted.reference, &url, error),
                Ok(Ok(None)) => self.mismatch(
                    &url,
                    VerifyError::TooShort {
                        digest: self.digest(),
                        size: self.wanted.descriptor.size,
                        actual: self.verifier.received(),
                    },
                ),
            };
            self.resume(error).await?;
        }
    }

    /// Gets an answer with the rest, after `error` ended the one before.
    async fn resume(&mut self, mut error: Error) -> Result<(), Error> {
        // Before any wait: the connection is of no use any more.
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
                "a body broke off; asking for the rest"
            );
            tokio::time::sleep_until(next).await;
            let rest = self.client.rest(&self.wanted, from);
            match timeout_at(self.deadline, rest).await {
                Err(_) => return Err(self.late(&self.wanted.url)),
                Ok(Err(next)) => error = next,
                Ok(Ok(response)) => {
                    self.skip = if response.status() == StatusCode::PARTIAL_CONTENT {
                        self.check_range(&response, from)?;
                        0
                    } else if self.is_too_dear() {
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

    /// Whether an answer is the part from `from` on.
    fn check_range(&self, response: &Response, from: u64) -> Result<(), Error> {
        let size = self.wanted.descriptor.size;
        let range = response.headers().get(CONTENT_RANGE);
        let range = range.and_then(|range| range.to_str().ok());
        match range.and_then(content_range) {
            Some((start, end, total))
                if start == from && end < size && total.is_none_or(|total| total == size) =>
            {
                Ok(())
            }
            _ => Err(Error::Range {
                reference: self.wanted.reference.clone(),
                url: redacted(response.url()),
                from,
                size,
            }),
        }
    }

    /// Whether all of it once more, from a server that knows no ranges, would
    /// be too much.
    fn is_too_dear(&self) -> bool {
        let size = self.wanted.descriptor.size;
        let limit = size.saturating_mul(2).saturating_add(SLACK);
        self.transferred.saturating_add(size) > limit
    }

    fn digest(&self) -> Digest {
        self.wanted.descriptor.digest
    }

    fn late(&self, url: &Url) -> Error {
        Error::Timeout {
            reference: self.wanted.reference.clone(),
            url: redacted(url),
        }
    }

    fn mismatch(&self, url: &Url, source: VerifyError) -> Error {
        Error::BlobMismatch {
            reference: self.wanted.reference.clone(),
            url: redacted(url),
            source,
        }
    }
}

/// First byte, last byte and, unless it is `*`, size of the whole.
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
    fn a_range_is_read_as_it_is_written() {
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
