//! The handle of an open store.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::store::content::{CacheLimits, Contents};
use crate::store::database::DATABASE;
use crate::store::error::StoreError;
use crate::store::revision::RevisionId;

/// Locked by the process that writes.
pub(super) const LOCK: &str = "lock";
/// The folder of the revisions.
pub(super) const REVISIONS: &str = "revisions";
/// The names of folders in it begin with this until their revision is committed.
pub(super) const INCOMING: &str = "new-";

/// The store in one data folder. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) folder: Arc<Path>,
    pub(super) pool: sqlx::SqlitePool,
    pub(super) contents: Contents,
    pub(super) cache: CacheLimits,
    /// Held while a revision's folder is removed or gets another file.
    pub(super) folders: Arc<Mutex<()>>,
    /// Why the data folder cannot be written, if it cannot.
    pub(super) unwritable: watch::Sender<Option<Arc<str>>>,
    /// Outlines that no row names any more and that are too young to be removed.
    pub(super) young_outlines: Arc<Mutex<HashSet<PathBuf>>>,
    /// Held as long as the store is open.
    pub(super) lock: Arc<File>,
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
            young_outlines: Arc::default(),
            unwritable: watch::Sender::default(),
            lock: Arc::new(lock),
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

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Why the data folder cannot be written, if it cannot.
    pub fn unwritable(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.unwritable.subscribe()
    }

    /// Records why the data folder cannot be written.
    pub fn set_unwritable(&self, error: &StoreError) {
        self.unwritable.send_replace(Some(error.to_string().into()));
    }

    /// A part of the data folder that was removed or replaced, if there is one. This
    /// blocks.
    pub fn removed_part(&self) -> Option<PathBuf> {
        let lock = self.folder.join(LOCK);
        let is_gone = |path: &Path| match fs::metadata(path) {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(now) => {
                let held = self.lock.metadata().map(|held| (held.dev(), held.ino()));
                path == lock && held.is_ok_and(|held| held != (now.dev(), now.ino()))
            }
        };
        let mut parts = vec![lock.clone(), self.folder.join(DATABASE)];
        // Until the folder can be written, these may be absent: nothing created them.
        if self.unwritable.borrow().is_none() {
            parts.push(self.revisions_folder());
            parts.push(self.contents.folder().to_owned());
        }
        parts.into_iter().find(|part| is_gone(part))
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
