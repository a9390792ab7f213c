//! The handle of an open store.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::store::content::{CacheLimits, Contents};
use crate::store::error::StoreError;
use crate::store::revision::RevisionId;

/// The folder of the revisions.
pub(super) const REVISIONS: &str = "revisions";

/// The store in one data folder. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) folder: Arc<Path>,
    pub(super) pool: sqlx::SqlitePool,
    pub(super) contents: Contents,
    pub(super) cache: CacheLimits,
    /// Held while a revision's folder is removed or gets another file.
    pub(super) folders: Arc<Mutex<()>>,
    /// Held as long as the store is open.
    pub(super) _lock: Arc<File>,
}

impl Store {
    /// The store in a folder whose lock is held.
    pub(super) fn new(
        folder: &Path,
        pool: sqlx::SqlitePool,
        contents: Contents,
        cache: CacheLimits,
        lock: File,
    ) -> Self {
        Self {
            folder: folder.into(),
            pool,
            contents,
            cache,
            folders: Arc::default(),
            _lock: Arc::new(lock),
        }
    }

    /// Begins to write. A transaction that reads first and then writes fails
    /// when another one has written in between; this one waits for the other.
    pub(super) async fn begin(&self) -> Result<sqlx::Transaction<'_, sqlx::Sqlite>, StoreError> {
        let begun = self.pool.begin_with("BEGIN IMMEDIATE").await;
        begun.map_err(StoreError::sql("begin"))
    }

    /// A folder in the same file system for files of a pass.
    pub fn temporary(&self) -> PathBuf {
        self.revisions_folder()
    }

    /// Closes the database, which folds its log into the file.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    pub(super) fn revisions_folder(&self) -> PathBuf {
        self.folder.join(REVISIONS)
    }

    pub(super) fn revision_folder(&self, id: RevisionId) -> PathBuf {
        self.revisions_folder().join(id.to_string())
    }
}
