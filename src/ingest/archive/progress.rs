//! Progress of an export or import, and the way to stop it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ingest::archive::error::ArchiveError;

/// Reports the progress of long work, and stops it.
#[derive(Clone)]
pub struct Progress {
    stop: Arc<AtomicBool>,
    tell: Arc<dyn Fn(&'static str, u64, u64) + Send + Sync>,
}

impl Progress {
    /// `tell` gets the name of the work, and how many bytes of how many are done.
    pub fn new(tell: impl Fn(&'static str, u64, u64) + Send + Sync + 'static) -> Self {
        Self {
            stop: Arc::default(),
            tell: Arc::new(tell),
        }
    }

    /// Stops the work soon, with nothing half-done.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Reports progress, and fails when the work is to stop.
    pub(super) fn at(&self, what: &'static str, done: u64, of: u64) -> Result<(), ArchiveError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ArchiveError::Stopped);
        }
        (self.tell)(what, done, of);
        Ok(())
    }
}
