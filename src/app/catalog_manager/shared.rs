//! The parts of the program that all catalogs share.

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::fleet::Replica;
use crate::ingest::Restarted;
use crate::name::CatalogName;
use crate::serve::access::Access;
use crate::serve::grpc;
use crate::serve::net::tls::Tls;
use crate::snapshot::{CatalogsPublisher, Images};

/// Handles that all catalogs share.
pub(crate) struct Shared {
    /// Decides which catalogs clients see.
    pub(crate) publisher: CatalogsPublisher,
    /// The images that clients can pull.
    pub(crate) images: Images,
    /// Whether only stored revisions are served.
    pub(crate) offline: bool,
    /// Whether no revision can be stored.
    pub(crate) read_only: bool,
    /// The access rules of the catalogs.
    pub(crate) access: Access,
    /// Answers on the ports of single catalogs.
    pub(crate) registry: grpc::Service,
    /// TLS of these ports.
    pub(crate) tls: Option<Tls>,
    /// Open connections; the shutdown waits for them.
    pub(crate) connections: TaskTracker,
    /// Followers; the shutdown waits for them.
    pub(crate) followers: TaskTracker,
    /// Cancelled when almanac stops.
    pub(crate) stopping: CancellationToken,
}

impl Shared {
    /// Spawns a task of a catalog that the shutdown waits for. It is started again when it
    /// panics, which a replica reports.
    pub(super) fn spawn_tracked<F>(
        &self,
        task: &'static str,
        catalog: CatalogName,
        replica: Option<Replica>,
        mut work: impl FnMut(CancellationToken) -> F + Send + 'static,
    ) -> Task
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = self.stopping.child_token();
        let stopping = stop.clone();
        let handle = self.followers.spawn(async move {
            let restarted = Restarted {
                task,
                catalog: Some(&catalog),
                replica: replica.as_ref(),
                stop: &stopping,
            };
            restarted.run(|| work(stopping.clone())).await;
        });
        Task { stop, handle }
    }

    /// Spawns a task that the shutdown only stops.
    pub(super) fn spawn<F>(&self, work: impl FnOnce(CancellationToken) -> F) -> Task
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = self.stopping.child_token();
        let handle = tokio::spawn(work(stop.clone()));
        Task { stop, handle }
    }
}

/// A background task, and the token that stops it.
pub(super) struct Task {
    stop: CancellationToken,
    handle: JoinHandle<()>,
}

impl Task {
    /// Stops the task and waits for its end.
    pub(super) async fn end(self) {
        self.stop.cancel();
        // A panic has been reported.
        let _ = self.handle.await;
    }
}
