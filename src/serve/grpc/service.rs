//! The service of all gRPC ports.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::serve::grpc::connection::{Shared, connection};
use crate::serve::grpc::health::Health;
use crate::serve::grpc::reflection::Reflection;
use crate::serve::net::limits::Limits;
use crate::serve::net::listen::Listener;
use crate::snapshot::Catalogs;

/// How many health and reflection streams may be open, on all ports. Their
/// clients keep them open for as long as they like.
const MAX_SERVICE_STREAMS: usize = 1000;

/// The service of all gRPC ports. Cheap to clone.
#[derive(Clone)]
pub struct Service(Shared);

impl Service {
    /// A service for all catalogs. `draining` turns true when almanac stops.
    ///
    /// # Errors
    /// When the descriptors do not decode: a defect of the build.
    pub fn new(
        catalogs: Catalogs,
        limits: Limits,
        draining: watch::Receiver<bool>,
    ) -> Result<Self, tonic_reflection::server::Error> {
        Ok(Self(Shared {
            health: Health::new(catalogs.clone(), draining),
            reflection: Reflection::new()?,
            catalogs,
            calls: Arc::new(Semaphore::new(limits.calls.min(Semaphore::MAX_PERMITS))),
            service_streams: Arc::new(Semaphore::new(MAX_SERVICE_STREAMS)),
            limits,
        }))
    }

    /// Serves a port until `stop`. Open connections then finish their streams;
    /// `connections` tracks them.
    pub async fn serve(
        self,
        listener: Listener,
        stop: CancellationToken,
        connections: TaskTracker,
    ) {
        let own = listener.catalog().cloned();
        let limits = self.0.limits.clone();
        let ending = stop.clone();
        listener
            .accept(&limits, stop, connections, move |opened| {
                connection(self.0.clone(), opened, own.clone(), ending.clone())
            })
            .await;
    }
}
