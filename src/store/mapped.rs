//! Maps of the store's own files. All of them stay as they are once they have
//! their name: new content is another file, renamed over the old one. Files of
//! a revision that is being written only grow. No other process changes them,
//! as the data folder is locked.
#![expect(
    unsafe_code,
    reason = "a map is sound only while its file does not change"
)]

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::map;
use crate::store::content::Contents;
use crate::store::handle::Store;
use crate::store::revision::RevisionId;
use ::images::digest::Digest;

impl Contents {
    /// Maps a blob.
    ///
    /// # Errors
    /// When the store does not have it, or it cannot be opened.
    pub fn map(&self, digest: &Digest) -> io::Result<Bytes> {
        let path = self.blob(digest).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("there is no {digest}"))
        })?;
        let file = File::open(path)?;
        // SAFETY: a blob is complete before it gets its name, and only the file
        // times of a named blob change.
        unsafe { map::map_file(&file) }
    }
}

impl Store {
    /// Maps a file of a revision.
    pub(super) fn map(&self, revision: RevisionId, name: &str) -> io::Result<Bytes> {
        let file = File::open(self.revision_folder(revision).join(name))?;
        // SAFETY: files of a revision are complete before they get their name
        // in its folder, and nothing writes to them after that.
        unsafe { map::map_file(&file) }
    }
}

/// A file of our own that only grows. Cheap to clone.
#[derive(Clone)]
pub(super) struct GrowingFile(Arc<File>);

impl GrowingFile {
    /// Creates the file.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = File::options()
            .read(true)
            .append(true)
            .create_new(true)
            .open(path)?;
        Ok(Self(Arc::new(file)))
    }

    /// Appends bytes.
    pub(super) fn append(&self, bytes: &[u8]) -> io::Result<()> {
        (&*self.0).write_all(bytes)
    }

    /// Waits until the disk has all bytes so far.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    /// Maps the bytes so far.
    pub(super) fn map(&self) -> io::Result<Bytes> {
        // SAFETY: this type created the file and only appends to it. Its folder
        // is a new one in the locked data folder.
        unsafe { map::map_file(&self.0) }
    }
}
