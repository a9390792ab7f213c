//! The content store.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tempfile::NamedTempFile;

use crate::store::content::pins::{BlobClaim, BlobPin, Claims, Pins};
use crate::store::content::tally::Tally;
use crate::store::file_io::{DiskError, create_folder, reread};
use ::images::digest::{Digest, Hasher};

/// The blobs in one folder. Cheap to clone; all clones share pins and claims.
#[derive(Clone, Debug)]
pub struct Contents {
    folder: Arc<Path>,
    pub(super) pins: Pins,
    claims: Claims,
    pub(super) tally: Tally,
}

impl Contents {
    /// The blobs in a folder. It is not created, and nothing in it changes.
    pub fn at(folder: PathBuf) -> Self {
        Self {
            folder: folder.into(),
            pins: Pins::default(),
            claims: Claims::default(),
            tally: Tally::default(),
        }
    }

    /// Opens a folder for writing: creates it, and removes the incomplete blobs
    /// of a process that was killed. Only one process may write in it.
    ///
    /// # Errors
    /// When the folder cannot be created or listed.
    pub fn open(folder: PathBuf) -> Result<Self, DiskError> {
        create_folder(&folder)?;
        let contents = Self::at(folder);
        for (path, digest) in contents.files()? {
            if digest.is_none()
                && let Err(error) = fs::remove_file(&path)
            {
                tracing::warn!(path = %path.display(), %error, "cannot remove an incomplete blob");
            }
        }
        Ok(contents)
    }

    /// The same blobs; `tally` counts the bytes that are written from now on.
    #[must_use]
    pub fn with_tally(mut self, tally: Tally) -> Self {
        self.tally = tally;
        self
    }

    /// Counts the written bytes.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps a blob from being removed as long as the pin lives, whether it is
    /// in the store already or not yet.
    pub fn pin(&self, digest: Digest) -> BlobPin {
        self.pins.pin(digest)
    }

    /// Waits for the right to fetch a blob. The caller then checks whether another
    /// pass has fetched it.
    pub async fn claim(&self, digest: Digest) -> BlobClaim {
        self.claims.claim(digest).await
    }

    /// The path of a blob that the store has. The blob counts as used now. This
    /// blocks.
    pub fn blob(&self, digest: &Digest) -> Option<PathBuf> {
        let path = self.path_of(digest);
        if !path.is_file() {
            return None;
        }
        // Its age matters only once it is spare, and an old one is only fetched
        // again: so no error.
        let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(path)
    }

    /// Whether the store has a blob whose bytes have its digest. This blocks.
    pub fn is_whole(&self, digest: &Digest) -> bool {
        self.blob(digest).is_some_and(|path| {
            let read = reread(|| {
                let mut hasher = Hasher::default();
                io::copy(&mut File::open(&path)?, &mut hasher)?;
                Ok(hasher)
            });
            read.is_ok_and(|hasher| hasher.finish() == *digest)
        })
    }

    /// Removes a damaged blob. This blocks.
    pub fn remove_blob(&self, digest: &Digest) {
        let path = self.path_of(digest);
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove a damaged blob");
        }
    }

    /// The path of a blob, whether it exists or not.
    pub(super) fn path_of(&self, digest: &Digest) -> PathBuf {
        self.folder.join(digest.hex())
    }

    /// A file for a blob that is not complete yet.
    pub(super) fn temporary(&self) -> Result<NamedTempFile, DiskError> {
        NamedTempFile::new_in(&self.folder).map_err(DiskError::at("write in", &self.folder))
    }

    /// All files. Those without a digest are incomplete blobs.
    pub(super) fn files(&self) -> Result<Vec<(PathBuf, Option<Digest>)>, DiskError> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(DiskError::at("read", &self.folder))? {
            let path = entry.map_err(DiskError::at("read", &self.folder))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let digest = name.and_then(|name| format!("sha256:{name}").parse().ok());
            files.push((path, digest));
        }
        Ok(files)
    }

    /// The blobs that passes need now.
    pub(crate) fn pinned(&self) -> HashSet<Digest> {
        self.pins.lock().keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
