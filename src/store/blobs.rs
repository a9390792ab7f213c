//! OCI blobs, kept under their digest and shared by all catalogs.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlx::Row as _;
use tempfile::NamedTempFile;

use super::{Store, StoreError};
use crate::digest::Digest;

/// A blob on its way into the store. Dropped before [`BlobWriter::finish`], it
/// leaves nothing behind.
pub struct BlobWriter {
    digest: Digest,
    path: PathBuf,
    file: NamedTempFile,
}

/// Keeps a blob in the store while a pass needs it and no row names it yet.
pub struct BlobPin {
    digest: Digest,
    pins: Pins,
}

/// How many passes need each blob.
pub(super) type Pins = Arc<Mutex<HashMap<Digest, usize>>>;

impl BlobPin {
    /// The blob.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

impl Drop for BlobPin {
    fn drop(&mut self) {
        let mut pins = self.pins.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut entry) = pins.entry(self.digest) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

impl Store {
    /// Keeps a blob from being removed as long as the pin lives, whether it is
    /// there already or comes.
    pub fn pin(&self, digest: Digest) -> BlobPin {
        *self.lock_pins().entry(digest).or_default() += 1;
        BlobPin {
            digest,
            pins: Arc::clone(&self.pins),
        }
    }

    /// Where the blob lies, when the store has it.
    pub fn blob(&self, digest: &Digest) -> Option<PathBuf> {
        Some(self.blob_path(digest)).filter(|path| path.is_file())
    }

    /// Removes a blob that turned out to be damaged.
    pub fn remove_blob(&self, digest: &Digest) {
        let path = self.blob_path(digest);
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "a damaged blob could not be removed");
        }
    }

    /// Starts a blob. The caller has checked, or checks while it writes, that
    /// the bytes are those of the digest.
    pub fn write_blob(&self, digest: Digest) -> Result<BlobWriter, StoreError> {
        let folder = self.blobs_folder();
        let file = NamedTempFile::new_in(&folder).map_err(StoreError::io("write in", &folder))?;
        Ok(BlobWriter {
            digest,
            path: self.blob_path(&digest),
            file,
        })
    }

    /// Removes blobs that no revision was made from and no pass needs: those
    /// of old revisions, and those that failed passes brought.
    pub async fn sweep_blobs(&self) -> Result<(), StoreError> {
        // Asked for before the rows: whoever lets go of a blob in between has
        // a row by then, or needs it no more.
        let needed: HashSet<Digest> = self.lock_pins().keys().copied().collect();
        let rows = sqlx::query("SELECT DISTINCT digest FROM revision_blobs")
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::sql("list the blobs"))?;
        let known: HashSet<Digest> = rows
            .iter()
            .filter_map(|row| row.get::<&str, _>(0).parse().ok())
            .collect();
        let folder = self.blobs_folder();
        for entry in fs::read_dir(&folder).map_err(StoreError::io("read", &folder))? {
            let path = entry.map_err(StoreError::io("read", &folder))?.path();
            // Under other names are blobs that are being written.
            let named = path.file_name().and_then(|name| name.to_str());
            let Some(digest) = named.and_then(|name| format!("sha256:{name}").parse().ok()) else {
                continue;
            };
            if known.contains(&digest) || needed.contains(&digest) {
                continue;
            }
            // Held until the file is gone, so that no pass pins it between.
            let pins = self.lock_pins();
            if !pins.contains_key(&digest) {
                fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
            }
        }
        Ok(())
    }

    /// Removes blobs that were being written when almanac ended, at a start,
    /// when none are.
    pub(super) fn remove_unfinished_blobs(&self) -> Result<(), StoreError> {
        let folder = self.blobs_folder();
        for entry in fs::read_dir(&folder).map_err(StoreError::io("read", &folder))? {
            let path = entry.map_err(StoreError::io("read", &folder))?.path();
            let named = path.file_name().and_then(|name| name.to_str());
            let finished =
                named.is_some_and(|name| format!("sha256:{name}").parse::<Digest>().is_ok());
            if !finished {
                fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
            }
        }
        Ok(())
    }

    fn lock_pins(&self) -> MutexGuard<'_, HashMap<Digest, usize>> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn blobs_folder(&self) -> PathBuf {
        self.folder.join("blobs/sha256")
    }

    pub(super) fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.blobs_folder().join(digest.hex())
    }
}

impl BlobWriter {
    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file
            .write_all(bytes)
            .map_err(StoreError::io("write", &self.path))
    }

    /// Puts the blob in its place and returns where that is.
    pub fn finish(self) -> Result<PathBuf, StoreError> {
        let Self { digest, path, file } = self;
        let file = sync(file, &path)?;
        file.persist(&path)
            .map_err(|error| StoreError::io("write", &path)(error.error))?;
        tracing::debug!(%digest, "blob stored");
        Ok(path)
    }
}

fn sync(file: NamedTempFile, path: &Path) -> Result<NamedTempFile, StoreError> {
    let inner: &File = file.as_file();
    inner.sync_data().map_err(StoreError::io("sync", path))?;
    Ok(file)
}
