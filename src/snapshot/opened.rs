//! A revision, opened for reading.

use std::sync::OnceLock;

use bytes::Bytes;

use crate::answers::index::Index;
use crate::answers::span::Span;
use crate::snapshot::entry_lookup::EntryLookup;
use crate::snapshot::graphql::schema_error::GraphqlSchema;
use crate::snapshot::meta_lookup::MetaLookup;
use crate::snapshot::slices::slice;
use crate::store::{Decoded, Encoding, Files, Revision, Searcher, Store, StoreError};

/// An open revision. It never changes.
pub struct Snapshot {
    pub(super) revision: Revision,
    pub(super) index: Index,
    pub(super) metas: Bytes,
    pub(super) segments: Bytes,
    pub(super) messages: Bytes,
    pub(super) queries: Bytes,
    pub(super) searcher: Searcher,
    pub(super) meta_lookup: MetaLookup,
    pub(super) entry_lookup: EntryLookup,
    pub(super) graphql: OnceLock<GraphqlSchema>,
    gzip: OnceLock<Bytes>,
    zstd: OnceLock<Bytes>,
}

impl Snapshot {
    /// Opens a revision of the store.
    pub fn open(store: &Store, revision: Revision) -> Result<Self, StoreError> {
        let Files {
            index,
            metas,
            segments,
            messages,
            queries,
        } = store.open_revision(&revision)?;
        let meta_lookup = MetaLookup::new(&index);
        let decoded = Decoded {
            length: metas.len() as u64,
            crc: meta_lookup.crcs.last().copied().unwrap_or(0),
        };
        let encoded = |encoding| {
            let file = store.encoded(&revision, encoding, decoded);
            file.map_or_else(OnceLock::new, OnceLock::from)
        };
        Ok(Self {
            meta_lookup,
            entry_lookup: EntryLookup::new(&index),
            graphql: OnceLock::new(),
            gzip: encoded(Encoding::Gzip),
            zstd: encoded(Encoding::Zstd),
            index,
            metas,
            segments,
            messages,
            queries,
            searcher: store.searcher(revision.id),
            revision,
        })
    }

    /// The revision that this is.
    pub fn revision(&self) -> &Revision {
        &self.revision
    }

    /// All lines.
    pub fn lines(&self) -> Bytes {
        self.metas.clone()
    }

    /// All lines in an encoding, if it was made.
    pub fn encoded(&self, encoding: Encoding) -> Option<Bytes> {
        self.encoding(encoding).get().cloned()
    }

    /// Adds all lines in an encoding: another form of the same content.
    pub fn add_encoded(&self, encoding: Encoding, file: Bytes) {
        // The first one stays.
        let _ = self.encoding(encoding).set(file);
    }

    fn encoding(&self, encoding: Encoding) -> &OnceLock<Bytes> {
        match encoding {
            Encoding::Gzip => &self.gzip,
            Encoding::Zstd => &self.zstd,
        }
    }

    /// The bytes of a part of a message.
    pub(super) fn message(&self, span: Span) -> Bytes {
        slice(&self.messages, span)
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}
