//! A gRPC port in the test's own process, for limits that are not for users to
//! set and too long to wait for.

use std::net::SocketAddr;
use std::time::Duration;

use almanac::ingest::{self, OnInvalid};
use almanac::serve::access::Access;
use almanac::serve::{self, Limits, grpc};
use almanac::snapshot::{Catalogs, Publisher, Routing, Snapshot};
use almanac::store::Store;
use images::layers;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::catalog::{Catalog, Format};

/// How long open connections may take to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// A port that serves one catalog, named `catalog`.
pub(crate) struct InProcess {
    pub grpc: SocketAddr,
    pub publisher: Publisher,
    store: Store,
    stop: CancellationToken,
    connections: TaskTracker,
    _draining: watch::Sender<bool>,
    /// The store's, and a place for catalogs.
    folder: TempDir,
}

impl InProcess {
    /// Serves a catalog within these limits.
    pub(crate) async fn serve(catalog: &Catalog, limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("data")).await.unwrap();
        let name = "catalog".parse().unwrap();
        let (catalogs, mut publishers) = Catalogs::new([(name, Routing::default())], None);
        let (draining, drained) = watch::channel(false);
        let service = grpc::Service::new(catalogs, Access::default(), limits, drained).unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = serve::bind("grpc", any).await.unwrap();
        let inside = Self {
            grpc: listener.address,
            publisher: publishers.pop().unwrap(),
            store,
            stop: CancellationToken::new(),
            connections: TaskTracker::new(),
            _draining: draining,
            folder,
        };
        inside.publish(catalog).await;
        tokio::spawn(service.serve(listener, inside.stop.clone(), inside.connections.clone()));
        inside
    }

    /// Serves other content from now on.
    pub(crate) async fn publish(&self, catalog: &Catalog) {
        let snapshot = self.made(catalog).await;
        self.publisher.publish(snapshot);
    }

    /// Content that can be published at once.
    pub(crate) async fn made(&self, catalog: &Catalog) -> Snapshot {
        let source = tempfile::tempdir_in(self.folder.path()).unwrap();
        catalog.write_to(source.path(), Format::JsonLines);
        let (revision, _) = ingest::store_folder(
            &self.store,
            &self.publisher.name,
            source.path(),
            &layers::Limits::default(),
            OnInvalid::Quarantine,
        )
        .await
        .unwrap();
        Snapshot::open(&self.store, revision).unwrap()
    }

    /// Ends, and waits for all connections to end.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.connections.close();
        let ended = tokio::time::timeout(PATIENCE, self.connections.wait()).await;
        ended.expect("connections end");
        self.store.close().await;
    }
}
