//! Pieces of files that were read and encoded.

use crate::answers::grpc::encoder::Encoder;
use crate::store::Stored;
use fbc::read::{Output, Piece, Reader};

/// The approximate number of bytes of a file that one worker reads at a time.
pub(super) const PIECE: usize = 1 << 20;

/// A piece that was read and encoded.
#[derive(Default)]
pub(super) struct Done {
    /// The number of its file.
    pub(super) file: u32,
    pub(super) output: Output,
    pub(super) encoder: Encoder,
    pub(super) segments: Vec<u8>,
    pub(super) stored: Vec<Stored>,
}

impl Done {
    /// Reads a piece.
    pub(super) fn read(&mut self, reader: &mut Reader, piece: &Piece, bytes: &[u8]) {
        // The number of the file is set when the order of files is known.
        reader.read(piece, bytes, 0, &mut self.output, &mut self.encoder);
    }

    /// Forgets the content and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.output.clear();
        self.encoder.clear();
        self.segments.clear();
        self.stored.clear();
    }

    /// The bytes of its largest parts.
    pub(super) fn size(&self) -> usize {
        self.output.lines.capacity() + self.encoder.messages.capacity()
    }
}
