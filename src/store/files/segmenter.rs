//! Deflate segments: each meta compressed by itself, so that any selection of
//! metas is one gzip stream without compressing anything again.
//!
//! A segment is raw deflate data (RFC 1951) ended by a full flush: it stops at
//! a byte boundary and refers to nothing before it. Segments in any order,
//! closed by an empty final block, are one valid deflate stream.

use std::convert::Infallible;

use flate2::{Compress, Compression, FlushCompress, Status};

/// Makes segments, and reuses its memory for the next one.
pub(crate) struct Segmenter {
    compress: Compress,
    buffer: Box<[u8]>,
}

/// The end of a stream of segments: an empty block with the final bit.
pub const END: [u8; 2] = [0x03, 0x00];

impl Default for Segmenter {
    fn default() -> Self {
        // Level 1: a third of the time of the usual level for 1.4 times its size.
        Self::new(Compression::fast())
    }
}

impl Segmenter {
    pub(crate) fn new(level: Compression) -> Self {
        Self {
            compress: Compress::new(level, false),
            // Filled in place, since growing a vector for each call would
            // clear the new memory each time.
            buffer: vec![0; 64 << 10].into(),
        }
    }

    /// Appends the segment of `bytes` to `out` and returns its length.
    pub(crate) fn append(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let start = out.len();
        let Ok(()) = self.feed(bytes, FlushCompress::Full, |part| {
            out.extend_from_slice(part);
            Ok::<_, Infallible>(())
        });
        out.len() - start
    }

    /// Forgets everything before, so that what follows is made of nothing but its
    /// own bytes.
    pub(crate) fn reset(&mut self) {
        self.compress.reset();
    }

    /// Compresses bytes, as far as the flush asks for it.
    pub(crate) fn feed<E>(
        &mut self,
        bytes: &[u8],
        flush: FlushCompress,
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = bytes;
        loop {
            let (read, written) = (self.compress.total_in(), self.compress.total_out());
            let status = self.compress.compress(rest, &mut self.buffer, flush);
            let read = length(self.compress.total_in() - read);
            let written = length(self.compress.total_out() - written);
            rest = &rest[read..];
            sink(&self.buffer[..written])?;
            // A flush is complete when it did not fill the buffer. An error
            // means that there was nothing left to do.
            let done = written < self.buffer.len();
            if rest.is_empty() && (done || matches!(status, Err(_) | Ok(Status::BufError))) {
                return Ok(());
            }
        }
    }
}

/// The length of a part of a slice.
fn length(bytes: u64) -> usize {
    usize::try_from(bytes).expect("it is not longer than the slice")
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn segments_in_any_order_are_one_stream() {
        let random: Vec<u8> = (0..200_000_u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let even = vec![b'x'; 300_000];
        let texts: [&[u8]; 5] = [b"", b"a", &even, &random, b"{\"schema\":\"x\"}\n"];
        let mut segmenter = Segmenter::default();
        let segments: Vec<Vec<u8>> = texts
            .iter()
            .map(|text| {
                let mut out = Vec::new();
                assert_eq!(segmenter.append(text, &mut out), out.len());
                out
            })
            .collect();
        for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [3, 3, 0, 1, 2]] {
            let mut stream: Vec<u8> = order.iter().flat_map(|i| segments[*i].clone()).collect();
            stream.extend(END);
            let mut read = Vec::new();
            flate2::read::DeflateDecoder::new(&stream[..])
                .read_to_end(&mut read)
                .unwrap();
            let wanted: Vec<u8> = order.iter().flat_map(|i| texts[*i].to_vec()).collect();
            assert!(read == wanted, "order {order:?}");
        }
    }
}
