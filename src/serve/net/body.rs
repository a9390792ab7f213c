//! A response body made of slices.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Version};
use http_body::{Body, Frame, SizeHint};

/// How much of a response a connection gets at a time, in bytes. Large responses
/// then do not delay others, and a stalled stream can be aborted alone while the
/// connection has not taken all of it.
const PIECE: usize = 256 << 10;
/// The same for HTTP/1.1, which has one response at a time: as much as the system
/// may take in one write.
const LARGE_PIECE: usize = 4 << 20;
/// Consecutive parts below this size are copied together up to this size: each
/// would otherwise be a write or frame of its own. Most bundles are one piece.
const SMALL: usize = 32 << 10;

/// Slices that are sent in order, then optional trailers.
#[derive(Debug)]
pub(crate) struct Slices {
    parts: VecDeque<Bytes>,
    remaining: u64,
    /// The longest piece, in bytes.
    piece: usize,
    trailers: Option<HeaderMap>,
}

impl Slices {
    pub(crate) fn new(parts: impl Into<VecDeque<Bytes>>) -> Self {
        let mut parts = parts.into();
        let mut remaining = 0;
        parts.retain(|part| {
            remaining += part.len() as u64;
            !part.is_empty()
        });
        Self {
            remaining,
            parts,
            piece: PIECE,
            trailers: None,
        }
    }

    /// Sets the piece size for this version of HTTP.
    pub(crate) fn over(mut self, version: Version) -> Self {
        if version < Version::HTTP_2 {
            self.piece = LARGE_PIECE;
        }
        self
    }

    pub(crate) fn with_trailers(mut self, trailers: HeaderMap) -> Self {
        self.trailers = Some(trailers);
        self
    }

    /// The next piece.
    fn piece(&mut self) -> Option<Bytes> {
        let (mut together, mut length) = (0, 0);
        for part in &self.parts {
            // A part of this size is sent without a copy.
            if length + part.len() > SMALL || part.len() == SMALL {
                break;
            }
            length += part.len();
            together += 1;
        }
        if together > 1 {
            let mut piece = BytesMut::with_capacity(length);
            for part in self.parts.drain(..together) {
                piece.extend_from_slice(&part);
            }
            return Some(piece.freeze());
        }
        let part = self.parts.front_mut()?;
        let piece = part.split_to(part.len().min(self.piece));
        if part.is_empty() {
            self.parts.pop_front();
        }
        Some(piece)
    }
}

impl Body for Slices {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(piece) = self.piece() else {
            return Poll::Ready(self.trailers.take().map(|t| Ok(Frame::trailers(t))));
        };
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

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn small_parts_are_sent_together_and_large_ones_in_pieces() {
        let lengths = [5, 100, SMALL, 7, SMALL - 7, 1, PIECE + 3, 9];
        let parts = lengths.map(|length| Bytes::from(vec![length.to_le_bytes()[0]; length]));
        let whole = parts.concat();
        let mut body = Slices::new(parts);
        assert_eq!(body.size_hint().exact(), Some(whole.len() as u64));
        let (mut sizes, mut sent) = (Vec::new(), Vec::new());
        while let Some(frame) = body.frame().await {
            let piece = frame.unwrap().into_data().unwrap();
            sizes.push(piece.len());
            sent.extend_from_slice(&piece);
        }
        assert_eq!(sizes, [105, SMALL, SMALL, 1, PIECE, 12]);
        assert!(sent == whole);
        assert!(body.is_end_stream());
    }
}
