//! What a snapshot's revision was made of, by the pieces of its files: the next
//! revision copies what was made of the pieces that it has too.

use std::sync::Arc;

use bytes::Bytes;

use crate::snapshot::Snapshot;
use crate::store::{PieceKey, Pieces, Program, Store};

/// What was made of the pieces of a snapshot's files.
pub struct KnownPieces {
    snapshot: Arc<Snapshot>,
    pieces: Pieces,
}

/// What was made of a piece. All of it is as it was written.
pub struct KnownPiece<'a> {
    /// Its lines.
    pub lines: Bytes,
    /// Its parts of messages.
    pub messages: Bytes,
    /// The CRC-32 of these two.
    pub crcs: [u32; 2],
    /// What else is kept.
    pub content: &'a [u8],
}

impl KnownPieces {
    /// What a program made of the pieces of a snapshot's files, if that was kept.
    pub fn of(store: &Store, snapshot: Arc<Snapshot>, program: &Program) -> Option<Self> {
        if snapshot.is_damaged() {
            return None;
        }
        let pieces = store.pieces(&snapshot.revision, program)?;
        Some(Self { snapshot, pieces })
    }

    /// What was made of a piece, if all of it is whole: damage must not be copied.
    pub fn find(&self, key: &PieceKey) -> Option<KnownPiece<'_>> {
        let record = self.pieces.find(key)?;
        let Snapshot {
            metas, messages, ..
        } = &*self.snapshot;
        let [of_lines, of_messages] = record.parts;
        Some(KnownPiece {
            lines: of_lines.of(metas.unchecked())?,
            messages: of_messages.of(messages.unchecked())?,
            crcs: record.parts.map(|part| part.crc),
            content: record.content,
        })
    }
}
