//! A revision without content, for tests of other levels.

use ::images::digest::Digest;
use tempfile::TempDir;

use crate::answers::index::Index;
use crate::name::CatalogName;
use crate::snapshot::Snapshot;
use crate::store::{Counts, NewRevision, Revision, SourceIdentity, Store};

/// A stored revision, with its store.
pub struct Stored {
    store: Store,
    revision: Revision,
    _folder: TempDir,
}

impl Stored {
    /// Stores a revision of this catalog from this source.
    ///
    /// # Panics
    /// When the disk fails.
    pub async fn new(name: &CatalogName, source: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).await.unwrap();
        let finished = store.write_revision().unwrap().finish(Index::default());
        let new = NewRevision {
            catalog: name,
            identity: SourceIdentity::from_text(source),
            digest: Digest::of(b""),
            counts: Counts::default(),
            blobs: &[],
            problems: &[],
            search: &[],
        };
        let revision = store.commit(finished.unwrap(), new).await.unwrap();
        Self {
            store,
            revision,
            _folder: folder,
        }
    }

    /// Opens the revision once more.
    ///
    /// # Panics
    /// When the disk fails.
    pub fn open(&self) -> Snapshot {
        Snapshot::open(&self.store, self.revision.clone()).unwrap()
    }
}
