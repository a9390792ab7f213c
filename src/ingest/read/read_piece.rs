//! Pieces of files that were read and encoded, or that an earlier revision has.

use bytes::Bytes;

use crate::answers::grpc::encoder::Encoder;
use crate::ingest::read::piece_content;
use crate::snapshot::{KnownPiece, KnownPieces};
use crate::store::{Kept, Made, PieceKey, Stored};
use fbc::read::{Format, Output, Piece, Reader};

/// The approximate number of bytes of a file that one worker reads at a time.
pub(crate) const PIECE: usize = 512 << 10;

/// A piece that was read and encoded.
#[derive(Default)]
pub(crate) struct ReadPiece {
    /// The path of its file, if it is the first piece of that.
    pub(crate) path: Option<String>,
    pub(crate) output: Output,
    pub(crate) encoder: Encoder,
    pub(crate) stored: Vec<Stored>,
    /// Its lines and messages, if an earlier revision has them. Then those
    /// above are empty.
    copied: Option<[Bytes; 2]>,
    key: Option<PieceKey>,
    crcs: [u32; 2],
    /// What is kept of it for the next revision; empty for nothing.
    content: Vec<u8>,
}

impl ReadPiece {
    /// Reads a piece, unless it is known.
    pub(crate) fn take(
        &mut self,
        reader: &mut Reader,
        piece: &Piece,
        bytes: &[u8],
        known: Option<&KnownPieces>,
    ) {
        if !self.take_known(piece, bytes, known) {
            self.read(reader, piece, bytes);
        }
    }

    /// Takes a piece from an earlier revision, if it is known.
    pub(crate) fn take_known(
        &mut self,
        piece: &Piece,
        bytes: &[u8],
        known: Option<&KnownPieces>,
    ) -> bool {
        known.is_some_and(|known| {
            let found = known.find(&self.key(piece, bytes));
            found.is_some_and(|found| self.copy(found))
        })
    }

    /// What an earlier revision has of the piece with a key.
    pub(crate) fn from_known(key: PieceKey, known: &KnownPieces) -> Option<Self> {
        let mut done = Self {
            key: Some(key),
            ..Self::default()
        };
        done.copy(known.find(&key)?).then_some(done)
    }

    fn copy(&mut self, found: KnownPiece<'_>) -> bool {
        let Some(piece_content::Content {
            output,
            bundles,
            ends,
            stored,
        }) = piece_content::decode(found.content)
        else {
            return false;
        };
        // The memory of lines and messages stays for the next piece.
        let lines = std::mem::take(&mut self.output.lines);
        self.output = Output { lines, ..output };
        (self.encoder.bundles, self.encoder.ends) = (bundles, ends);
        self.stored = stored;
        self.content.extend_from_slice(found.content);
        self.crcs = found.crcs;
        self.copied = Some([found.lines, found.messages]);
        true
    }

    /// Reads a piece.
    pub(crate) fn read(&mut self, reader: &mut Reader, piece: &Piece, bytes: &[u8]) {
        // The number of the file is set when the pieces before are known.
        reader.read(piece, bytes, 0, &mut self.output, &mut self.encoder);
    }

    /// Whether an earlier revision has it.
    pub(crate) fn is_copied(&self) -> bool {
        self.copied.is_some()
    }

    /// Prepares what the next revision may copy. A piece with problems is read again:
    /// it says which file they are in.
    pub(crate) fn keep(&mut self, piece: &Piece, bytes: &[u8]) {
        if self.is_copied() || !self.output.problems.is_empty() {
            return;
        }
        self.key(piece, bytes);
        self.crcs =
            [&self.output.lines, &self.encoder.messages].map(|bytes| crc32fast::hash(bytes));
        piece_content::encode(
            &mut self.output,
            &self.encoder,
            &self.stored,
            &mut self.content,
        );
    }

    /// The key by which the next revision finds it, if it may copy it.
    pub(crate) fn kept_key(&self) -> Option<PieceKey> {
        self.key.filter(|_| !self.content.is_empty())
    }

    fn key(&mut self, piece: &Piece, bytes: &[u8]) -> PieceKey {
        let notation = match piece.format {
            Format::Json => 0,
            Format::Undecided => 1,
            Format::Yaml => 2,
        };
        *self
            .key
            .get_or_insert_with(|| PieceKey::new(notation, bytes))
    }

    /// Its canonical lines.
    pub(crate) fn lines(&self) -> &[u8] {
        match &self.copied {
            Some([lines, _]) => lines,
            None => &self.output.lines,
        }
    }

    /// What it adds to the files of a revision.
    pub(crate) fn made(&self) -> Made<'_> {
        let messages = match &self.copied {
            Some([_, messages]) => messages,
            None => &self.encoder.messages[..],
        };
        let key = self.kept_key();
        Made {
            lines: self.lines(),
            messages,
            metas: &self.output.metas,
            stored: &self.stored,
            kept: key.map(|key| Kept {
                key,
                crcs: self.crcs,
                content: &self.content,
            }),
        }
    }

    /// Forgets the content and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.output.clear();
        self.encoder.clear();
        self.stored.clear();
        self.content.clear();
        (self.copied, self.key, self.path) = (None, None, None);
    }
}
