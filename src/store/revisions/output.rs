//! Files of a revision that is being written. They are synced while more
//! is written, so that little is left to wait for at the end.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use parking_lot::Mutex;

use crate::store::StoreError;
use crate::store::file_io::{DiskError, protect};
use crate::store::files::summing::Summing;
use crate::store::revision::FileSum;

/// A file of our own that only grows. Cheap to clone; all clones are one file.
#[derive(Clone)]
pub struct Output {
    path: PathBuf,
    file: Arc<File>,
    /// The file once more, for the flusher: an error of the disk is told once to each
    /// description of an open file, and the last sync must hear of it.
    again: Arc<File>,
    state: Arc<Mutex<State>>,
    flusher: Flusher,
}

#[derive(Default)]
struct State {
    length: u64,
    /// The length when a sync was last requested.
    flushed: u64,
    sums: Summing,
}

/// Bytes between two syncs.
const FLUSH: u64 = 16 << 20;
/// The files that may wait for a sync.
const WAITING: usize = 4;

/// Syncs files on a thread of its own, which ends with the last clone.
#[derive(Clone)]
pub(crate) struct Flusher(SyncSender<Arc<File>>);

impl Flusher {
    pub(crate) fn start() -> Self {
        let (sender, files) = sync_channel::<Arc<File>>(WAITING);
        thread::spawn(move || {
            for file in files {
                // The last sync of the file reports the error.
                let _ = file.sync_data();
            }
        });
        Self(sender)
    }
}

impl Output {
    pub(crate) fn create(path: PathBuf, flusher: &Flusher) -> Result<Self, StoreError> {
        let options = File::options()
            .read(true)
            .append(true)
            .create_new(true)
            .clone();
        let file = options
            .open(&path)
            .map_err(DiskError::at("create", &path))?;
        let again = File::open(&path).map_err(DiskError::at("create", &path))?;
        Ok(Self {
            path,
            file: Arc::new(file),
            again: Arc::new(again),
            state: Arc::default(),
            flusher: flusher.clone(),
        })
    }

    /// Bytes so far.
    pub(crate) fn length(&self) -> u64 {
        self.state.lock().length
    }

    /// Appends bytes.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let state = &mut *self.state.lock();
        (&*self.file)
            .write_all(bytes)
            .map_err(DiskError::at("write", &self.path))?;
        state.sums.update(bytes);
        state.length += bytes.len() as u64;
        // After a busy flusher, the next bytes try again.
        if state.length >= state.flushed + FLUSH
            && self.flusher.0.try_send(self.again.clone()).is_ok()
        {
            state.flushed = state.length;
        }
        Ok(())
    }

    /// Lets the disk take what was written so far, while others go on.
    pub(crate) fn sync_later(&self) {
        // A busy flusher leaves it to the sync at the end.
        let _ = self.flusher.0.try_send(self.again.clone());
    }

    /// Waits until the disk has all bytes so far.
    pub fn sync(&self) -> Result<(), StoreError> {
        let synced = self.file.sync_data();
        Ok(synced.map_err(DiskError::at("sync", &self.path))?)
    }

    /// Completes the file: nobody writes to it any more.
    pub(crate) fn finish(&self) -> Result<FileSum, StoreError> {
        protect(&self.file).map_err(DiskError::at("protect", &self.path))?;
        self.sync()?;
        Ok(self.state.lock().sums.clone().finish())
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
