//! A response body made of slices.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

/// How much is handed to a connection at a time, in bytes, so that a large
/// answer does not keep others waiting.
const PIECE: usize = 256 << 10;

/// Slices that are sent one after the other, then trailers if there are any.
#[derive(Debug, Default)]
pub(super) struct Slices {
    parts: VecDeque<Bytes>,
    remaining: u64,
    trailers: Option<HeaderMap>,
}

impl Slices {
    pub(super) fn new(parts: impl IntoIterator<Item = Bytes>) -> Self {
        let parts: VecDeque<Bytes> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Self {
            remaining: parts.iter().map(|part| part.len() as u64).sum(),
            parts,
            trailers: None,
        }
    }

    pub(super) fn with_trailers(mut self, trailers: HeaderMap) -> Self {
        self.trailers = Some(trailers);
        self
    }
}

impl Body for Slices {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(part) = self.parts.front_mut() else {
            return Poll::Ready(self.trailers.take().map(|t| Ok(Frame::trailers(t))));
        };
        let piece = part.split_to(part.len().min(PIECE));
        if part.is_empty() {
            self.parts.pop_front();
        }
        self.remaining -= piece.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}
