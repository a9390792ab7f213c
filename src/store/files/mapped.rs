//! Maps of the store's own files. All of them stay as they are once they have
//! their name: new content is another file, renamed over the old one. Files of
//! a revision that is being written only grow. No other process changes them,
//! as the data folder is locked.
#![expect(
    unsafe_code,
    reason = "a map is sound only while its file does not change"
)]

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use bytes::Bytes;

use crate::map;
use crate::store::StoreError;
use crate::store::content::{Contents, OpenBlob};
use crate::store::file_io::DiskError;
use crate::store::handle::Store;
use crate::store::revision::RevisionId;
use crate::store::revisions::output::Output;
use ::images::digest::Digest;

impl Contents {
    /// Opens a blob to be sent.
    ///
    /// # Errors
    /// When the store does not have it, or it cannot be opened.
    pub fn open_blob(&self, digest: &Digest) -> io::Result<OpenBlob> {
        let path = self.blob(digest).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("there is no {digest}"))
        })?;
        let file = File::open(&path)?;
        // SAFETY: a blob is complete before it gets its name, and only the file
        // times of a named blob change.
        let bytes = unsafe { map::map_file(&file)? };
        Ok(OpenBlob::new(*digest, path, file.metadata()?.ino(), bytes))
    }
}

impl Store {
    /// Maps a file of a revision.
    pub(crate) fn map(&self, revision: RevisionId, name: &str) -> io::Result<Bytes> {
        let file = File::open(self.revision_folder(revision).join(name))?;
        // SAFETY: files of a revision are complete before they get their name
        // in its folder, and nothing writes to them after that.
        unsafe { map::map_file(&file) }
    }
}

impl Output {
    /// Maps the bytes so far.
    pub(crate) fn map(&self) -> Result<Bytes, StoreError> {
        // SAFETY: an output has created its file, in a new folder of the locked
        // data folder, and only appends to it.
        let mapped = unsafe { map::map_file(self.file()) };
        Ok(mapped.map_err(DiskError::at("map", self.path()))?)
    }
}
