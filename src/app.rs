//! The only place that knows everything: opens the store, loads what it holds,
//! binds the ports, starts the followers, serves, drains. `folder` does so for
//! one folder that is not followed.

mod folder;

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use folder::{Integrity, Options as FolderOptions, serve_folder};

use crate::config::{CatalogConfig, Config};
use crate::ingest::{self, Followed, Workshop};
use crate::oci::Client;
use crate::serve::{self, Listener};
use crate::snapshot::{Catalogs, Publisher, Routing};
use crate::store::Store;

/// Runs almanac until `stop` comes, then lets open connections finish.
///
/// # Errors
/// When it cannot start: a port that is taken, a data folder that cannot be
/// used. What goes wrong with a catalog is reported and tried again.
pub async fn run(config: Config, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let started = Instant::now();
    let metrics = metrics()?;
    let ports = Ports::bind(&config).await?;
    let store = Store::open(&config.data_dir)
        .await
        .with_context(|| format!("data folder {}", config.data_dir.display()))?;
    let workshop = Workshop {
        store: store.clone(),
        client: Client::new(&config.registries).context("cannot set up the registry client")?,
        limits: config.unpack.clone(),
        turns: Arc::new(Semaphore::new(1)),
    };
    let (catalogs, followed) = catalogs(&config);
    for (followed, publisher) in &followed {
        ingest::restore(&workshop, followed, publisher).await;
    }

    let stopping = CancellationToken::new();
    let connections = TaskTracker::new();
    let (drain, draining) = watch::channel(false);
    let registry = serve::registry::router(catalogs.clone(), draining)
        .context("cannot set up gRPC reflection")?;
    for listener in [&ports.grpc, &ports.http, &ports.admin] {
        tracing::info!(
            service = listener.service(),
            address = %listener.address(),
            "listening"
        );
    }
    let limit = config.max_connections;
    let servers = TaskTracker::new();
    servers.spawn(serve::registry::serve(
        ports.grpc,
        registry,
        catalogs.clone(),
        limit,
        stopping.clone(),
        connections.clone(),
    ));
    servers.spawn(ports.http.serve(
        serve::catalogd::router(catalogs.clone()),
        limit,
        stopping.clone(),
        connections.clone(),
    ));
    // Probes and metrics are answered to the end.
    let admin = CancellationToken::new();
    let admin_connections = TaskTracker::new();
    servers.spawn(ports.admin.serve(
        serve::admin::router(catalogs.clone(), metrics),
        limit,
        admin.clone(),
        admin_connections,
    ));
    let followers = TaskTracker::new();
    for (followed, publisher) in followed {
        followers.spawn(ingest::follow(
            workshop.clone(),
            followed,
            publisher,
            stopping.clone(),
        ));
    }
    tracing::info!(
        catalogs = catalogs.iter().count(),
        loaded = catalogs.iter().filter(|c| c.snapshot().is_some()).count(),
        elapsed = ?started.elapsed(),
        "started"
    );

    stop.await;
    tracing::info!(longest = ?config.drain, "stopping: open connections may finish");
    drain.send_replace(true);
    stopping.cancel();
    connections.close();
    followers.close();
    let finished = tokio::time::timeout(config.drain, async {
        followers.wait().await;
        connections.wait().await;
    });
    if finished.await.is_err() {
        tracing::warn!(left = connections.len(), "connections were cut");
    }
    admin.cancel();
    store.close().await;
    tracing::info!("stopped");
    Ok(())
}

/// The recorder of metrics, with what each means.
fn metrics() -> anyhow::Result<PrometheusHandle> {
    // From a look-up to a pass over a large catalog, in seconds.
    let buckets = [
        0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 600.0,
    ];
    let handle = PrometheusBuilder::new()
        .set_buckets(&buckets)
        .and_then(PrometheusBuilder::install_recorder)
        .context("cannot set up metrics")?;
    serve::describe_metrics();
    ingest::describe_metrics();
    Ok(handle)
}

/// The ports, all bound before anything is read: one that is taken is the
/// most common mistake, and should show at once.
struct Ports {
    grpc: Listener,
    http: Listener,
    admin: Listener,
}

impl Ports {
    async fn bind(config: &Config) -> anyhow::Result<Self> {
        Ok(Self {
            grpc: serve::bind("grpc", config.grpc).await?,
            http: serve::bind("http", config.http).await?,
            admin: serve::bind("admin", config.admin).await?,
        })
    }
}

fn catalogs(config: &Config) -> (Catalogs, Vec<(Followed, Publisher)>) {
    let cells = config.catalogs.iter().map(|catalog| {
        let routing = Routing {
            authorities: catalog.authorities.clone(),
        };
        (catalog.name.clone(), routing)
    });
    let (catalogs, publishers) = Catalogs::new(cells, config.default_catalog.clone());
    let followed = config.catalogs.iter().map(followed);
    (catalogs, followed.zip(publishers).collect())
}

fn followed(catalog: &CatalogConfig) -> Followed {
    Followed {
        name: catalog.name.clone(),
        source: catalog.source.clone(),
        poll: catalog.poll,
        platform: catalog.platform.clone(),
        on_invalid: catalog.on_invalid,
    }
}
