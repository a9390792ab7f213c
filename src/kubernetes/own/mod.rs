//! almanac in the place of catalogd: one leader resolves `ClusterCatalogs` and writes
//! their status. The others, and a leader beside a live catalogd, follow what is
//! announced.
//!
//! - `image` reads the specification, `conditions` makes the status.
//! - `lease` elects the leader, `guard` looks for a live catalogd.
//! - `writer` compares the objects with what is served, and writes.

mod conditions;
mod guard;
pub(super) mod image;
mod lease;
#[cfg(test)]
mod tests;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use kube::core::DynamicObject;
use kube::{Api, Client};
use metrics::gauge;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::kubernetes::events::{Events, Notice};
use crate::kubernetes::health::Failures;
use crate::kubernetes::resources::{CATALOGD_LEASES, LEASES};
use crate::kubernetes::settings::Settings;
use crate::kubernetes::watched::Objects;
use crate::snapshot::Catalogs;
use guard::{Guard, blocked_writes};
use lease::{Election, leads};
use writer::{Records, Writer};

pub(super) use lease::NAME as LEASE;

/// The time between two looks at the clock.
const TICK: Duration = Duration::from_secs(1);
/// The time between two looks for a live catalogd.
const GUARD: Duration = Duration::from_secs(10);

/// Shared by the tasks of this room.
pub(super) struct Owning<'a> {
    pub(super) client: Client,
    pub(super) settings: &'a Settings,
    /// The namespace of the Lease.
    pub(super) namespace: String,
    pub(super) api: Api<DynamicObject>,
    pub(super) objects: watch::Receiver<Option<Objects>>,
    pub(super) catalogs: Catalogs,
    pub(super) failures: Failures,
    pub(super) events: Events,
}

impl Owning<'_> {
    /// Stands for election and writes status while it leads. The value is whether
    /// this almanac resolves the catalogs.
    pub(super) fn start(
        self,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> watch::Receiver<bool> {
        // From the start on, for alerts.
        blocked_writes().increment(0);
        let (leads_until, leads) = watch::channel(None);
        let resource = LEASES.resource();
        let election = Election {
            api: Api::namespaced_with(self.client.clone(), &self.namespace, &resource),
            identity: identity(&self.settings.pod),
            leads_until,
            failures: self.failures.clone(),
        };
        tasks.spawn(election.run(stop.clone()));
        let guard = Arc::new(Mutex::new(Guard::new(self.client)));
        let (role, resolves) = watch::channel(false);
        let role = Role {
            leads: leads.clone(),
            guard: Arc::clone(&guard),
            resolves: role,
            failures: self.failures.clone(),
            events: self.events.clone(),
            pod: self.settings.pod.clone(),
            catalogd_lives: false,
        };
        let own = stop.clone();
        tasks.spawn(async move {
            own.run_until_cancelled(role.run()).await;
        });
        let writer = Writer {
            api: self.api,
            objects: self.objects,
            catalogs: self.catalogs,
            leads,
            resolves: resolves.clone(),
            guard,
            service_url: self.settings.service_url.clone(),
            failures: self.failures,
            events: self.events,
            records: Records::default(),
        };
        let own = stop.clone();
        tasks.spawn(async move {
            own.run_until_cancelled(writer.run()).await;
        });
        resolves
    }
}

/// Tells this almanac from others, also from one that ran under the same name.
fn identity(pod: &str) -> String {
    format!("{pod}_{:016x}", fastrand::u64(..))
}

/// Decides whether this almanac resolves catalogs.
struct Role {
    leads: watch::Receiver<Option<Instant>>,
    guard: Arc<Mutex<Guard>>,
    resolves: watch::Sender<bool>,
    failures: Failures,
    events: Events,
    pod: String,
    /// Whether catalogd was alive at the last look.
    catalogd_lives: bool,
}

impl Role {
    async fn run(mut self) {
        let mut checked: Option<Instant> = None;
        let mut blocked = true;
        loop {
            let leads = leads(&self.leads);
            if !leads {
                if checked.take().is_some() {
                    // Only a leader looks.
                    self.failures.forget(CATALOGD_LEASES);
                }
            } else if checked.is_none_or(|checked| checked.elapsed() >= GUARD) {
                checked = Some(Instant::now());
                blocked = self.is_blocked().await;
            }
            let resolves = leads && !blocked;
            gauge!("almanac_kubernetes_leader").set(if resolves { 1.0 } else { 0.0 });
            self.resolves.send_if_modified(|current| {
                if *current == resolves {
                    return false;
                }
                *current = resolves;
                if resolves {
                    tracing::info!("this almanac resolves ClusterCatalogs and writes their status");
                    self.events.of_almanac(Notice {
                        is_warning: false,
                        reason: "LeaderElection",
                        note: format!("{} became leader", self.pod),
                    });
                } else {
                    tracing::info!("this almanac follows what is announced, and writes nothing");
                }
                true
            });
            tokio::select! {
                () = tokio::time::sleep(TICK) => {}
                changed = self.leads.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Whether a live catalogd, or not knowing of one, forbids writing.
    async fn is_blocked(&mut self) -> bool {
        let found = self.guard.lock().await.live().await;
        if !matches!(found, Ok(None)) {
            blocked_writes().increment(1);
        }
        match found {
            Ok(None) => {
                self.catalogd_lives = false;
                self.failures.recovered(CATALOGD_LEASES);
                false
            }
            Ok(Some(namespace)) => {
                let problem = format!(
                    "catalogd is alive in {namespace}: almanac writes no status beside it; \
                     scale catalogd to zero, or set cluster_catalogs to \"follow\""
                );
                if !std::mem::replace(&mut self.catalogd_lives, true) {
                    self.events.of_almanac(Notice {
                        is_warning: true,
                        reason: "CatalogdIsAlive",
                        note: problem.clone(),
                    });
                }
                self.failures.failed(CATALOGD_LEASES, "get", problem);
                true
            }
            Err(problem) => {
                self.failures.failed(CATALOGD_LEASES, "get", problem);
                true
            }
        }
    }
}
