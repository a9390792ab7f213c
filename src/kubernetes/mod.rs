//! The cluster that almanac runs in: objects of its API are read, and what they say
//! becomes catalogs to follow and files for the registry client.
//!
//! - `settings` says what is read, `client` connects.
//! - `resources` names the kinds of objects; `watched` keeps the objects of one kind.
//! - `catalogs` makes catalogs of `ClusterCatalogs`, `announcer` compares with the
//!   live object which digest is announced.
//! - `own` resolves catalogs and writes their status in the place of catalogd.
//! - `files` writes mirror sets and image policies for the registry client, which
//!   reads its files again for each pull. `credentials` writes those of secrets,
//!   `service_account` finds the secrets of almanac's own account.
//! - `tls_profile` writes rules for the ports.
//! - `stored` reads and writes files of the data folder.
//! - `health` collects what fails, `problem` words it, `events` tells administrators.
//!
//! Passes, and what they publish, are the matter of `ingest`: a cluster only names
//! catalogs, as the configuration does.

mod announcer;
mod catalogs;
mod client;
mod credentials;
mod events;
mod files;
mod health;
mod own;
mod problem;
mod resources;
mod service_account;
mod settings;
mod stored;
mod tls_profile;
mod watched;

use std::path::Path;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::snapshot::{Announcements, Catalogs};
use announcer::Announcer;
use catalogs::Following;
use events::Events;
use files::Folders;
use own::Owning;
use resources::Kind;
use watched::Watched;

pub use catalogs::DiscoveredCatalog;
pub use client::ClientError;
pub use files::RegistryFiles;
pub use health::{Health, describe_metrics};
pub use settings::{ClusterCatalogs, SecretName, SecretNameError, Settings};
pub use tls_profile::{prepare_tls_rules, tls_rules_file};

/// The connection to a cluster.
pub struct Cluster {
    /// The catalogs to follow besides those of the configuration.
    pub catalogs: watch::Receiver<Arc<[DiscoveredCatalog]>>,
    /// Whether an earlier start has left these catalogs. If not, the first change brings
    /// them.
    pub is_known: bool,
    /// Which digests the cluster announces, if its catalogs are followed.
    pub announcements: Option<Arc<dyn Announcements>>,
    /// The files for the registry client.
    pub files: RegistryFiles,
    /// Resources that cannot be read or written.
    pub health: watch::Receiver<Health>,
}

/// Removes what an earlier start has kept in `data_dir` and the settings no longer
/// ask for: credentials, image policies, mirror sets and catalogs. Without settings
/// that is all. What cannot be removed is logged. It blocks.
pub fn remove_unused(settings: Option<&Settings>, data_dir: &Path) {
    let folders = Folders::new(data_dir.join(stored::FOLDER));
    match settings {
        Some(settings) => folders.remove_unused(settings),
        None => folders.remove_unused(&Settings::default()),
    }
}

/// Checks the credentials for the API server, which is not asked.
///
/// # Errors
/// When they cannot be used.
pub async fn check_credentials(settings: &Settings) -> Result<(), ClientError> {
    client::connect(settings).await.map(drop)
}

impl Cluster {
    /// Connects, and reads what the settings name, on `tasks` until `stop`. State that
    /// outlives restarts is kept in `data_dir`. The API server is not waited for.
    ///
    /// # Errors
    /// When the credentials cannot be used. An API server that does not answer is no
    /// error: it is asked again.
    pub async fn connect(
        settings: &Settings,
        data_dir: &Path,
        catalogs: Catalogs,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Result<Self, ClientError> {
        let client = client::connect(settings).await?;
        let owns = settings.cluster_catalogs == ClusterCatalogs::Own;
        let namespace = settings.namespace.as_deref();
        let namespace = namespace.unwrap_or(client.default_namespace()).to_owned();
        let events = if owns {
            let lease = events::ObjectName {
                namespace: &namespace,
                name: own::LEASE,
            };
            Events::start(client.clone(), lease, &settings.pod, tasks, stop)
        } else {
            // Nothing is written beside catalogd.
            Events::none()
        };
        let (failures, health) = health::channel(events.clone());
        let watched = |kind: Kind, if_missing| Watched {
            client: client.clone(),
            kind,
            reported: kind,
            namespace: None,
            labels: None,
            name: None,
            if_missing,
            failures: failures.clone(),
        };
        let folders = Folders::new(data_dir.join(stored::FOLDER));
        let files = files::start(settings, &folders, &watched, tasks, stop).await;
        if settings.tls_profile {
            let servers = watched(resources::API_SERVERS, None);
            follow_tls_profile(servers, data_dir, tasks, stop);
        }
        let (found, discovered) = watch::channel(Arc::from([]));
        let mut announcements: Option<Arc<dyn Announcements>> = None;
        let mut is_known = true;
        if settings.cluster_catalogs != ClusterCatalogs::Off {
            let mut objects = watched(resources::CLUSTER_CATALOGS, None);
            objects.labels.clone_from(&settings.selector);
            let api = objects.api();
            let announcer = Arc::new(Announcer::new(api.clone()));
            let objects = objects.start(tasks, stop);
            let owning = Owning {
                client: client.clone(),
                settings,
                namespace,
                api,
                objects: objects.clone(),
                catalogs: catalogs.clone(),
                failures: failures.clone(),
                events,
            };
            let resolves = owns.then(|| owning.start(tasks, stop));
            let following = Following {
                objects,
                announcer: Arc::clone(&announcer),
                catalogs,
                resolves,
                found,
                file: folders.catalogs(),
                written: Vec::new(),
            };
            is_known = following.restore().await;
            spawn_until(stop, tasks, following.run());
            announcements = Some(announcer);
        }
        Ok(Self {
            catalogs: discovered,
            is_known,
            announcements,
            files,
            health,
        })
    }
}

/// Writes the rules of TLS of the cluster into a file, and follows them.
fn follow_tls_profile(
    mut servers: Watched,
    data_dir: &Path,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) {
    servers.name = Some("cluster".to_owned());
    let servers = servers.start(tasks, stop);
    let keeping = tls_profile::keep(servers, tls_rules_file(data_dir));
    spawn_until(stop, tasks, keeping);
}

/// Spawns work that ends when almanac stops.
fn spawn_until(
    stop: &CancellationToken,
    tasks: &TaskTracker,
    work: impl Future<Output = ()> + Send + 'static,
) {
    let stop = stop.clone();
    tasks.spawn(async move {
        stop.run_until_cancelled(work).await;
    });
}
