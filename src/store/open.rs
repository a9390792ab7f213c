//! Opens the store for writing, and cleans up after a crash.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::Path;
use std::str::FromStr;
use std::time::SystemTime;

use crate::store::content::{CacheLimits, Contents};
use crate::store::database::{DATABASE, connect_to_read, connect_to_write};
use crate::store::file_io::{DiskError, create_folder};
use crate::store::handle::{INCOMING, LOCK, REVISIONS};
use crate::store::recovery::open_database;
use crate::store::revision::RevisionId;
use crate::store::revisions::recorded::{LOST, remove_aside};
use crate::store::{Store, StoreError, sql};

/// How often a database is opened that the disk refuses to read or write.
const TRIES: usize = 3;
/// Bytes of the index of a log, and some for the log.
const PROBED: usize = 64 << 10;
/// The folder of the blobs.
pub(super) const BLOBS: &str = "blobs/sha256";

impl Store {
    /// Opens the data folder, creates it if needed, and removes the remains of an
    /// interrupted pass. A damaged database is rebuilt.
    ///
    /// # Errors
    /// When the folder cannot be written, is in use by another almanac, or
    /// holds the database of a newer version.
    pub async fn open(folder: &Path) -> Result<Self, StoreError> {
        Self::open_with(folder, CacheLimits::default()).await
    }

    /// As [`Store::open`], with other limits for spare blobs.
    pub async fn open_with(folder: &Path, cache: CacheLimits) -> Result<Self, StoreError> {
        let revisions = folder.join(REVISIONS);
        create_folder(&revisions)?;
        let lock = lock(&folder.join(LOCK))?;
        // Before anything is written: the disk may be full.
        if let Err(error) = remove_incoming(&revisions) {
            tracing::warn!(%error, "cannot remove the files of an interrupted pass");
        }
        let contents = Contents::open(folder.join(BLOBS))?;
        let pool = open_database(folder).await.map_err(|error| {
            // The error of the database does not say that the disk is full.
            let of_disk = error.is_of_disk().then(|| probe(folder).err()).flatten();
            of_disk.map_or(error, StoreError::from)
        })?;
        let store = Self::new(folder, pool, contents, cache, lock);
        store.adopt_newer().await?;
        if let Err(error) = store.tidy().await {
            tracing::warn!(%error, "cannot tidy the data folder; the next start does it");
        }
        Ok(store)
    }

    /// As [`Store::open_with`]. A database that the disk refuses to write is only read
    /// until [`Store::write_again`].
    pub async fn open_to_serve(folder: &Path, cache: CacheLimits) -> Result<Self, StoreError> {
        let mut error = None;
        for _ in 0..TRIES {
            match Self::open_with(folder, cache).await {
                Err(failed) if failed.is_of_disk() => error = Some(failed),
                opened => return opened,
            }
        }
        let Some(error) = error.filter(|_| is_whole_without_log(folder)) else {
            return Self::open_with(folder, cache).await;
        };
        let Ok(store) = Self::open_unwritable(folder, cache).await else {
            return Err(error);
        };
        store.set_unwritable(&error);
        Ok(store)
    }

    /// Opens what there is, and creates nothing.
    async fn open_unwritable(folder: &Path, cache: CacheLimits) -> Result<Self, StoreError> {
        let lock = lock(&folder.join(LOCK))?;
        let pool = connect_to_read(&folder.join(DATABASE)).await?;
        let contents = Contents::at(folder.join(BLOBS));
        Ok(Self::new(folder, pool, contents, cache, lock))
    }

    /// Opens the data folder for writing that has only been read.
    ///
    /// # Errors
    /// When it still cannot be written. It is read on then.
    pub async fn write_again(&self) -> Result<(), StoreError> {
        create_folder(&self.revisions_folder())?;
        create_folder(self.contents.folder())?;
        let path = self.folder.join(DATABASE);
        connect_to_write(&path, &self.pool, |pool| self.clean_up(pool)).await?;
        self.unwritable.send_replace(None);
        Ok(())
    }

    /// Does what a start does once it has opened the database, before anything else is
    /// written.
    async fn clean_up(&self, pool: sqlx::SqlitePool) {
        let store = Self {
            pool,
            ..self.clone()
        };
        for done in [store.adopt_newer().await, store.tidy().await] {
            if let Err(error) = done {
                tracing::warn!(%error, "cannot tidy the data folder; the next start does it");
            }
        }
    }

    /// Fails when another almanac uses the data folder: for a reader only one that
    /// writes. Nothing is created.
    pub fn check_free(folder: &Path, to_read: bool) -> Result<(), StoreError> {
        let path = folder.join(LOCK);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(DiskError::at("open", &path)(error).into()),
        };
        let lock = if to_read {
            File::try_lock_shared
        } else {
            File::try_lock
        };
        // The lock ends with the file.
        locked(&path, file, lock).map(drop)
    }

    /// Removes what an interrupted pass has left.
    async fn tidy(&self) -> Result<(), StoreError> {
        self.forget_replaced().await?;
        self.sweep().await
    }

    /// Removes the rows of revisions that are not their catalog's current one,
    /// left when almanac ended between a commit and the removal.
    async fn forget_replaced(&self) -> Result<(), StoreError> {
        let blobs = self.blobs_of_replaced(None).await?;
        let statement = sqlx::query(
            "DELETE FROM revisions WHERE id NOT IN
               (SELECT current FROM catalogs WHERE current IS NOT NULL)",
        );
        sql::execute(&self.pool, "remove replaced revisions", statement).await?;
        self.release_blobs(&blobs).await
    }

    /// Removes revisions without a row, those that a recovery moved aside after some
    /// time, and spare blobs beyond the limits.
    async fn sweep(&self) -> Result<(), StoreError> {
        let known = self.revision_ids().await?;
        let folder = self.revisions_folder();
        for entry in fs::read_dir(&folder).map_err(DiskError::at("read", &folder))? {
            let path = entry.map_err(DiskError::at("read", &folder))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let id = name.and_then(|name| RevisionId::from_str(name).ok());
            let is_kept =
                name.is_some_and(|name| name.starts_with(LOST) || name.starts_with(INCOMING));
            if !is_kept && !id.is_some_and(|id| known.contains(&id)) {
                tracing::info!(path = %path.display(), "removing files of no revision");
                fs::remove_dir_all(&path).map_err(DiskError::at("remove", &path))?;
            }
        }
        remove_aside(&folder, SystemTime::now())?;
        self.sweep_outlines().await?;
        self.tidy_blobs().await
    }
}

/// Removes the files of passes that were interrupted.
fn remove_incoming(revisions: &Path) -> Result<(), DiskError> {
    for entry in fs::read_dir(revisions).map_err(DiskError::at("read", revisions))? {
        let path = entry.map_err(DiskError::at("read", revisions))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with(INCOMING)) {
            tracing::info!(path = %path.display(), "removing files of no revision");
            fs::remove_dir_all(&path).map_err(DiskError::at("remove", &path))?;
        }
    }
    Ok(())
}

/// Whether a folder has a database whose commits are all in its file, as a clean stop
/// leaves it.
fn is_whole_without_log(folder: &Path) -> bool {
    let log = fs::metadata(folder.join(format!("{DATABASE}-wal")));
    folder.join(DATABASE).is_file() && log.map_or(true, |log| log.len() == 0)
}

/// Writes as much in a folder as a database needs beside its file, and removes it.
fn probe(folder: &Path) -> Result<(), DiskError> {
    let written = tempfile::tempfile_in(folder).and_then(|mut file| {
        file.write_all(&vec![0; PROBED])?;
        file.sync_all()
    });
    written.map_err(DiskError::at("write in", folder))
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .map_err(DiskError::at("open", path))?;
    locked(path, file, File::try_lock)
}

/// The lock file, locked by `lock`.
pub(super) fn locked(
    path: &Path,
    file: File,
    lock: impl FnOnce(&File) -> Result<(), TryLockError>,
) -> Result<File, StoreError> {
    match lock(&file) {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked {
            folder: path.parent().unwrap_or(path).to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(DiskError::at("lock", path)(source).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A data folder with a database, as a clean stop leaves it.
    async fn stopped() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        Store::open(folder.path()).await.unwrap().close().await;
        folder
    }

    #[tokio::test]
    async fn a_folder_that_was_absent_at_the_start_is_made_again_and_was_not_removed() {
        for part in [BLOBS, REVISIONS] {
            let folder = stopped().await;
            let part = folder.path().join(part);
            fs::remove_dir_all(&part).unwrap();
            let cache = CacheLimits::default();
            let store = Store::open_unwritable(folder.path(), cache).await.unwrap();
            store.unwritable.send_replace(Some("full".into()));
            assert_eq!(store.removed_part(), None);
            store.write_again().await.unwrap();
            assert!(part.is_dir() && store.unwritable.borrow().is_none());
            assert_eq!(store.removed_part(), None);
            fs::remove_dir_all(&part).unwrap();
            assert_eq!(store.removed_part(), Some(part));
        }
    }

    #[tokio::test]
    async fn what_a_start_cleans_up_is_cleaned_up_once_the_disk_has_room() {
        let folder = stopped().await;
        let revisions = folder.path().join(REVISIONS);
        let (unknown, incoming) = (revisions.join("7"), revisions.join("new-1"));
        let store = Store::open_unwritable(folder.path(), CacheLimits::default());
        let store = store.await.unwrap();
        store.unwritable.send_replace(Some("full".into()));
        fs::create_dir(&unknown).unwrap();
        // A pass that has begun since goes on.
        fs::create_dir(&incoming).unwrap();
        store.write_again().await.unwrap();
        assert!(!unknown.exists() && incoming.exists());
        drop(store.begin().await.unwrap());
        store.close().await;
        drop(store);
        drop(Store::open(folder.path()).await.unwrap());
        assert!(!incoming.exists());
    }
}
