//! The content store.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::store::content::folder::BlobFolder;
use crate::store::content::import::{ImportError, import};
use crate::store::content::pins::{BlobClaim, BlobPin, Claims, Pins};
use crate::store::content::spare::{self, CacheLimits};
use crate::store::content::writer::{BlobWriter, NewBlob};
use crate::store::disk_error::{DiskError, sync_folder};
use ::images::digest::Digest;

/// The blobs in one folder. Cheap to clone; all clones share pins and claims.
#[derive(Clone, Debug)]
pub struct Contents {
    folder: BlobFolder,
    pins: Pins,
    claims: Claims,
}

impl Contents {
    /// The blobs in a folder. It is not created, and nothing in it changes.
    pub fn at(folder: PathBuf) -> Self {
        Self {
            folder: BlobFolder::new(folder),
            pins: Pins::default(),
            claims: Claims::default(),
        }
    }

    /// Opens a folder for writing: creates it, and removes the incomplete blobs
    /// of a process that was killed. Only one process may write in it.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn open(folder: PathBuf) -> Result<Self, DiskError> {
        fs::create_dir_all(&folder).map_err(DiskError::at("create", &folder))?;
        let contents = Self::at(folder);
        for (path, digest) in contents.folder.files()? {
            if digest.is_none() {
                fs::remove_file(&path).map_err(DiskError::at("remove", &path))?;
            }
        }
        Ok(contents)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Keeps a blob from being removed as long as the pin lives, whether it is
    /// in the store already or not yet.
    pub fn pin(&self, digest: Digest) -> BlobPin {
        self.pins.pin(digest)
    }

    /// Waits for the right to fetch a blob. The caller then looks again whether
    /// somebody else has fetched it.
    pub async fn claim(&self, digest: Digest) -> BlobClaim {
        self.claims.claim(digest).await
    }

    /// The path of a blob that the store has. The blob counts as used now.
    pub fn blob(&self, digest: &Digest) -> Option<PathBuf> {
        let path = self.folder.blob(digest);
        if !path.is_file() {
            return None;
        }
        // Its age matters only once it is spare, and an old one is only fetched
        // again: so no error.
        let _ = File::options()
            .append(true)
            .open(&path)
            .and_then(|file| file.set_modified(SystemTime::now()));
        Some(path)
    }

    /// Copies a blob into the store from a reader that verifies it: an error of
    /// the reader, also one at its end, leaves nothing behind. Reading, writing
    /// and syncing happen on a thread for blocking work, so that large blobs
    /// hold up no other task. The copy stops soon after the future is dropped.
    ///
    /// # Errors
    /// When the reader fails, or the blob cannot be written.
    pub async fn import(
        &self,
        digest: Digest,
        reader: impl Read + Send + 'static,
    ) -> Result<PathBuf, ImportError> {
        import(self.write_blob(digest)?, reader).await
    }

    /// Starts a blob. The caller has verified the bytes, or does so while it
    /// writes them.
    pub fn write_blob(&self, digest: Digest) -> Result<BlobWriter, DiskError> {
        BlobWriter::new(&self.folder, digest)
    }

    /// Starts a blob whose digest is not known yet.
    pub fn new_blob(&self) -> Result<NewBlob, DiskError> {
        NewBlob::new(&self.folder, &self.pins)
    }

    /// Removes a damaged blob.
    pub fn remove_blob(&self, digest: &Digest) {
        let path = self.folder.blob(digest);
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove a damaged blob");
        }
    }

    /// The blobs that passes need now.
    pub(in crate::store) fn pinned(&self) -> HashSet<Digest> {
        self.pins.lock().keys().copied().collect()
    }

    /// Removes blobs beyond the limits, except those that are needed or pinned.
    /// Returns how many bytes of spare blobs are left.
    pub(in crate::store) fn remove_spare(
        &self,
        needed: &HashSet<Digest>,
        limits: CacheLimits,
    ) -> Result<u64, DiskError> {
        spare::remove_beyond(&self.folder, &self.pins, needed, limits)
    }

    /// Removes a blob unless it is pinned.
    pub(in crate::store) fn remove_unpinned(&self, digest: &Digest) -> Result<(), DiskError> {
        spare::remove_unpinned(&self.folder, &self.pins, digest)
    }

    /// Makes the names of all blobs survive a power cut.
    pub(in crate::store) fn sync(&self) -> Result<(), DiskError> {
        sync_folder(self.folder.path())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[tokio::test]
    async fn a_failed_import_leaves_nothing_behind() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the digest does not match"))
            }
        }
        let root = tempfile::tempdir().unwrap();
        let contents = Contents::open(root.path().join("sha256")).unwrap();
        let digest = Digest::of(b"blob");
        let failed = contents.import(digest, (&b"bl"[..]).chain(Fails)).await;
        assert!(matches!(failed, Err(ImportError::Read(_))));
        assert!(contents.blob(&digest).is_none());
        assert_eq!(fs::read_dir(contents.folder()).unwrap().count(), 0);
        let path = contents.import(digest, &b"blob"[..]).await.unwrap();
        assert_eq!(fs::read(path).unwrap(), b"blob");
    }

    #[tokio::test]
    async fn a_dropped_import_stops() {
        /// Never ends, and tells when it is dropped.
        struct Endless(std::sync::mpsc::Sender<()>);
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                buffer.fill(0);
                std::thread::yield_now();
                Ok(buffer.len().min(1 << 10))
            }
        }
        impl Drop for Endless {
            fn drop(&mut self) {
                let _ = self.0.send(());
            }
        }
        let root = tempfile::tempdir().unwrap();
        let contents = Contents::open(root.path().join("sha256")).unwrap();
        let (sender, dropped) = std::sync::mpsc::channel();
        let import = contents.import(Digest::of(b""), Endless(sender));
        tokio::select! {
            biased;
            done = import => panic!("{done:?}"),
            () = tokio::task::yield_now() => {}
        }
        dropped.recv().unwrap();
    }

    #[test]
    fn incomplete_blobs_are_removed_at_the_start() {
        let root = tempfile::tempdir().unwrap();
        let digest = Digest::of(b"blob");
        fs::write(root.path().join(digest.hex()), b"blob").unwrap();
        fs::write(root.path().join(".tmp1234"), b"bl").unwrap();
        let contents = Contents::open(root.path().to_owned()).unwrap();
        assert!(contents.blob(&digest).is_some());
        assert_eq!(fs::read_dir(contents.folder()).unwrap().count(), 1);
    }
}
