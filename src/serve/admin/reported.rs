//! What the admin port reports.

use std::collections::BTreeMap;
use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::watch;

use crate::serve::admin::configuration::Configuration;
use crate::serve::grpc::UnknownNames;
use crate::snapshot::{Catalogs, FleetStatus};
use crate::webhooks::Webhooks;

/// Resources of the cluster that cannot be read or written.
pub type ClusterProblems = watch::Receiver<Arc<BTreeMap<String, String>>>;

/// Why the data folder cannot be written for now, if so.
pub type Unwritable = watch::Receiver<Option<Arc<str>>>;

/// What the admin port reports.
#[derive(Clone)]
pub struct Reported {
    /// The catalogs.
    pub catalogs: Catalogs,
    /// The state of the configuration.
    pub configuration: watch::Receiver<Configuration>,
    /// The failures of the cluster, if there is one.
    pub cluster: Option<ClusterProblems>,
    /// The fleet, if this is a replica of one.
    pub fleet: Option<watch::Receiver<FleetStatus>>,
    /// The webhooks.
    pub webhooks: Webhooks,
    /// The names of gRPC calls that no catalog answers to.
    pub unknown_names: UnknownNames,
    /// Why the data folder cannot be written for now, if so.
    pub unwritable: Unwritable,
    /// The metrics.
    pub metrics: PrometheusHandle,
}

impl Reported {
    pub(super) fn cluster_problems(&self) -> Arc<BTreeMap<String, String>> {
        let cluster = self.cluster.as_ref();
        cluster
            .map(|cluster| cluster.borrow().clone())
            .unwrap_or_default()
    }

    pub(super) fn fleet(&self) -> Option<FleetStatus> {
        self.fleet.as_ref().map(|fleet| fleet.borrow().clone())
    }
}
