//! What is served: a revision opened for reading. It never changes.
//!
//! In memory lie the index and the look-up tables made from it, on disk
//! (mapped) the bytes. `metas` selects canonical metas for HTTP, `queries` finds
//! the stored answers about packages, `registry` answers the questions of the
//! gRPC API, `graphql` those of the GraphQL API, `publish` hands snapshots from
//! those who make them to those who serve them.

pub mod graphql;
mod lookup;
mod metas;
mod publish;
mod queries;
mod registry;

use std::sync::OnceLock;
use std::time::SystemTime;

use bytes::Bytes;

pub use metas::{Encoded, Query, Selection};
pub use publish::{Catalog, Catalogs, Publisher, Routing, Status};
pub use queries::Provided;
pub use registry::{ChannelEntry, Message, NotFound, Stream};

use crate::fbc::message::Span;
use crate::store::{Files, Index, Revision, Searcher, Store, StoreError};
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
        Ok(Self {
            meta_lookup: MetaLookup::new(&index),
            registry_lookup: RegistryLookup::new(&index),
            graphql: OnceLock::new(),
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

    /// The bytes of a part of a message.
    fn message(&self, span: Span) -> Bytes {
        slice(&self.messages, span)
    }
}

/// A piece of a file. A span that the index should not hold gives nothing
/// rather than a panic.
fn slice(file: &Bytes, span: Span) -> Bytes {
    let range = span.start as usize..span.end() as usize;
    if range.end <= file.len() {
        file.slice(range)
    } else {
        Bytes::new()
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}
