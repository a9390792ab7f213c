//! Reloads: a changed configuration becomes active while almanac runs, when one
//! of its files changes and on SIGHUP. An invalid one is refused, and the active
//! configuration stays.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use metrics::{counter, gauge};
use tokio::signal::unix::Signal;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::app::catalog_manager::CatalogManager;
use crate::app::cluster::ClusterReader;
use crate::config::{Config, Written};
use crate::fleet::Replica;
use crate::serve::admin::Configuration;
use ::images::digest::Digest;

/// The time between two checks of the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// How long a changed file must stay the same before it is read.
const QUIET_TIME: Duration = Duration::from_millis(200);
/// How often that wait is repeated. After that, the file is read as it is.
const QUIET_ATTEMPTS: usize = 10;
/// The largest file whose changes are noticed, in bytes. Larger ones are
/// refused anyway.
const MAX_FILE: u64 = 1 << 20;

/// Makes changed configurations active until almanac stops.
pub(super) struct Reload {
    /// The flags, the file and the environment.
    pub(super) written: Written,
    /// The files that the active configuration was loaded from.
    pub(super) files: Vec<PathBuf>,
    /// The configuration that almanac was started with.
    pub(super) first: Config,
    /// The active configuration, without what the cluster adds.
    pub(super) loaded: Config,
    /// Catalogs that the cluster adds.
    pub(super) cluster: ClusterReader,
    /// The catalogs.
    pub(super) manager: CatalogManager,
    /// The state that the status API shows.
    pub(super) status: watch::Sender<Configuration>,
    /// How long connections may take to finish on shutdown.
    pub(super) drain: watch::Sender<Duration>,
    /// Makes failing catalogs retry at once.
    pub(super) retry_now: watch::Sender<()>,
    /// The replica of a fleet, if this process is one.
    pub(super) replica: Option<Replica>,
}

impl Reload {
    /// Watches the files and listens for `hangup`. Returns the manager when
    /// almanac stops.
    pub(super) async fn follow(
        mut self,
        mut hangup: Signal,
        stop: CancellationToken,
    ) -> CatalogManager {
        let mut seen = digests(self.files.clone()).await;
        let mut refused = false;
        // Why the catalogs of the cluster could not be taken.
        let mut untaken = None;
        loop {
            let requested = tokio::select! {
                Some(()) = hangup.recv() => true,
                () = self.cluster.changed() => {
                    untaken = self.take_cluster(None).await;
                    continue;
                }
                () = tokio::time::sleep(CHECK_INTERVAL) => {
                    if untaken.is_some() {
                        untaken = self.take_cluster(untaken).await;
                    }
                    false
                }
                () = stop.cancelled() => return self.manager,
            };
            if self.written.file().is_none() {
                if requested {
                    tracing::warn!("there is no configuration file to reload");
                    self.retry();
                }
                continue;
            }
            let mut now = digests(self.files.clone()).await;
            let changed = requested || now != seen;
            if !changed {
                // The missing file or the used port may be there now.
                if refused {
                    refused = !self.reload(true).await;
                }
                continue;
            }
            // The writer may not be done.
            for _ in 0..QUIET_ATTEMPTS {
                tokio::time::sleep(QUIET_TIME).await;
                let again = digests(self.files.clone()).await;
                if again == now {
                    break;
                }
                now = again;
            }
            // This runs to its end even if almanac is stopped meanwhile.
            let before = self.files.clone();
            refused = !self.reload(false).await;
            if requested {
                self.retry();
            }
            // A change during the reload shows at the next check.
            let others = self.files != before;
            seen = if others {
                digests(self.files.clone()).await
            } else {
                now
            };
        }
    }

    /// Makes failing catalogs retry at once, whichever replica follows them.
    fn retry(&self) {
        self.retry_now.send_replace(());
        if let Some(replica) = self.replica.clone() {
            tokio::spawn(async move { replica.ask_for_retries().await });
        }
    }

    /// Makes the catalogs active that the cluster names now. Returns the error of a
    /// failure. One that is the same as `last` is not logged again.
    async fn take_cluster(&mut self, last: Option<String>) -> Option<String> {
        let complete = self.cluster.complete(&self.loaded);
        let taken = self.manager.reconfigure(&complete).await;
        let Err(error) = taken else {
            // From here on, a name that is not among them is unknown.
            self.cluster.set_taken();
            tracing::info!(
                catalogs = complete.catalogs.len(),
                "the catalogs of the cluster are taken"
            );
            return None;
        };
        let error = format!("{error:#}");
        if last.as_ref() != Some(&error) {
            tracing::error!(
                %error,
                "the catalogs of the cluster cannot be taken; the active ones stay, and almanac tries again"
            );
        }
        Some(error)
    }

    /// Loads the configuration and makes it active. Returns whether that worked.
    /// When the same files are tried `again`, an error that stays the same is
    /// not logged again.
    async fn reload(&mut self, again: bool) -> bool {
        // A new data folder takes effect after a restart.
        let loaded = self.written.load().and_then(|config| {
            config.check_data_dir(&self.first.data_dir)?;
            Ok(config)
        });
        let taken = match loaded {
            Ok(config) => {
                let complete = self.cluster.complete(&config);
                self.manager.reconfigure(&complete).await.map(|()| config)
            }
            Err(error) => Err(error.into()),
        };
        let outcome = match taken {
            Ok(config) => {
                let keys = self.first.needs_restart(&config);
                tracing::info!(catalogs = config.catalogs.len(), "configuration reloaded");
                if !keys.is_empty() {
                    tracing::warn!(
                        keys = keys.join(", "),
                        "changes of these keys take effect after a restart"
                    );
                }
                if config.proxies != self.first.proxies {
                    config.proxies.log();
                }
                self.drain.send_replace(config.drain);
                self.loaded = config.clone();
                self.files = files(&self.written, &config);
                self.status.send_modify(|status| {
                    status.taken = SystemTime::now();
                    status.refused = None;
                    status.error = None;
                    status.needs_restart = keys;
                });
                "taken"
            }
            Err(error) => {
                let error = format!("{error:#}");
                if again && self.status.borrow().error.as_ref() == Some(&error) {
                    return false;
                }
                tracing::error!(%error, "the new configuration is refused; the active one stays");
                self.status.send_modify(|status| {
                    status.refused = Some(SystemTime::now());
                    status.error = Some(error);
                });
                "refused"
            }
        };
        counter!("almanac_config_reloads_total", "outcome" => outcome).increment(1);
        let good = if outcome == "taken" { 1.0 } else { 0.0 };
        gauge!("almanac_config_last_reload_successful").set(good);
        outcome == "taken"
    }
}

/// Describes the metrics of this module.
pub(super) fn describe_metrics() {
    metrics::describe_counter!(
        "almanac_config_reloads_total",
        "Configuration reloads by outcome"
    );
    metrics::describe_gauge!(
        "almanac_config_last_reload_successful",
        "Whether the last configuration reload succeeded"
    );
}

/// The files that a configuration is loaded from.
pub(super) fn files(written: &Written, config: &Config) -> Vec<PathBuf> {
    let own = written.file().map(Path::to_owned);
    own.into_iter().chain(config.files.clone()).collect()
}

/// The digests of the files; `None` for one that cannot be read.
async fn digests(paths: Vec<PathBuf>) -> Vec<Option<Digest>> {
    let read = |path: &Path| {
        let mut content = Vec::new();
        let file = File::open(path).ok()?;
        file.take(MAX_FILE + 1).read_to_end(&mut content).ok()?;
        Some(Digest::of(&content))
    };
    let looking = move || paths.iter().map(|path| read(path)).collect();
    // Without digests after a panic, the next check sees a change and reloads.
    tokio::task::spawn_blocking(looking)
        .await
        .unwrap_or_default()
}
