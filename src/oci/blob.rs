//! A blob on its way.

use bytes::Bytes;
use reqwest::{Response, Url};
use tokio::time::{Instant, timeout_at};

use crate::digest::Digest;
use crate::oci::error::{Error, redacted};
use crate::oci::manifest::Descriptor;
use crate::oci::reference::Reference;
use crate::oci::verify::Verifier;

/// The bytes of a blob as they arrive, verified on the way: the end is
/// reported only when size and digest hold, and more bytes than the descriptor
/// promised stop it at once. Dropping it closes the connection.
pub struct BlobStream {
    reference: Reference,
    digest: Digest,
    url: Url,
    verifier: Verifier,
    deadline: Instant,
    state: State,
}

enum State {
    Open(Response),
    Ended,
    Failed,
}

impl BlobStream {
    /// A stream over the body of `response`, given up at `deadline`.
    pub(super) fn new(
        reference: &Reference,
        descriptor: &Descriptor,
        response: Response,
        deadline: Instant,
    ) -> Self {
        Self {
            reference: reference.clone(),
            digest: descriptor.digest,
            url: response.url().clone(),
            verifier: Verifier::new(descriptor),
            deadline,
            state: State::Open(response),
        }
    }

    /// The next bytes, or `None` at the verified end. After an error it only
    /// gives errors.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let response = match &mut self.state {
            State::Open(response) => response,
            State::Ended => return Ok(None),
            State::Failed => {
                return Err(Error::BlobFailed {
                    reference: self.reference.clone(),
                    digest: self.digest,
                });
            }
        };
        let mismatch = |source| Error::BlobMismatch {
            reference: self.reference.clone(),
            url: redacted(&self.url),
            source,
        };
        let outcome = match timeout_at(self.deadline, response.chunk()).await {
            Err(_) => Err(Error::Timeout {
                reference: self.reference.clone(),
                url: redacted(&self.url),
            }),
            Ok(Err(error)) => Err(Error::of_transport(&self.reference, &self.url, error)),
            Ok(Ok(Some(bytes))) => match self.verifier.update(&bytes) {
                Ok(()) => return Ok(Some(bytes)),
                Err(error) => Err(mismatch(error)),
            },
            Ok(Ok(None)) => self.verifier.finish().map_err(mismatch),
        };
        // Lets go of the connection in both cases.
        self.state = match outcome {
            Ok(()) => State::Ended,
            Err(_) => State::Failed,
        };
        outcome.map(|()| None)
    }
}
