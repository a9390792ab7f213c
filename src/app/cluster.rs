//! The cluster, if the configuration reads one: what it adds to a configuration, and
//! when that changes.

use std::sync::Arc;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{Config, KubernetesConfig};
use crate::kubernetes::{self, Cluster};
use crate::serve::admin::ClusterProblems;
use crate::snapshot::{Announcements, Catalogs};

/// Makes the files that ports need before the cluster has been read.
///
/// # Errors
/// When a file cannot be written.
pub(super) fn prepare(config: &Config) -> anyhow::Result<()> {
    let mut ports = [&config.grpc_tls, &config.http_tls].into_iter().flatten();
    if ports.all(|port| port.rules.is_none()) {
        return Ok(());
    }
    let written = kubernetes::prepare_tls_rules(&config.data_dir);
    written.context("cannot write the TLS rules of the cluster")
}

/// The configuration without files that only a start makes.
pub(super) fn without_files(config: &Config) -> Config {
    let mut config = config.clone();
    let ports = [&mut config.grpc_tls, &mut config.http_tls].into_iter();
    for port in ports.flatten() {
        port.rules = None;
    }
    config
}

/// Adds the catalogs and files of the cluster to configurations.
pub(super) struct ClusterReader(Option<Reading>);

/// A cluster that is read.
struct Reading {
    cluster: Cluster,
    /// The settings of the start. New ones take effect after a restart.
    config: KubernetesConfig,
    /// What clients see.
    catalogs: Catalogs,
}

impl ClusterReader {
    /// Connects to the cluster that the configuration reads, if any.
    ///
    /// # Errors
    /// When the credentials for the API server cannot be used.
    pub(super) async fn connect(
        config: &Config,
        catalogs: &Catalogs,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> anyhow::Result<Self> {
        let settings = config.kubernetes.as_ref().map(|one| one.settings.clone());
        let data_dir = config.data_dir.clone();
        let removing = move || kubernetes::remove_unused(settings.as_ref(), &data_dir);
        tokio::task::spawn_blocking(removing).await?;
        let Some(kubernetes) = &config.kubernetes else {
            return Ok(Self(None));
        };
        let cluster = Cluster::connect(
            &kubernetes.settings,
            &config.data_dir,
            catalogs.clone(),
            tasks,
            stop,
        )
        .await;
        let cluster = cluster.context("[kubernetes]")?;
        catalogs.set_awaits_cluster(!cluster.is_known);
        Ok(Self(Some(Reading {
            cluster,
            config: kubernetes.clone(),
            catalogs: catalogs.clone(),
        })))
    }

    /// A configuration with what the cluster adds to it now.
    pub(super) fn complete(&self, config: &Config) -> Config {
        let mut config = config.clone();
        if let Some(Reading {
            cluster,
            config: first,
            ..
        }) = &self.0
        {
            // The new configuration may read no cluster.
            config.kubernetes.get_or_insert_with(|| first.clone());
            config.add_registry_files(&cluster.files);
            let catalogs = Arc::clone(&cluster.catalogs.borrow());
            config.add_discovered(&catalogs);
        }
        config
    }

    /// The catalogs of the cluster are active now.
    pub(super) fn set_taken(&self) {
        if let Some(reading) = &self.0 {
            reading.catalogs.set_awaits_cluster(false);
        }
    }

    /// Waits until the cluster names other catalogs.
    pub(super) async fn changed(&mut self) {
        let changed = match &mut self.0 {
            Some(reading) => reading.cluster.catalogs.changed().await.is_ok(),
            None => false,
        };
        if !changed {
            std::future::pending::<()>().await;
        }
    }

    /// Which digests clients over HTTP may get.
    pub(super) fn announcements(&self) -> Option<Arc<dyn Announcements>> {
        self.0.as_ref()?.cluster.announcements.clone()
    }

    /// Resources of the cluster that cannot be read or written, with reasons.
    pub(super) fn problems(&self) -> Option<ClusterProblems> {
        Some(self.0.as_ref()?.cluster.health.clone())
    }
}
