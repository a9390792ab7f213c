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
    let opened = Box::pin(open(&config)).await?;
    let (tasks, store, read_only) = (opened.tasks.clone(), opened.store.clone(), opened.read_only);
    let catalogs = opened.catalogs.clone();
    // Boxed: its state is large.
    let Served {
        reload,
        drain,
        drain_time,
    } = Box::pin(serve_all(opened, written, config, listening)).await?;
    log_start(&catalogs, started);
    let reloading = tokio::spawn(reload.follow(hangup, tasks.stopping.clone()));

    let ended = disk::until_stopped(stop, &store, read_only).await;
    let longest = *drain_time.borrow();
    tracing::info!(?longest, "stopping; open connections may finish");
    drain.send_replace(true);
    tasks.stopping.cancel();
    finish(longest, reloading, &tasks).await;
    tasks.admin.cancel();
    store.close().await;
    tracing::info!("stopped");
    ended
}

/// The tasks of a running almanac, and how they stop.
#[derive(Clone)]
struct Tasks {
    /// Cancelled when almanac stops.
    stopping: CancellationToken,
    /// Cancelled at the end: probes and metrics are answered until then.
    admin: CancellationToken,
    /// Open connections; the shutdown waits for them.
    connections: TaskTracker,
    /// Followers of catalogs; the shutdown waits for them.
    followers: TaskTracker,
    /// Servers of ports, and what they read.
    servers: TaskTracker,
}

/// What a start opens before anything is served.
struct Opened {
    metrics: PrometheusHandle,
    access: Access,
    credentials: Credentials,
    ports: Listeners,
    prepared: Prepared,
    store: Store,
    read_only: bool,
    publisher: CatalogsPublisher,
    catalogs: Catalogs,
    tasks: Tasks,
    cluster: ClusterReader,
    /// The configuration with what the cluster adds.
    complete: Config,
    context: PassContext,
}

/// What the end of a run needs of its start.
struct Served {
    reload: Reload,
    /// Ends streams.
    drain: watch::Sender<bool>,
    /// How long connections may take to finish.
    drain_time: watch::Receiver<Duration>,
}

/// Opens the files, the ports, the store, the cluster and the fleet of a configuration.
async fn open(config: &Config) -> anyhow::Result<Opened> {
    let metrics = metrics()?;
    let access = Access::default();
    cluster::prepare(config)?;
    let credentials = Credentials::open(config, &access)?;
    let ports = Listeners::bind(config, &credentials).await?;
    let prepared = Prepared::first(config).await?;
    serve::raise_descriptor_limit(config.connections.connections);
    let (store, read_only) = open_store(config).await?;
    let (publisher, catalogs) = CatalogsPublisher::new();
    publisher.remember(store.catalogs().await.context("cannot read the store")?);
    let tasks = Tasks {
        stopping: CancellationToken::new(),
        admin: CancellationToken::new(),
        connections: TaskTracker::new(),
        followers: TaskTracker::new(),
        servers: TaskTracker::new(),
    };
    let connecting = ClusterReader::connect(config, &catalogs, &tasks.followers, &tasks.stopping);
    let cluster = Box::pin(connecting).await?;
    let complete = cluster.complete(config);
    let mut context = pass_context(&complete, &store, &catalogs)?;
    context.coordinator = fleet::join(config, &store, &context.retry_now).await?;
    Ok(Opened {
        metrics,
        access,
        credentials,
        ports,
        prepared,
        store,
        read_only,
        publisher,
        catalogs,
        tasks,
        cluster,
        complete,
        context,
    })
}

/// Follows the catalogs, and serves all ports.
async fn serve_all(
    opened: Opened,
    written: Written,
    config: Config,
    listening: impl FnOnce(SocketAddr, bool),
) -> anyhow::Result<Served> {
    let Opened {
        credentials,
        ports,
        store,
        catalogs,
        tasks,
        cluster,
        complete,
        context,
        ..
    } = opened;
    let replica = context.coordinator.replica().cloned();
    let images = images(replica.as_ref());
    let (drain, draining) = watch::channel(false);
    let limits = limits(&config);
    let access = opened.access;
    let registry = grpc::Service::new(catalogs.clone(), access.clone(), limits.clone(), draining)
        .context("cannot set up gRPC reflection")?;
    ports.log();
    listening(ports.http.address, ports.http.tls.is_some());
    let shared = Shared {
        publisher: opened.publisher,
        images: images.clone(),
        offline: config.offline,
        read_only: opened.read_only,
        access: access.clone(),
        registry: registry.clone(),
        tls: credentials.grpc,
        connections: tasks.connections.clone(),
        followers: tasks.followers.clone(),
        stopping: tasks.stopping.clone(),
    };
    let (retry_now, webhooks) = (context.retry_now.clone(), context.webhooks.clone());
    let mut manager = CatalogManager::new(shared, context, complete.registries.clone());
    start_catalogs(&mut manager, &config, &complete, opened.prepared).await?;

    let file = written.file().map(|path| path.display().to_string());
    let (status, configuration) = watch::channel(Configuration::read(file));
    let reported = serve::admin::Reported {
        catalogs: catalogs.clone(),
        configuration,
        cluster: cluster.problems(),
        fleet: replica.as_ref().map(Replica::status),
        webhooks,
        unknown_names: registry.unknown_names(),
        unwritable: store.unwritable(),
        metrics: opened.metrics,
    };
    let pulling = oci::router(images, credentials.authorizer, ports.http.tls.is_some());
    let api = http_service(&config, catalogs.clone(), access, &cluster, pulling);
    let admin = serve::admin::router(reported, config.pages.url.as_deref());
    serve_ports(ports, registry, api, admin, &limits, &tasks)?;
    follow_files(credentials.users, &tasks);
    follow_files(credentials.token_keys, &tasks);
    follow_files(credentials.certificates, &tasks);
    let beating = replica.as_ref();
    start_upkeep(
        &store,
        &catalogs,
        opened.read_only,
        beating,
        &retry_now,
        &tasks,
    );
    let (longest, drain_time) = watch::channel(config.drain);
    Ok(Served {
        reload: Reload {
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
        },
        drain,
        drain_time,
    })
}

/// Serves gRPC, HTTP, the webhook of the cluster and the admin port.
fn serve_ports(
    ports: Listeners,
    registry: grpc::Service,
    api: http::Service,
    admin: Router,
    limits: &serve::Limits,
    tasks: &Tasks,
) -> anyhow::Result<()> {
    let (stopping, connections) = (&tasks.stopping, &tasks.connections);
    let serving = registry.serve(ports.grpc, stopping.clone(), connections.clone());
    tasks.servers.spawn(serving);
    let serving = (ports.http).serve(api, limits.clone(), stopping.clone(), connections.clone());
    tasks.servers.spawn(serving);
    // It checks objects of the cluster.
    if let Some(webhook) = ports.webhook {
        let routes = serve::admission::routes();
        let serving = webhook.serve(
            routes,
            limits.clone(),
            stopping.clone(),
            connections.clone(),
        );
        tasks.servers.spawn(serving);
    }
    admin::serve(ports.admin, admin, limits.clone(), tasks.admin.clone())
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
    tasks: &Tasks,
) {
    let Tasks {
        followers,
        stopping,
        ..
    } = tasks;
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

/// Follows files with credentials.
fn follow_files<T: Send + Sync + 'static>(
    files: impl IntoIterator<Item = Followed<T>>,
    tasks: &Tasks,
) {
    for files in files {
        (tasks.servers).spawn(files.follow(tasks.stopping.clone()));
    }
}

/// Waits until the followers and the connections have finished, at most so long.
async fn finish<T>(longest: Duration, reloading: JoinHandle<T>, tasks: &Tasks) {
    let Tasks {
        connections,
        followers,
        ..
    } = tasks;
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
