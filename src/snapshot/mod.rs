//! What is served: a revision opened for reading. It never changes.
//!
//! In memory lie the index and the look-up tables made from it, on disk
//! (mapped) the bytes. `metas` selects canonical metas for HTTP, `queries` finds
//! the stored answers about packages, `registry` answers the questions of the
//! gRPC API, `graphql` those of the GraphQL API, `files` is the catalog as
//! files, `images` what can be pulled of it, `publish` hands snapshots from
//! those who make them to those who serve them.

mod files;
pub mod graphql;
mod images;
mod input;
mod lookup;
mod metas;
mod publish;
mod queries;
mod registry;
mod stream;

use std::sync::OnceLock;
use std::time::SystemTime;

use bytes::Bytes;

pub use images::{Image, ImageCell, ImagePublisher, Images, Mirrored, Shown};
pub use metas::{Encoded, Query, Selection};
pub use publish::{Catalog, Catalogs, Publisher, Roster, Routing, Status};
pub use queries::Provided;
pub use registry::{Message, NotFound};
pub use stream::Stream;

use crate::answers::index::Index;
use crate::answers::span::Span;
use crate::store::{Decoded, Encoding, Files, Revision, Searcher, Store, StoreError};
use lookup::{MetaLookup, RegistryLookup};

/// A revision, open.
pub struct Snapshot {
    revision: Revision,
    index: Index,
    metas: Bytes,
    segments: Bytes,
    messages: Bytes,
    queries: Bytes,
    searcher: Searcher,
    meta_lookup: MetaLookup,
    registry_lookup: RegistryLookup,
    graphql: OnceLock<graphql::Schema>,
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
            crc: meta_lookup.crcs.last().copied().unwrap_or_default(),
        };
        let encoded = |encoding| {
            let file = store.encoded(&revision, encoding, decoded);
            file.map_or_else(OnceLock::new, OnceLock::from)
        };
        Ok(Self {
            meta_lookup,
            registry_lookup: RegistryLookup::new(&index),
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

    /// When the content last changed; whole seconds.
    pub fn modified(&self) -> SystemTime {
        self.revision.modified
    }

    /// All lines.
    pub fn lines(&self) -> Bytes {
        self.metas.clone()
    }

    /// All lines in an encoding, when that was made.
    pub fn encoded(&self, encoding: Encoding) -> Option<Bytes> {
        self.encoding(encoding).get().cloned()
    }

    /// Adds all lines in an encoding, made meanwhile: another form of what is
    /// served, and no other content.
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
    fn message(&self, span: Span) -> Bytes {
        slice(&self.messages, span)
    }
}

/// A piece of a file. A span that the index should not hold gives nothing
/// rather than a panic.
fn slice(file: &Bytes, span: Span) -> Bytes {
    file.slice_ref(bytes(file, span))
}

/// The same, as long as the file is at hand.
fn bytes(file: &Bytes, span: Span) -> &[u8] {
    file.get(span.start as usize..span.end() as usize)
        .unwrap_or_default()
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}
