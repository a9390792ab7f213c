//! Files of a revision that is being written. They are synced while more
//! is written, so that little is left to wait for at the end.

use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use bytes::Bytes;

use crate::store::StoreError;
use crate::store::mapped::GrowingFile;

/// A file that only grows. Cheap to clone; one clone at a time appends.
#[derive(Clone)]
pub(super) struct Output {
    path: PathBuf,
    file: GrowingFile,
    length: u64,
    /// The length when a sync was last requested.
    flushed: u64,
    flusher: Flusher,
}

/// Bytes between two syncs.
const FLUSH: u64 = 16 << 20;

/// Syncs files on a thread of its own, which ends with the last clone.
#[derive(Clone)]
pub(super) struct Flusher(SyncSender<GrowingFile>);

impl Flusher {
    pub(super) fn start() -> Self {
        let (sender, files) = sync_channel::<GrowingFile>(2);
        thread::spawn(move || {
            for file in files {
                // The last sync of the file reports the same error.
                let _ = file.sync();
            }
        });
        Self(sender)
    }
}

impl Output {
    pub(super) fn create(path: PathBuf, flusher: &Flusher) -> Result<Self, StoreError> {
        let file = GrowingFile::create(&path).map_err(StoreError::io("create", &path))?;
        Ok(Self {
            path,
            file,
            length: 0,
            flushed: 0,
            flusher: flusher.clone(),
        })
    }

    /// Bytes so far.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file
            .append(bytes)
            .map_err(StoreError::io("write", &self.path))?;
        self.length += bytes.len() as u64;
        // After a busy flusher, the next bytes try again.
        if self.length >= self.flushed + FLUSH && self.flusher.0.try_send(self.file.clone()).is_ok()
        {
            self.flushed = self.length;
        }
        Ok(())
    }

    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.file.sync().map_err(StoreError::io("sync", &self.path))
    }

    /// Maps the bytes so far.
    pub(super) fn map(&self) -> Result<Bytes, StoreError> {
        self.file.map().map_err(StoreError::io("map", &self.path))
    }
}
