//! A background task that can be stopped.

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A task, and the token that stops it.
pub(super) struct Task {
    pub(super) stop: CancellationToken,
    pub(super) handle: JoinHandle<()>,
}

impl Task {
    /// Stops the task and waits for its end.
    pub(super) async fn end(self) {
        self.stop.cancel();
        // The panic hook has reported a panic already.
        let _ = self.handle.await;
    }
}
