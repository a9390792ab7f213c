//! A blob that is open to be sent. Its bytes are verified before the first of them
//! is sent, and again when its file has changed since.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use tokio::sync::Mutex;

use crate::store::file_io::{DiskError, blocking, reread};
use ::images::digest::{Digest, Hasher};

/// Bytes per read.
const PIECE: usize = 1 << 20;

/// A change of a file changes one of these: its inode, its size, its date.
pub(crate) type Stamp = (u64, u64, Option<SystemTime>);

/// The stamp of a file.
pub(crate) fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.ino(), metadata.len(), metadata.modified().ok())
}

/// A blob that is open to be sent.
pub struct OpenBlob {
    digest: Digest,
    path: PathBuf,
    /// The file itself is not kept open, since an image may have many blobs.
    inode: u64,
    bytes: Bytes,
    /// The stamp of the file when its bytes were last found whole.
    whole: Mutex<Option<Stamp>>,
    damaged: AtomicBool,
}

/// A blob whose bytes do not have its digest, or cannot be read now.
#[derive(Debug, thiserror::Error)]
#[error("{0} is damaged in the store, or cannot be read")]
pub struct DamagedBlob(Digest);

impl OpenBlob {
    pub(crate) fn new(digest: Digest, path: PathBuf, inode: u64, bytes: Bytes) -> Self {
        Self {
            digest,
            path,
            inode,
            bytes,
            whole: Mutex::default(),
            damaged: AtomicBool::new(false),
        }
    }

    /// Its digest.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its bytes, as they lie on the disk: whoever takes them compares the digest.
    pub fn unverified(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Its length in bytes.
    pub fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether it was found damaged.
    pub fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Its bytes. The first call reads the whole blob on threads for blocking work,
    /// and so does the first one after a change of the file; others wait for that.
    ///
    /// # Errors
    /// When the bytes do not have the digest, or cannot be read after several tries. The
    /// next call reads them again then.
    pub async fn verified(self: &Arc<Self>) -> Result<Bytes, DamagedBlob> {
        let whole = *self.whole.lock().await;
        if !self.is_damaged() && whole == Some(self.stamp().await) {
            return Ok(self.bytes.clone());
        }
        let own = Arc::clone(self);
        // It goes on when the client leaves, so the next one need not begin again.
        let verifying = tokio::spawn(async move {
            let whole = &mut *own.whole.lock().await;
            let now = own.stamp().await;
            if !own.is_damaged() && *whole != Some(now) {
                match own.has_digest().await {
                    Ok(true) => *whole = Some(now),
                    Ok(false) => own.mark_damaged(),
                    Err(error) => {
                        tracing::warn!(%error, "cannot read a blob");
                        return false;
                    }
                }
            }
            !own.is_damaged()
        });
        // After a panic, nothing is sent.
        match verifying.await {
            Ok(true) => Ok(self.bytes.clone()),
            _ => Err(DamagedBlob(self.digest)),
        }
    }

    /// Marks it as damaged: it is not sent any more.
    pub fn mark_damaged(&self) {
        self.damaged.store(true, Ordering::Relaxed);
    }

    /// The stamp of the file. One without its name has a stamp of its own: nobody
    /// else can open it.
    async fn stamp(&self) -> Stamp {
        match tokio::fs::metadata(&self.path).await {
            Ok(metadata) if metadata.ino() == self.inode => stamp(&metadata),
            _ => (0, 0, None),
        }
    }

    async fn has_digest(self: &Arc<Self>) -> Result<bool, DiskError> {
        let mut hasher = Hasher::default();
        loop {
            let before = hasher.size();
            hasher = self.hash_piece(hasher).await?;
            if hasher.size() == before {
                return Ok(hasher.finish() == self.digest);
            }
        }
    }

    /// Hashes the next piece, on a thread for blocking work. At the end the size
    /// stays. This reads the file and not the map, so a file that is cut does no harm.
    pub async fn hash_piece(self: &Arc<Self>, mut hasher: Hasher) -> Result<Hasher, DiskError> {
        let own = Arc::clone(self);
        blocking("read", self.path.clone(), move |path| {
            let from = hasher.size();
            let opened = File::open(path).and_then(|file| Ok((file.metadata()?.ino(), file)));
            if let Ok((inode, file)) = opened
                && inode == own.inode
            {
                let mut piece = vec![0; PIECE];
                let read = reread(|| file.read_at(&mut piece, from));
                let read = read.map_err(DiskError::at("read", path))?;
                hasher.update(&piece[..read]);
            } else {
                // Without its name, nobody can cut it.
                let from = usize::try_from(from).unwrap_or(usize::MAX);
                let rest = own.bytes.get(from..).unwrap_or_default();
                hasher.update(&rest[..rest.len().min(PIECE)]);
            }
            Ok(hasher)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::{fs, io};

    use super::*;
    use crate::store::content::Contents;

    #[tokio::test]
    async fn a_blob_is_verified_before_it_is_sent_and_after_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let contents = Contents::open(folder.path().to_owned()).unwrap();
        let content = vec![7; PIECE + 3];
        let digest = Digest::of(&content);
        let path = contents
            .import(digest, io::Cursor::new(content.clone()))
            .await
            .unwrap();
        let blob = Arc::new(contents.open_blob(&digest).unwrap());
        assert_eq!(blob.verified().await.unwrap(), content);
        let first = *blob.whole.lock().await;
        assert_eq!(blob.verified().await.unwrap(), content);
        assert_eq!(*blob.whole.lock().await, first, "it is not read again");
        let removed = Arc::new(contents.open_blob(&digest).unwrap());
        fs::rename(&path, folder.path().join("aside")).unwrap();
        assert_eq!(removed.verified().await.unwrap(), content, "a pull may end");
        fs::rename(folder.path().join("aside"), &path).unwrap();

        // In place, with the same length.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.write_at(b"8", PIECE as u64).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let error = blob.verified().await.unwrap_err();
        assert!(error.to_string().contains(&digest.hex()), "{error}");
        assert!(blob.is_damaged());
        let again = Arc::new(contents.open_blob(&digest).unwrap());
        assert!(again.verified().await.is_err(), "nor after another start");
    }
}
