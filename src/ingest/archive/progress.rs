//! Progress of an export or import, and the way to stop it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::ingest::archive::error::ArchiveError;

/// Reports the progress of long work, and stops it.
#[derive(Clone)]
pub struct Progress {
    stop: CancellationToken,
    tell: Arc<dyn Fn(&'static str, u64, u64) + Send + Sync>,
}

impl Progress {
    /// `tell` gets the name of the work, and how many bytes of how many are done.
    pub fn new(tell: impl Fn(&'static str, u64, u64) + Send + Sync + 'static) -> Self {
        Self {
            stop: CancellationToken::new(),
            tell: Arc::new(tell),
        }
    }

    /// Stops the work soon, with nothing half-done.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Reports progress, and fails when the work is to stop.
    pub(super) fn at(&self, what: &'static str, done: u64, of: u64) -> Result<(), ArchiveError> {
        if self.stop.is_cancelled() {
            return Err(ArchiveError::Stopped);
        }
        (self.tell)(what, done, of);
        Ok(())
    }

    /// Does work that waits for the network, which is given up when it is to stop.
    pub(super) async fn unless_stopped<T, E>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, ArchiveError>
    where
        ArchiveError: From<E>,
    {
        tokio::select! {
            done = work => Ok(done?),
            () = self.stop.cancelled() => Err(ArchiveError::Stopped),
        }
    }
}
