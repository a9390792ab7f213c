//! Files of a revision that is being written. They are synced while more
//! is written, so that little is left to wait for at the end.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use crate::store::StoreError;
use crate::store::disk::DiskError;

/// A file of our own that only grows. Cheap to clone; one clone at a time
/// appends.
#[derive(Clone)]
pub struct Output {
    path: PathBuf,
    file: Arc<File>,
    length: u64,
    /// The length when a sync was last requested.
    flushed: u64,
    flusher: Flusher,
}

/// Bytes between two syncs.
const FLUSH: u64 = 16 << 20;

/// Syncs files on a thread of its own, which ends with the last clone.
#[derive(Clone)]
pub(super) struct Flusher(SyncSender<Arc<File>>);

impl Flusher {
    pub(super) fn start() -> Self {
        let (sender, files) = sync_channel::<Arc<File>>(2);
        thread::spawn(move || {
            for file in files {
                // The last sync of the file reports the same error.
                let _ = file.sync_data();
            }
        });
        Self(sender)
    }
}

impl Output {
    pub(super) fn create(path: PathBuf, flusher: &Flusher) -> Result<Self, StoreError> {
        let options = File::options()
            .read(true)
            .append(true)
            .create_new(true)
            .clone();
        let file = options
            .open(&path)
            .map_err(DiskError::at("create", &path))?;
        Ok(Self {
            path,
            file: Arc::new(file),
            length: 0,
            flushed: 0,
            flusher: flusher.clone(),
        })
    }

    /// Bytes so far.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Appends bytes.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        (&*self.file)
            .write_all(bytes)
            .map_err(DiskError::at("write", &self.path))?;
        self.length += bytes.len() as u64;
        // After a busy flusher, the next bytes try again.
        if self.length >= self.flushed + FLUSH && self.flusher.0.try_send(self.file.clone()).is_ok()
        {
            self.flushed = self.length;
        }
        Ok(())
    }

    /// Waits until the disk has all bytes so far.
    pub fn sync(&self) -> Result<(), StoreError> {
        let synced = self.file.sync_data();
        Ok(synced.map_err(DiskError::at("sync", &self.path))?)
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
