//! A revision, opened for reading.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::answers::index::Index;
use crate::answers::rest::facets::FacetRow;
use crate::answers::rest::needs::Needs;
use crate::answers::span::Span;
use crate::snapshot::content_date::{ContentDate, Modified};
use crate::snapshot::encodings::Encodings;
use crate::snapshot::entry_lookup::EntryLookup;
use crate::snapshot::graphql::schema_error::GraphqlSchema;
use crate::snapshot::meta_lookup::MetaLookup;
use crate::snapshot::slices::slice;
use crate::store::{
    CheckedFile, Decoded, Encoding, Files, Groups, History, KnownSegments, Revision, Searcher,
    Segments, Store, StoreError,
};
use ::images::digest::Digest;

/// An open revision. It never changes.
pub struct Snapshot {
    pub(super) revision: Revision,
    date: ContentDate,
    pub(super) index: Index,
    pub(super) metas: CheckedFile,
    pub(super) messages: CheckedFile,
    pub(super) queries: CheckedFile,
    pub(super) searcher: Searcher,
    history: History,
    pub(super) meta_lookup: MetaLookup,
    pub(super) entry_lookup: EntryLookup,
    pub(super) graphql: OnceLock<GraphqlSchema>,
    pub(super) facets: OnceLock<Vec<FacetRow>>,
    pub(super) needs: OnceLock<Vec<Needs>>,
    pub(super) icons: OnceLock<Vec<Option<Digest>>>,
    pub(super) encodings: Mutex<Encodings>,
    /// Segments of a snapshot before, until this one has its own.
    pub(super) segments_before: Mutex<Option<KnownSegments>>,
    pub(super) compressed: Mutex<Option<Groups>>,
    /// The encodings that were made, or will not be.
    pub(super) ended: watch::Sender<Vec<Encoding>>,
    damaged: AtomicBool,
}

impl Snapshot {
    /// Opens a revision of the store.
    pub fn open(store: &Store, revision: Revision) -> Result<Self, StoreError> {
        let Files {
            index,
            metas,
            messages,
            queries,
        } = store.open_revision(&revision)?;
        let meta_lookup = MetaLookup::new(&index);
        let decoded = decoded(&metas, &meta_lookup);
        let encoded = |encoding| store.encoded(&revision, encoding, decoded);
        let mut encodings = Encodings::default();
        let gzip = encoded(Encoding::Gzip);
        encodings.set_whole(Encoding::Gzip, gzip.clone());
        encodings.set_whole(Encoding::Zstd, encoded(Encoding::Zstd));
        let segments = encoded(Encoding::Segments);
        let segments = segments.and_then(|file| {
            let segments = Segments::open(file.bytes, &meta_lookup.lines)?;
            Some((segments, file.sum))
        });
        encodings.set_segments(segments);
        let mut ended = Encoding::ALL.to_vec();
        ended.retain(|encoding| encodings.whole(*encoding).is_some());
        let groups =
            gzip.and_then(|gzip| store.groups(revision.id, metas.unchecked().clone(), gzip.bytes));
        Ok(Self {
            date: ContentDate::new(revision.modified),
            meta_lookup,
            damaged: AtomicBool::new(false),
            entry_lookup: EntryLookup::new(&index),
            graphql: OnceLock::new(),
            facets: OnceLock::new(),
            needs: OnceLock::new(),
            icons: OnceLock::new(),
            encodings: Mutex::new(encodings),
            segments_before: Mutex::default(),
            compressed: Mutex::new(groups),
            ended: watch::Sender::new(ended),
            index,
            metas,
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

    /// When its content changed, for conditional requests.
    pub fn modified(&self) -> Modified {
        self.date.at(SystemTime::now())
    }

    /// Takes the place of an earlier snapshot of the catalog.
    pub(super) fn follow(&self, before: &Self) {
        self.date.follow(&before.date, SystemTime::now());
    }

    /// The history of the store's catalogs.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// All lines, as they lie on the disk: whoever takes them compares them.
    pub fn lines(&self) -> Bytes {
        self.metas.unchecked().clone()
    }

    /// The length and the checksum that all lines must have.
    pub fn decoded(&self) -> Decoded {
        decoded(&self.metas, &self.meta_lookup)
    }

    /// Whether damage was found in its files. It answers nothing then.
    pub fn is_damaged(&self) -> bool {
        let files = [&self.metas, &self.messages, &self.queries];
        self.damaged.load(Ordering::Relaxed) || files.into_iter().any(CheckedFile::is_damaged)
    }

    /// Whether a part was found damaged when it was to be used, an encoding included.
    pub fn has_damage(&self) -> bool {
        self.is_damaged() || !self.damaged_encodings().is_empty()
    }

    /// Whether any of its messages can be compared with their sums in no time.
    pub fn has_quick_messages(&self) -> bool {
        self.messages.is_quick()
    }

    /// The same of stored answers about packages.
    pub fn has_quick_answers(&self) -> bool {
        self.queries.is_quick()
    }

    pub(super) fn mark_damaged(&self) {
        self.damaged.store(true, Ordering::Relaxed);
    }

    /// The bytes of a part of a message.
    pub(super) fn message(&self, span: Span) -> Bytes {
        slice(&self.messages, span)
    }
}

fn decoded(metas: &CheckedFile, lookup: &MetaLookup) -> Decoded {
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
