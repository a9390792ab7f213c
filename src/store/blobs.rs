//! OCI blobs, kept under their digest and shared by all catalogs.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

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
        let mut pins = self.pins.lock().unwrap_or_else(PoisonError::into_inner);
        *pins.entry(digest).or_default() += 1;
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

    /// Removes blobs that no revision was made from.
    pub(super) async fn sweep_blobs(&self) -> Result<(), StoreError> {
        let rows = sqlx::query("SELECT DISTINCT digest FROM revision_blobs")
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::sql("list the blobs"))?;
        let known: HashSet<String> = rows
            .iter()
            .filter_map(|row| Some(row.get::<&str, _>(0).strip_prefix("sha256:")?.to_owned()))
            .collect();
        let folder = self.blobs_folder();
        for entry in fs::read_dir(&folder).map_err(StoreError::io("read", &folder))? {
            let path = entry.map_err(StoreError::io("read", &folder))?.path();
            let named = path.file_name().and_then(|name| name.to_str());
            if !named.is_some_and(|name| known.contains(name)) {
                fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
            }
        }
        Ok(())
    }

    /// Removes those of the given blobs that no revision was made from and no
    /// pass needs.
    pub(super) async fn remove_unused_blobs(&self, digests: &[String]) -> Result<(), StoreError> {
        for digest in digests {
            let used = sqlx::query("SELECT 1 FROM revision_blobs WHERE digest = ? LIMIT 1")
                .bind(digest)
                .fetch_optional(&self.pool)
                .await
                .map_err(StoreError::sql("look up a blob"))?
                .is_some();
            if let (false, Ok(digest)) = (used, digest.parse()) {
                let path = self.blob_path(&digest);
                // Held until the file is gone, so that no pass pins it between.
                let pins = self.pins.lock().unwrap_or_else(PoisonError::into_inner);
                if pins.contains_key(&digest) {
                    continue;
                }
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(StoreError::io("remove", &path)(error));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn blobs_folder(&self) -> PathBuf {
        self.folder.join("blobs/sha256")
    }

    fn blob_path(&self, digest: &Digest) -> PathBuf {
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
