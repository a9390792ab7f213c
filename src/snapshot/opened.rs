//! A revision, opened for reading.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::answers::index::Index;
use crate::answers::rest::facets::FacetRow;
use crate::answers::rest::needs::Needs;
use crate::answers::span::Span;
use crate::snapshot::entry_lookup::EntryLookup;
use crate::snapshot::graphql::schema_error::GraphqlSchema;
use crate::snapshot::meta_lookup::MetaLookup;
use crate::snapshot::slices::slice;
use crate::store::{
    Decoded, Encoding, Files, Groups, History, Revision, Searcher, Store, StoreError,
};
use ::images::digest::Digest;

/// An open revision. It never changes.
pub struct Snapshot {
    pub(super) revision: Revision,
    pub(super) index: Index,
    pub(super) metas: Bytes,
    pub(super) segments: Bytes,
    pub(super) messages: Bytes,
    pub(super) queries: Bytes,
    pub(super) searcher: Searcher,
    history: History,
    pub(super) meta_lookup: MetaLookup,
    pub(super) entry_lookup: EntryLookup,
    pub(super) graphql: OnceLock<GraphqlSchema>,
    pub(super) facets: OnceLock<Vec<FacetRow>>,
    pub(super) needs: OnceLock<Vec<Needs>>,
    pub(super) icons: OnceLock<Vec<Option<Digest>>>,
    gzip: Mutex<Option<Bytes>>,
    zstd: Mutex<Option<Bytes>>,
    pub(super) compressed: Mutex<Option<Groups>>,
    pub(super) is_encoded: watch::Sender<bool>,
    damaged: AtomicBool,
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
        let decoded = decoded(&metas, &meta_lookup);
        let encoded = |encoding| store.encoded(&revision, encoding, decoded);
        let gzip = encoded(Encoding::Gzip);
        let groups = gzip
            .clone()
            .and_then(|gzip| store.groups(revision.id, metas.clone(), gzip));
        Ok(Self {
            meta_lookup,
            damaged: AtomicBool::new(false),
            entry_lookup: EntryLookup::new(&index),
            graphql: OnceLock::new(),
            facets: OnceLock::new(),
            needs: OnceLock::new(),
            icons: OnceLock::new(),
            gzip: Mutex::new(gzip),
            zstd: Mutex::new(encoded(Encoding::Zstd)),
            compressed: Mutex::new(groups),
            is_encoded: watch::Sender::new(false),
            index,
            metas,
            segments,
            messages,
            queries,
            searcher: store.searcher(revision.id),
            history: store.history(),
            revision,
        })
    }

    /// The revision that this is.
    pub fn revision(&self) -> &Revision {
        &self.revision
    }

    /// The history of the store's catalogs.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// All lines.
    pub fn lines(&self) -> Bytes {
        self.metas.clone()
    }

    /// The length and the checksum that all lines must have.
    pub fn decoded(&self) -> Decoded {
        decoded(&self.metas, &self.meta_lookup)
    }

    /// Whether damage was found in its files. It answers nothing then.
    pub fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    pub(super) fn mark_damaged(&self) {
        self.damaged.store(true, Ordering::Relaxed);
    }

    /// All lines in an encoding, if it was made.
    pub fn encoded(&self, encoding: Encoding) -> Option<Bytes> {
        self.encoding(encoding).lock().clone()
    }

    /// Replaces all lines in an encoding: another form of the same content.
    pub fn set_encoded(&self, encoding: Encoding, file: Option<Bytes>) {
        *self.encoding(encoding).lock() = file;
    }

    fn encoding(&self, encoding: Encoding) -> &Mutex<Option<Bytes>> {
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

fn decoded(metas: &Bytes, lookup: &MetaLookup) -> Decoded {
    Decoded {
        length: metas.len() as u64,
        crc: lookup.crcs.last().copied().unwrap_or(0),
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}
