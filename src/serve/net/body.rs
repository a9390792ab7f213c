//! A response body made of slices.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Version};
use http_body::{Body, Frame, SizeHint};

/// How much is handed to a connection at a time, in bytes, so that a large
/// answer does not keep others waiting; and that of the streams of a connection
/// one can be given up alone while it is not all handed over.
const PIECE: usize = 256 << 10;
/// The same for a connection that has one answer at a time: what the system may
/// take of it in one go.
const LARGE_PIECE: usize = 4 << 20;
/// Parts below this many bytes are copied together where several follow each
/// other, up to as much: each would be a write, or a frame of its own. Most
/// bundles are one such piece.
const SMALL: usize = 32 << 10;

/// Slices that are sent one after the other, then trailers if there are any.
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
        parts.retain(|part| !part.is_empty());
        Self {
            remaining: parts.iter().map(|part| part.len() as u64).sum(),
            parts,
            piece: PIECE,
            trailers: None,
        }
    }

    /// For a connection of this version of HTTP.
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

    /// What is sent next.
    fn piece(&mut self) -> Option<Bytes> {
        let small = self.parts.iter().take_while(|part| part.len() < SMALL);
        let mut length = 0;
        let together = small
            .take_while(|part| {
                length += part.len();
                length <= SMALL
            })
            .count();
        if together > 1 {
            let mut piece = BytesMut::with_capacity(SMALL);
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
        let parts = lengths.map(|length| Bytes::from(vec![length as u8; length]));
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
