//! The composition root: opens the store, binds the ports, serves and drains.
//!
//! - `listeners` opens what a start needs.
//! - `admin` serves probes and metrics on a thread of their own.
//! - `cluster` adds the catalogs and files of a cluster to a configuration.
//! - `fleet` joins several replicas.
//! - `check` does what of a start can fail; `secret_files` warns of those that others can read.
//! - `catalog_manager` follows and serves the catalogs.
//! - `reload` applies a changed configuration.
//! - `disk` waits for room, and notices that the data folder was removed.
//! - `memory` returns free memory to the system.
//! - `bus_error` ends almanac when a served file was cut or cannot be read.
//! - `folder` serves a single folder that is not followed.

mod admin;
mod bus_error;
mod catalog_manager;
mod check;
mod cluster;
mod disk;
mod fleet;
mod folder;
mod listeners;
mod memory;
mod reload;
mod secret_files;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use axum::Router;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::signal::unix::Signal;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use check::check;
pub use fleet::{NO_FLEET, export_of_fleet, import_into_fleet, migrate};
pub use folder::{Integrity, Options as FolderOptions, serve_folder};
pub(crate) use memory::limit_heaps;

use crate::config::{Config, Written};
use crate::fleet::{Coordinator, Replica, describe_fleet_metrics, keep_place};
use crate::ingest::{self, PassContext, Restarted};
use crate::kubernetes;
use crate::serve;
use crate::serve::access::Access;
use crate::serve::admin::Configuration;
use crate::serve::net::credential::Followed;
use crate::serve::{grpc, http, oci};
use crate::snapshot::{Catalogs, CatalogsPublisher, Images, ReadThrough};
use crate::store::{Store, StoreError};
use crate::webhooks::{self, Webhooks};
use ::images::Registries;
use catalog_manager::{CatalogManager, Prepared, Shared};
use cluster::ClusterReader;
use listeners::{Credentials, Listeners};
use reload::Reload;

/// Runs almanac until `stop` completes, then lets open connections finish.
/// `config` is the first configuration that `written` gives. It is loaded again
/// when its file changes and at each `hangup`. `listening` gets the address of the
/// HTTP port, and whether it has TLS.
///
/// # Errors
/// When almanac cannot start, for example because a port or the data folder is
/// in use, or when the data folder was removed. A catalog that fails is reported and
/// retried instead.
pub async fn run(
    written: Written,
    config: Config,
    hangup: Signal,
    listening: impl FnOnce(SocketAddr, bool),
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let started = Instant::now();
    bus_error::install();
    let metrics = metrics()?;
    let access = Access::default();
    cluster::prepare(&config)?;
    let credentials = Credentials::open(&config, &access)?;
    let ports = Listeners::bind(&config, &credentials).await?;
    let prepared = Prepared::first(&config).await?;
    serve::raise_descriptor_limit(config.connections.connections);
    let (store, read_only) = open_store(&config).await?;
    let (publisher, catalogs) = CatalogsPublisher::new();
    publisher.remember(store.catalogs().await.context("cannot read the store")?);
    // Probes and metrics are answered until the end of the shutdown.
    let (stopping, admin) = (CancellationToken::new(), CancellationToken::new());
    let (connections, followers) = (TaskTracker::new(), TaskTracker::new());
    let connecting = ClusterReader::connect(&config, &catalogs, &followers, &stopping);
    let cluster = Box::pin(connecting).await?;
    let complete = cluster.complete(&config);
    let mut context = pass_context(&complete, &store, &catalogs)?;
    context.coordinator = fleet::join(&config, &store, &context.retry_now).await?;
    let replica = context.coordinator.replica().cloned();
    let images = images(replica.as_ref());

    let (drain, draining) = watch::channel(false);
    let limits = limits(&config);
    let registry = grpc::Service::new(catalogs.clone(), access.clone(), limits.clone(), draining)
        .context("cannot set up gRPC reflection")?;
    ports.log();
    listening(ports.http.address, ports.http.tls.is_some());
    let shared = Shared {
        publisher,
        images: images.clone(),
        offline: config.offline,
        read_only,
        access: access.clone(),
        registry: registry.clone(),
        tls: credentials.grpc,
        connections: connections.clone(),
        followers: followers.clone(),
        stopping: stopping.clone(),
    };
    let (retry_now, webhooks) = (context.retry_now.clone(), context.webhooks.clone());
    let mut manager = CatalogManager::new(shared, context, complete.registries.clone());
    // Boxed: its state is large.
    Box::pin(start_catalogs(&mut manager, &config, &complete, prepared)).await?;

    let servers = TaskTracker::new();
    let unknown_names = registry.unknown_names();
    servers.spawn(registry.serve(ports.grpc, stopping.clone(), connections.clone()));
    let pulling = oci::router(images, credentials.authorizer, ports.http.tls.is_some());
    let api = http_service(&config, catalogs.clone(), access, &cluster, pulling);
    let port = ports.http;
    servers.spawn(port.serve(api, limits.clone(), stopping.clone(), connections.clone()));
    serve_webhook(ports.webhook, &limits, &servers, &connections, &stopping);
    follow_files(credentials.users, &servers, &stopping);
    follow_files(credentials.token_keys, &servers, &stopping);
    follow_files(credentials.certificates, &servers, &stopping);
    let file = written.file().map(|path| path.display().to_string());
    let (status, configuration) = watch::channel(Configuration::read(file));
    let reported = serve::admin::Reported {
        catalogs: catalogs.clone(),
        configuration,
        cluster: cluster.problems(),
        fleet: replica.as_ref().map(Replica::status),
        webhooks,
        unknown_names,
        unwritable: store.unwritable(),
        metrics,
    };
    let routes = serve::admin::router(reported, config.pages.url.as_deref());
    admin::serve(ports.admin, routes, limits.clone(), admin.clone())?;
    let beating = replica.as_ref();
    start_upkeep(
        &store, &catalogs, read_only, beating, &retry_now, &followers, &stopping,
    );
    log_start(&catalogs, started);
    let (longest, drain_time) = watch::channel(config.drain);
    let reload = Reload {
        files: reload::files(&written, &config),
        written,
        loaded: config.clone(),
        first: config,
        cluster,
        manager,
        status,
        drain: longest,
        retry_now,
        replica,
    };
    let reloading = tokio::spawn(reload.follow(hangup, stopping.clone()));

    let ended = disk::until_stopped(stop, &store, read_only).await;
    let longest = *drain_time.borrow();
    tracing::info!(?longest, "stopping; open connections may finish");
    drain.send_replace(true);
    stopping.cancel();
    finish(longest, reloading, &followers, &connections).await;
    admin.cancel();
    store.close().await;
    tracing::info!("stopped");
    ended
}

/// The images that clients can pull. A replica reads those that only others have from the bucket.
fn images(replica: Option<&Replica>) -> Images {
    let elsewhere = replica.cloned();
    Images::read_through(elsewhere.map(|replica| Arc::new(replica) as Arc<dyn ReadThrough>))
}

/// The limits of connections, as a node alone or a replica has them.
fn limits(config: &Config) -> serve::Limits {
    let mut limits = config.connections.clone();
    if config.fleet.is_some() {
        limits.renewal = limits.renewal.of_fleet();
    }
    limits
}

/// The service of the HTTP port, with the routes of pulls.
fn http_service(
    config: &Config,
    catalogs: Catalogs,
    access: Access,
    cluster: &ClusterReader,
    pulling: Router,
) -> http::Service {
    let (pages, origins) = (config.pages.clone(), config.origins.clone());
    let announced = cluster.announcements();
    let api = http::Service::new(catalogs, access, origins, pages, announced, pulling);
    api.revalidated(config.fleet.is_some())
}

/// Follows the catalogs of the configuration, then those of the cluster too.
async fn start_catalogs(
    manager: &mut CatalogManager,
    config: &Config,
    complete: &Config,
    prepared: Prepared,
) -> anyhow::Result<()> {
    manager.start(config, prepared).await;
    if config.kubernetes.is_some() {
        let taken = manager.reconfigure(complete).await;
        taken.context("the catalogs of the cluster")?;
    }
    Ok(())
}

/// Encodes published revisions, unless nothing can be stored, returns memory, and keeps its
/// place in a fleet. Not before it follows its catalogs: without any, it would tell the
/// other replicas that it lacks nothing.
fn start_upkeep(
    store: &Store,
    catalogs: &Catalogs,
    read_only: bool,
    replica: Option<&Replica>,
    retry_now: &watch::Sender<()>,
    followers: &TaskTracker,
    stopping: &CancellationToken,
) {
    if let Some(replica) = replica {
        start_replica(replica, followers, stopping);
    }
    if !read_only {
        let (writing, retry_now) = (store.clone(), retry_now.clone());
        followers.spawn(disk::write_again(writing, retry_now, stopping.clone()));
        let encoding = ingest::encode(store.clone(), catalogs.clone(), stopping.clone());
        followers.spawn(encoding);
        followers.spawn(ingest::trim_outlines(store.clone(), stopping.clone()));
    }
    followers.spawn(memory::give_back(stopping.clone()));
}

/// Keeps the place of a replica in its fleet.
fn start_replica(replica: &Replica, followers: &TaskTracker, stopping: &CancellationToken) {
    for (task, work) in keep_place() {
        let (replica, stop) = (replica.clone(), stopping.clone());
        followers.spawn(async move {
            let restarted = Restarted {
                task,
                catalog: None,
                replica: Some(&replica),
                stop: &stop,
            };
            restarted.run(|| work(replica.clone(), stop.clone())).await;
        });
    }
}

/// Serves the webhook that checks objects of the cluster, if there is one.
fn serve_webhook(
    webhook: Option<serve::Listener>,
    limits: &serve::Limits,
    servers: &TaskTracker,
    connections: &TaskTracker,
    stopping: &CancellationToken,
) {
    if let Some(webhook) = webhook {
        let (routes, stopping) = (serve::admission::routes(), stopping.clone());
        servers.spawn(webhook.serve(routes, limits.clone(), stopping, connections.clone()));
    }
}

/// Follows files with credentials.
fn follow_files<T: Send + Sync + 'static>(
    files: impl IntoIterator<Item = Followed<T>>,
    servers: &TaskTracker,
    stopping: &CancellationToken,
) {
    for files in files {
        servers.spawn(files.follow(stopping.clone()));
    }
}

/// Waits until the followers and the connections have finished, at most so long.
async fn finish<T>(
    longest: Duration,
    reloading: JoinHandle<T>,
    followers: &TaskTracker,
    connections: &TaskTracker,
) {
    connections.close();
    followers.close();
    let finished = tokio::time::timeout(longest, async {
        // The manager owns the publishers, so it lives until then. The panic
        // hook has reported a panic already.
        let manager = reloading.await;
        followers.wait().await;
        connections.wait().await;
        drop(manager);
    });
    if finished.await.is_err() {
        tracing::warn!(left = connections.len(), "connections were cut off");
    }
}

fn log_start(catalogs: &Catalogs, started: Instant) {
    let all = catalogs.all();
    let loaded = all.iter().filter(|catalog| catalog.snapshot().is_some());
    let (count, loaded) = (all.len(), loaded.count());
    tracing::info!(catalogs = count, loaded, elapsed = ?started.elapsed(), "started");
}

/// Opens the store. In offline mode, the second value is whether it can only be
/// read.
async fn open_store(config: &Config) -> anyhow::Result<(Store, bool)> {
    let folder = &config.data_dir;
    let error = match Store::open_to_serve(folder, config.cache).await {
        Ok(store) => {
            if let Some(reason) = &*store.unwritable().borrow() {
                tracing::error!(
                    reason = &**reason,
                    "the data folder cannot be written: stored revisions are served, and nothing \
                     is added until it can"
                );
            }
            return Ok((store, false));
        }
        Err(error) => error,
    };
    if config.offline
        && error.is_read_only()
        && let Some(store) = Store::open_to_read(folder)
            .await
            .with_context(|| named(folder))?
    {
        tracing::warn!(%error, "the data folder cannot be written, so nothing is added to it");
        store.set_unwritable(&error);
        return Ok((store, true));
    }
    if let StoreError::Locked { .. } = error {
        bail!("{error}, or give each almanac its own --data-dir");
    }
    let is_read_only = error.is_read_only() && !config.offline;
    let error = anyhow::Error::new(error).context(named(folder));
    if is_read_only && Store::is_in(folder) {
        bail!("{error:#}; --offline serves what is stored there");
    }
    Err(error)
}

fn named(data_dir: &Path) -> String {
    format!("data folder {}", data_dir.display())
}

/// The parts of the program that all passes share.
fn pass_context(
    config: &Config,
    store: &Store,
    catalogs: &Catalogs,
) -> anyhow::Result<PassContext> {
    let registries = Registries::new(&config.registries);
    config.proxies.log();
    Ok(PassContext {
        store: store.clone(),
        registries: registries.context("cannot set up the registry client")?,
        limits: config.unpack.clone(),
        read_permits: Arc::new(Semaphore::new(1)),
        catalogs: catalogs.clone(),
        retry_now: watch::Sender::default(),
        scrub: watch::Sender::new(config.scrub),
        scrubbing: Arc::new(Semaphore::new(1)),
        signing_key: None,
        history: watch::Sender::new(config.history),
        webhooks: Webhooks::default(),
        coordinator: Coordinator::Alone,
    })
}

/// Installs the metrics recorder and describes every metric.
fn metrics() -> anyhow::Result<PrometheusHandle> {
    // Seconds, from a query to a pass over a large catalog.
    let buckets = [
        0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 600.0,
    ];
    let handle = PrometheusBuilder::new()
        .set_buckets(&buckets)
        .and_then(PrometheusBuilder::install_recorder)
        .context("cannot set up metrics")?;
    serve::describe_metrics();
    ingest::describe_metrics();
    describe_fleet_metrics();
    webhooks::describe_metrics();
    kubernetes::describe_metrics();
    reload::describe_metrics();
    Ok(handle)
}
