//! The only place that knows everything: opens the store, binds the ports,
//! serves, drains. In it `fleet` has the catalogs and what belongs to each,
//! `reload` takes a changed configuration, `memory` gives back what is free, and
//! `folder` does all of it for one folder that is not followed.

mod catalog_manager;
mod folder;
mod memory;
mod reload;

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use rustls::ServerConfig;
use tokio::signal::unix::Signal;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use folder::{Integrity, Options as FolderOptions, serve_folder};

use crate::config::{Config, Written};
use crate::ingest::{self, Workshop};
use crate::serve;
use crate::serve::access::Access;
use crate::serve::admin::Configuration;
use crate::serve::net::tls::Tls;
use crate::serve::net::{credential, tls};
use crate::serve::oci::{Gate, Users};
use crate::serve::{Listener, grpc, http, oci};
use crate::snapshot::{Catalogs, CatalogsPublisher, Images};
use crate::store::{Store, StoreError};
use ::images::Registries;
use catalog_manager::{Fleet, Prepared, Shared};
use reload::Reload;

/// Runs almanac until `stop` comes, then lets open connections finish. What
/// was `written` is read again when its file changes and at each `hangup`;
/// `config` is what came of it now.
///
/// # Errors
/// When it cannot start: a port that is taken, a data folder that cannot be
/// used. What goes wrong with a catalog is reported and tried again.
pub async fn run(
    written: Written,
    config: Config,
    hangup: Signal,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let started = Instant::now();
    let metrics = metrics()?;
    let access = Access::default();
    let credentials = Credentials::open(&config, &access)?;
    let ports = Ports::bind(&config, &credentials).await?;
    let prepared = Prepared::first(&config).await?;
    serve::raise_descriptor_limit(config.connections.connections);
    let store = open_store(&config).await?;
    let (publisher, catalogs) = CatalogsPublisher::new();
    publisher.remember(store.catalogs().await.context("cannot read the store")?);
    let images = Images::default();
    let workshop = workshop(&config, &store, &catalogs)?;

    let stopping = CancellationToken::new();
    let connections = TaskTracker::new();
    let followers = TaskTracker::new();
    let (drain, draining) = watch::channel(false);
    let limits = config.connections.clone();
    let registry = grpc::Service::new(catalogs.clone(), limits.clone(), draining)
        .context("cannot set up gRPC reflection")?;
    ports.log();
    let shared = Shared {
        publisher,
        images: images.clone(),
        offline: config.offline,
        access: access.clone(),
        registry: registry.clone(),
        tls: credentials.grpc,
        connections: connections.clone(),
        followers: followers.clone(),
        stopping: stopping.clone(),
    };
    let hurry = workshop.hurry.clone();
    let mut fleet = Fleet::new(shared, workshop, config.registries.clone());
    fleet.start(&config, prepared).await;

    let servers = TaskTracker::new();
    servers.spawn(registry.serve(ports.grpc, stopping.clone(), connections.clone()));
    let secure = ports.http.has_tls();
    let pulling = oci::router(images, credentials.gate, secure);
    servers.spawn(ports.http.serve(
        http::Service::new(catalogs.clone(), access, config.origins.clone(), pulling),
        limits.clone(),
        stopping.clone(),
        connections.clone(),
    ));
    if let Some(files) = credentials.users {
        servers.spawn(files.follow(stopping.clone()));
    }
    for files in credentials.certificates {
        servers.spawn(files.follow(stopping.clone()));
    }
    let file = written.file().map(|path| path.display().to_string());
    let (status, configuration) = watch::channel(Configuration::read(file));
    // Probes and metrics are answered to the end.
    let admin = CancellationToken::new();
    servers.spawn(ports.admin.serve(
        serve::admin::router(catalogs.clone(), configuration, metrics),
        limits,
        admin.clone(),
        TaskTracker::new(),
    ));
    followers.spawn(ingest::encode(
        store.clone(),
        catalogs.clone(),
        stopping.clone(),
    ));
    followers.spawn(memory::give_back(stopping.clone()));
    let (count, loaded) = catalog_manager::count(&catalogs);
    tracing::info!(catalogs = count, loaded, elapsed = ?started.elapsed(), "started");
    let (longest, drain_time) = watch::channel(config.drain);
    let reload = Reload {
        files: reload::files(&written, &config),
        written,
        first: config,
        fleet,
        status,
        drain: longest,
        hurry,
    };
    let reloading = tokio::spawn(reload.follow(hangup, stopping.clone()));

    stop.await;
    let longest = *drain_time.borrow();
    tracing::info!(?longest, "stopping: open connections may finish");
    drain.send_replace(true);
    stopping.cancel();
    connections.close();
    followers.close();
    let finished = tokio::time::timeout(longest, async {
        // Kept until then, as the writing ends are in it. A panic has been shown.
        let fleet = reloading.await;
        followers.wait().await;
        connections.wait().await;
        drop(fleet);
    });
    if finished.await.is_err() {
        tracing::warn!(left = connections.len(), "connections were cut");
    }
    admin.cancel();
    store.close().await;
    tracing::info!("stopped");
    Ok(())
}

async fn open_store(config: &Config) -> anyhow::Result<Store> {
    let opened = Store::open_with(&config.data_dir, config.cache).await;
    opened.map_err(|error| {
        let folder = format!("data folder {}", config.data_dir.display());
        let in_use = matches!(error, StoreError::Locked { .. });
        let error = anyhow::Error::new(error).context(folder);
        if in_use {
            return anyhow::anyhow!("{error:#}; give each almanac its own --data-dir");
        }
        error
    })
}

/// What passes have in common.
fn workshop(config: &Config, store: &Store, catalogs: &Catalogs) -> anyhow::Result<Workshop> {
    let registries = Registries::new(&config.registries);
    config.proxies.log();
    Ok(Workshop {
        store: store.clone(),
        registries: registries.context("cannot set up the registry client")?,
        limits: config.unpack.clone(),
        turns: Arc::new(Semaphore::new(1)),
        catalogs: catalogs.clone(),
        hurry: watch::Sender::default(),
    })
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
    reload::describe_metrics();
    Ok(handle)
}

/// What proves who we are and who clients are, all read before anything is
/// bound.
struct Credentials {
    grpc: Option<Tls>,
    http: Option<Tls>,
    certificates: Vec<credential::Followed<ServerConfig>>,
    gate: Gate,
    users: Option<credential::Followed<Users>>,
}

impl Credentials {
    fn open(config: &Config, access: &Access) -> anyhow::Result<Self> {
        let mut certificates = Vec::new();
        let mut open = |service, settings: &Option<tls::Settings>, protocols| {
            let Some(settings) = settings else {
                return anyhow::Ok(None);
            };
            let (tls, files) = Tls::open(service, settings, protocols)
                .with_context(|| format!("TLS of {service}"))?;
            certificates.push(files);
            Ok(Some(tls))
        };
        let grpc = open("grpc", &config.grpc_tls, &["h2"])?;
        let http = open("http", &config.http_tls, &["h2", "http/1.1"])?;
        let gate = Gate::open(&config.distribution, access.clone());
        let (gate, users) = gate.context("who may pull images")?;
        if users.is_some() && http.is_none() {
            tracing::warn!("passwords are asked for without TLS: whoever listens can read them");
        }
        Ok(Self {
            grpc,
            http,
            certificates,
            gate,
            users,
        })
    }
}

/// The ports of all catalogs, bound before anything is read: one that is taken
/// is the most common mistake, and should show at once.
struct Ports {
    grpc: Listener,
    http: Listener,
    admin: Listener,
}

impl Ports {
    async fn bind(config: &Config, credentials: &Credentials) -> anyhow::Result<Self> {
        let grpc = serve::bind("grpc", config.grpc).await?;
        let http = serve::bind("http", config.http).await?;
        Ok(Self {
            grpc: grpc.secured(credentials.grpc.clone()),
            http: http.secured(credentials.http.clone()),
            admin: serve::bind("admin", config.admin).await?,
        })
    }

    fn log(&self) {
        for listener in [&self.grpc, &self.http, &self.admin] {
            catalog_manager::log(listener);
        }
    }
}
