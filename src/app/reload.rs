//! Taking a changed configuration while almanac runs: when a file of it changes,
//! and when somebody asks (SIGHUP). What cannot be used is refused, and what
//! was taken before it stays.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use metrics::{counter, gauge};
use tokio::signal::unix::Signal;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::app::catalog_manager::Fleet;
use crate::config::{Config, Written};
use crate::serve::admin::Configuration;
use ::images::digest::Digest;

/// The time between two looks at the files.
const LOOK: Duration = Duration::from_secs(2);
/// How long a file that has changed must stay the same before it is read.
const SETTLE: Duration = Duration::from_millis(200);
/// How often that is waited for: who writes for longer gets what is there.
const SETTLINGS: usize = 10;
/// How much of a file is looked at, in bytes; more is refused anyway.
const MAX_FILE: u64 = 1 << 20;

/// Takes changed configurations until it is stopped.
pub(super) struct Reload {
    /// What configurations are made of.
    pub(super) written: Written,
    /// The files among that.
    pub(super) files: Vec<PathBuf>,
    /// The one that almanac was started with.
    pub(super) first: Config,
    /// The catalogs.
    pub(super) fleet: Fleet,
    /// What readers of the status see.
    pub(super) status: watch::Sender<Configuration>,
    /// How long connections may take at the end.
    pub(super) drain: watch::Sender<Duration>,
    /// Has failing catalogs tried again.
    pub(super) hurry: watch::Sender<()>,
}

impl Reload {
    /// Looks at the files, and listens for `hangup`. At the end it gives back
    /// the catalogs.
    pub(super) async fn follow(mut self, mut hangup: Signal, stop: CancellationToken) -> Fleet {
        let mut seen = look(self.files.clone()).await;
        let mut refused = false;
        loop {
            let asked = tokio::select! {
                Some(()) = hangup.recv() => true,
                () = tokio::time::sleep(LOOK) => false,
                () = stop.cancelled() => return self.fleet,
            };
            if self.written.file().is_none() {
                if asked {
                    tracing::warn!("there is no configuration file that could be read again");
                    self.hurry.send_replace(());
                }
                continue;
            }
            let mut now = look(self.files.clone()).await;
            let changed = asked || now != seen;
            if !changed {
                // What it lacked may have come: a file, a port that is free.
                if refused {
                    refused = !self.take(true).await;
                }
                continue;
            }
            // Who writes them may not be done.
            for _ in 0..SETTLINGS {
                tokio::time::sleep(SETTLE).await;
                let again = look(self.files.clone()).await;
                if again == now {
                    break;
                }
                now = again;
            }
            // To its end, even when almanac is stopped meanwhile.
            let before = self.files.clone();
            refused = !self.take(false).await;
            if asked {
                self.hurry.send_replace(());
            }
            // What is written while it is read shows at the next look.
            let others = self.files != before;
            seen = if others {
                look(self.files.clone()).await
            } else {
                now
            };
        }
    }

    /// Takes what is written now, if it can be used, and says whether it could.
    /// When the same is tried `again`, only what has changed is told.
    async fn take(&mut self, again: bool) -> bool {
        // Another data folder counts only from the next start on.
        let loaded = self.written.load().and_then(|config| {
            config.check_data_dir(&self.first.data_dir)?;
            Ok(config)
        });
        let taken = match loaded {
            Ok(config) => self.fleet.take(&config).await.map(|()| config),
            Err(error) => Err(error.into()),
        };
        let outcome = match taken {
            Ok(config) => {
                let keys = self.first.needs_restart(&config);
                tracing::info!(
                    catalogs = config.catalogs.len(),
                    "the configuration was read again"
                );
                if !keys.is_empty() {
                    tracing::warn!(
                        keys = keys.join(", "),
                        "what these keys say counts only from the next start on"
                    );
                }
                if config.proxies != self.first.proxies {
                    config.proxies.log();
                }
                self.drain.send_replace(config.drain);
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
                tracing::error!(%error, "the new configuration is refused, the old one stays");
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

/// Says what the metrics of this module mean.
pub(super) fn describe_metrics() {
    metrics::describe_counter!(
        "almanac_config_reloads_total",
        "Configurations that were read while running, by outcome"
    );
    metrics::describe_gauge!(
        "almanac_config_last_reload_successful",
        "Whether the configuration that was read last could be taken"
    );
}

/// The files that a configuration was made of.
pub(super) fn files(written: &Written, config: &Config) -> Vec<PathBuf> {
    let own = written.file().map(Path::to_owned);
    own.into_iter().chain(config.files.clone()).collect()
}

/// Digests of what files hold; nothing where one cannot be read.
async fn look(paths: Vec<PathBuf>) -> Vec<Option<Digest>> {
    let read = |path: &Path| {
        let mut content = Vec::new();
        let file = File::open(path).ok()?;
        file.take(MAX_FILE + 1).read_to_end(&mut content).ok()?;
        Some(Digest::of(&content))
    };
    let looking = move || paths.iter().map(|path| read(path)).collect();
    tokio::task::spawn_blocking(looking)
        .await
        .unwrap_or_default()
}
