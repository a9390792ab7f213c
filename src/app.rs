//! The only place that knows everything: opens the store, loads what it holds,
//! binds the ports, starts the followers, serves, drains. `folder` does so for
//! one folder that is not followed.

mod folder;

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use rustls::ServerConfig;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use folder::{Integrity, Options as FolderOptions, serve_folder};

use crate::config::{CatalogConfig, Config};
use crate::ingest::{self, Followed, Workshop};
use crate::oci::Registries;
use crate::serve::catalogd::{self, Access, Tokens};
use crate::serve::distribution::{self, Gate, Users};
use crate::serve::tls::{self, Tls};
use crate::serve::{self, Listener, credential, registry};
use crate::snapshot::{Catalogs, Images, Publisher, Routing};
use crate::store::{Store, StoreError};

/// Runs almanac until `stop` comes, then lets open connections finish.
///
/// # Errors
/// When it cannot start: a port that is taken, a data folder that cannot be
/// used. What goes wrong with a catalog is reported and tried again.
#[expect(
    clippy::too_many_lines,
    reason = "what is started, in its order, and stopped, in the other"
)]
pub async fn run(config: Config, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let started = Instant::now();
    let metrics = metrics()?;
    let credentials = Credentials::open(&config)?;
    let ports = Ports::bind(&config, &credentials).await?;
    serve::raise_descriptor_limit(config.connections.connections);
    let store = open_store(&config).await?;
    let (catalogs, followed) = catalogs(&config);
    let workshop = Workshop {
        store: store.clone(),
        registries: Registries::new(&config.registries)
            .context("cannot set up the registry client")?,
        limits: config.unpack.clone(),
        turns: Arc::new(Semaphore::new(1)),
        catalogs: catalogs.clone(),
    };
    for (followed, publisher) in &followed {
        ingest::restore(&workshop, followed, publisher).await;
    }
    let pulled = config.catalogs.iter();
    let pulled = pulled.map(|catalog| (catalog.name.clone(), !catalog.available));
    let (images, makers) = Images::new(pulled);
    for ((followed, _), maker) in followed.iter().zip(&makers) {
        ingest::restore_image(&workshop, &catalogs, followed, maker).await;
    }

    let stopping = CancellationToken::new();
    let connections = TaskTracker::new();
    let (drain, draining) = watch::channel(false);
    let limits = config.connections.clone();
    let registry = registry::Service::new(catalogs.clone(), limits.clone(), draining)
        .context("cannot set up gRPC reflection")?;
    ports.log();
    let servers = TaskTracker::new();
    for grpc in ports.grpc {
        let serving = registry.clone();
        servers.spawn(serving.serve(grpc, stopping.clone(), connections.clone()));
    }
    let secure = ports.http.has_tls();
    let pulling = distribution::router(images, credentials.gate, secure);
    servers.spawn(
        ports.http.serve(
            catalogd::router(catalogs.clone(), credentials.access, config.origins.clone())
                .merge(pulling),
            limits.clone(),
            stopping.clone(),
            connections.clone(),
        ),
    );
    for files in credentials.certificates {
        servers.spawn(files.follow(stopping.clone()));
    }
    if let Some(files) = credentials.users {
        servers.spawn(files.follow(stopping.clone()));
    }
    for files in credentials.tokens {
        servers.spawn(files.follow(stopping.clone()));
    }
    // Probes and metrics are answered to the end.
    let admin = CancellationToken::new();
    let admin_connections = TaskTracker::new();
    servers.spawn(ports.admin.serve(
        serve::admin::router(catalogs.clone(), metrics),
        limits,
        admin.clone(),
        admin_connections,
    ));
    let followers = TaskTracker::new();
    followers.spawn(ingest::encode(
        store.clone(),
        catalogs.clone(),
        stopping.clone(),
    ));
    // Readers keep what they were given while the writing ends are there.
    let mut held = Vec::new();
    // In the order of the configuration, as the followed catalogs are.
    let mirrors = config.catalogs.iter().map(|catalog| catalog.mirror);
    for (((followed, publisher), maker), mirror) in followed.into_iter().zip(makers).zip(mirrors) {
        if config.offline {
            if publisher.snapshot().is_none() {
                tracing::warn!(
                    catalog = %followed.name,
                    "nothing is stored of the catalog, and no source is looked at: import it"
                );
            }
            publisher.update(|status| status.settled = true);
            held.push((publisher, maker));
            continue;
        }
        followers.spawn(ingest::keep_image(
            workshop.clone(),
            followed.clone(),
            mirror,
            catalogs.clone(),
            maker,
            stopping.clone(),
        ));
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
    drop(held);
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

/// What proves who we are and who clients are, all read before anything is
/// bound.
struct Credentials {
    grpc: Option<Tls>,
    http: Option<Tls>,
    access: Access,
    certificates: Vec<credential::Followed<ServerConfig>>,
    tokens: Vec<credential::Followed<Tokens>>,
    gate: Gate,
    users: Option<credential::Followed<Users>>,
}

impl Credentials {
    fn open(config: &Config) -> anyhow::Result<Self> {
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
        let asked = config.catalogs.iter();
        let asked = asked.map(|catalog| (catalog.name.clone(), catalog.access.clone()));
        let (access, tokens) = Access::open(asked).context("bearer tokens")?;
        if !tokens.is_empty() && http.is_none() {
            tracing::warn!(
                "bearer tokens are asked for without TLS: whoever listens can read them"
            );
        }
        let gate = Gate::open(&config.distribution, access.clone());
        let (gate, users) = gate.context("who may pull images")?;
        if users.is_some() && http.is_none() {
            tracing::warn!("passwords are asked for without TLS: whoever listens can read them");
        }
        Ok(Self {
            grpc,
            http,
            access,
            certificates,
            tokens,
            gate,
            users,
        })
    }
}

/// The ports, all bound before anything is read: one that is taken is the
/// most common mistake, and should show at once.
struct Ports {
    /// That of all catalogs, then those of single ones.
    grpc: Vec<Listener>,
    http: Listener,
    admin: Listener,
}

impl Ports {
    async fn bind(config: &Config, credentials: &Credentials) -> anyhow::Result<Self> {
        let shared = serve::bind("grpc", config.grpc).await?;
        let mut grpc = vec![shared.secured(credentials.grpc.clone())];
        for catalog in &config.catalogs {
            if let Some(address) = catalog.grpc {
                let own = serve::bind("grpc", address)
                    .await
                    .with_context(|| format!("port of the catalog {}", catalog.name))?;
                let own = own.of_catalog(catalog.name.clone());
                grpc.push(own.secured(credentials.grpc.clone()));
            }
        }
        let http = serve::bind("http", config.http).await?;
        Ok(Self {
            grpc,
            http: http.secured(credentials.http.clone()),
            admin: serve::bind("admin", config.admin).await?,
        })
    }

    fn all(&self) -> impl Iterator<Item = &Listener> {
        self.grpc.iter().chain([&self.http, &self.admin])
    }

    fn log(&self) {
        for listener in self.all() {
            tracing::info!(
                service = listener.service(),
                address = %listener.address(),
                catalog = listener.catalog().map(tracing::field::display),
                tls = listener.has_tls(),
                "listening"
            );
        }
    }
}

fn catalogs(config: &Config) -> (Catalogs, Vec<(Followed, Publisher)>) {
    let cells = config.catalogs.iter().map(|catalog| {
        let routing = Routing {
            authorities: catalog.authorities.clone(),
            withheld: !catalog.available,
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
