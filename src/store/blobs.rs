//! OCI blobs, kept under their digest and shared by all catalogs.
//!
//! What a revision was made from stays as long as the revision, and what a
//! pass needs as long as the pass. The rest is spare: what passes brought that
//! came to nothing, and would need again. [`CacheLimits`] bound it by age and
//! size, so images that are broken in ever new ways cannot fill the disk.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use sqlx::Row as _;
use tempfile::NamedTempFile;
use tokio::sync::OwnedMutexGuard;

use crate::store::{Store, StoreError};
use ::images::digest::Digest;

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

/// How much is kept of blobs that no revision was made from and no pass needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// How long after a pass last wanted one.
    pub max_age: Duration,
    /// How many bytes of them, the latest first.
    pub max_bytes: u64,
}

impl CacheLimits {
    /// Keeps nothing.
    pub const NOTHING: Self = Self {
        max_age: Duration::ZERO,
        max_bytes: 0,
    };
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self {
            max_age: Duration::from_hours(24),
            max_bytes: 1 << 30,
        }
    }
}

/// The right to fetch a blob: of several passes that want one at the same
/// moment, one fetches it, and the others find it when their turn comes.
pub struct BlobClaim {
    digest: Digest,
    claims: Claims,
    turn: Option<OwnedMutexGuard<()>>,
}

/// Who fetches each blob, and who waits for that.
pub(super) type Claims = Arc<Mutex<HashMap<Digest, Arc<tokio::sync::Mutex<()>>>>>;

/// How many passes need each blob.
pub(super) type Pins = Arc<Mutex<HashMap<Digest, usize>>>;

impl Drop for BlobClaim {
    fn drop(&mut self) {
        self.turn = None;
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(entry) = claims.entry(self.digest)
            && Arc::strong_count(entry.get()) == 1
        {
            entry.remove();
        }
    }
}

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

    /// Waits for the right to fetch a blob. Who has it looks again whether the
    /// blob is there.
    pub async fn claim(&self, digest: Digest) -> BlobClaim {
        let turn = {
            let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(claims.entry(digest).or_default())
        };
        // Made before the wait, so that one that is given up is forgotten too.
        let mut claim = BlobClaim {
            digest,
            claims: Arc::clone(&self.claims),
            turn: None,
        };
        claim.turn = Some(turn.lock_owned().await);
        claim
    }

    /// Where the blob lies, when the store has it; it counts as wanted now.
    pub fn blob(&self, digest: &Digest) -> Option<PathBuf> {
        let path = Some(self.blob_path(digest)).filter(|path| path.is_file())?;
        // Its age matters only once it is spare, and then a little.
        let _ = File::options()
            .append(true)
            .open(&path)
            .and_then(|file| file.set_modified(SystemTime::now()));
        Some(path)
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

    /// Removes spare blobs that are too old or too many; see [`CacheLimits`].
    /// What a revision was made from, or a pass needs, is never touched.
    pub async fn tidy_blobs(&self) -> Result<(), StoreError> {
        let needed = self.needed_blobs().await?;
        let now = SystemTime::now();
        let folder = self.blobs_folder();
        let mut spare = Vec::new();
        for entry in fs::read_dir(&folder).map_err(StoreError::io("read", &folder))? {
            let path = entry.map_err(StoreError::io("read", &folder))?.path();
            // Under other names are blobs that are being written.
            if let Some(digest) = blob_name(&path)
                && !needed.contains(&digest)
                && let Ok(metadata) = path.metadata()
            {
                let age = metadata.modified().ok();
                let age = age.and_then(|wanted| now.duration_since(wanted).ok());
                spare.push((age.unwrap_or_default(), digest, metadata.len()));
            }
        }
        spare.sort();
        let mut kept = 0_u64;
        for (age, digest, size) in spare {
            let total = kept.saturating_add(size);
            if age < self.cache.max_age && total <= self.cache.max_bytes {
                kept = total;
            } else {
                self.remove_spare(&digest)?;
            }
        }
        metrics::gauge!("almanac_spare_blob_bytes").set(kept as f64);
        Ok(())
    }

    /// Removes those of the blobs that no revision was made from and no pass
    /// needs any more.
    pub async fn release_blobs(&self, blobs: &[Digest]) -> Result<(), StoreError> {
        let needed = self.needed_blobs().await?;
        for digest in blobs.iter().filter(|digest| !needed.contains(digest)) {
            self.remove_spare(digest)?;
        }
        Ok(())
    }

    /// The blobs that revisions which are not their catalog's current one were
    /// made from: all, or those of one catalog.
    pub(super) async fn blobs_of_replaced(
        &self,
        catalog: Option<&str>,
    ) -> Result<Vec<Digest>, StoreError> {
        let rows = sqlx::query(
            "SELECT DISTINCT digest FROM revision_blobs WHERE revision IN
               (SELECT id FROM revisions WHERE (?1 IS NULL OR catalog = ?1) AND id NOT IN
                 (SELECT current FROM catalogs WHERE current IS NOT NULL))",
        )
        .bind(catalog)
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::sql("list the blobs of old revisions"))?;
        let digests = rows
            .iter()
            .filter_map(|row| row.get::<&str, _>(0).parse().ok());
        Ok(digests.collect())
    }

    async fn needed_blobs(&self) -> Result<HashSet<Digest>, StoreError> {
        // Asked for before the rows: whoever lets go of a blob in between has
        // a row by then, or needs it no more.
        let mut needed: HashSet<Digest> = self.lock_pins().keys().copied().collect();
        let rows = sqlx::query("SELECT DISTINCT digest FROM revision_blobs")
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::sql("list the blobs"))?;
        let known = rows
            .iter()
            .filter_map(|row| row.get::<&str, _>(0).parse::<Digest>().ok());
        needed.extend(known);
        Ok(needed)
    }

    fn remove_spare(&self, digest: &Digest) -> Result<(), StoreError> {
        let path = self.blob_path(digest);
        // Held until the file is gone, so that no pass pins it between.
        let pins = self.lock_pins();
        if pins.contains_key(digest) {
            return Ok(());
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(StoreError::io("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Removes blobs that were being written when almanac ended, at a start,
    /// when none are.
    pub(super) fn remove_unfinished_blobs(&self) -> Result<(), StoreError> {
        let folder = self.blobs_folder();
        for entry in fs::read_dir(&folder).map_err(StoreError::io("read", &folder))? {
            let path = entry.map_err(StoreError::io("read", &folder))?.path();
            if blob_name(&path).is_none() {
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

/// The digest of a blob that is whole, by the name of its file.
fn blob_name(path: &Path) -> Option<Digest> {
    let name = path.file_name()?.to_str()?;
    format!("sha256:{name}").parse().ok()
}

fn sync(file: NamedTempFile, path: &Path) -> Result<NamedTempFile, StoreError> {
    let inner: &File = file.as_file();
    inner.sync_data().map_err(StoreError::io("sync", path))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    async fn store(limits: CacheLimits) -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open_with(folder.path(), limits).await.unwrap();
        (folder, store)
    }

    fn put(store: &Store, content: &str, age: u64) -> Digest {
        let digest = Digest::of(content.as_bytes());
        let mut writer = store.write_blob(digest).unwrap();
        writer.write(content.as_bytes()).unwrap();
        let path = writer.finish().unwrap();
        let time = SystemTime::now() - Duration::from_secs(age);
        let file = File::options().append(true).open(path).unwrap();
        file.set_modified(time).unwrap();
        digest
    }

    fn there(store: &Store, digest: Digest) -> bool {
        store.blob_path(&digest).is_file()
    }

    #[tokio::test]
    async fn spare_blobs_go_when_they_are_old_or_too_many() {
        let limits = CacheLimits {
            max_age: Duration::from_secs(1000),
            max_bytes: 10,
        };
        let (_folder, store) = store(limits).await;
        let old = put(&store, "old", 2000);
        let first = put(&store, "11111", 300);
        let second = put(&store, "22222", 200);
        let large = put(&store, "much too large", 100);
        let third = put(&store, "33333", 50);
        let pinned = put(&store, "what a pass needs, however large", 9000);
        let _pin = store.pin(pinned);
        store.tidy_blobs().await.unwrap();
        for (digest, kept) in [
            (old, false),
            (first, false),
            (second, true),
            (large, false),
            (third, true),
            (pinned, true),
        ] {
            assert_eq!(there(&store, digest), kept, "{digest}");
        }
    }

    #[tokio::test]
    async fn what_is_wanted_is_young_again() {
        let limits = CacheLimits {
            max_age: Duration::from_secs(1000),
            max_bytes: 100,
        };
        let (folder, store) = store(limits).await;
        let (wanted, other) = (put(&store, "wanted", 2000), put(&store, "other", 2000));
        assert!(store.blob(&wanted).is_some());
        store.close().await;
        drop(store);
        // A start keeps what passes brought that came to nothing.
        let store = Store::open_with(folder.path(), limits).await.unwrap();
        assert!(there(&store, wanted));
        assert!(!there(&store, other));
    }

    #[tokio::test]
    async fn one_fetches_what_several_want() {
        let (_folder, store) = store(CacheLimits::default()).await;
        let digest = Digest::of(b"blob");
        let first = store.claim(digest).await;
        assert!(store.claim(digest).now_or_never().is_none());
        assert!(store.claim(Digest::of(b"other")).now_or_never().is_some());
        drop(first);
        assert!(store.claim(digest).now_or_never().is_some());
        assert!(store.claims.lock().unwrap().is_empty());
    }
}
