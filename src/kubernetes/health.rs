//! Resources of the cluster that cannot be read or written, for the log, metrics
//! and the status.

use std::collections::BTreeMap;
use std::sync::Arc;

use metrics::{counter, gauge};
use tokio::sync::watch;

use crate::kubernetes::events::{Events, Said};
use crate::kubernetes::problem::Problem;
use crate::kubernetes::resources::Kind;

/// The failures by resource, and their texts. Empty: all is well.
pub type Health = Arc<BTreeMap<String, String>>;

/// Takes failures and recoveries. Cheap to clone.
#[derive(Clone)]
pub(super) struct Failures {
    health: watch::Sender<Health>,
    events: Events,
}

pub(super) fn channel(events: Events) -> (Failures, watch::Receiver<Health>) {
    let (health, receiver) = watch::channel(Health::default());
    (Failures { health, events }, receiver)
}

/// Describes the metrics of the cluster.
pub fn describe_metrics() {
    metrics::describe_counter!(
        "almanac_kubernetes_errors_total",
        "Failed requests to the API server of the cluster"
    );
    metrics::describe_gauge!(
        "almanac_kubernetes_leader",
        "Whether this almanac resolves ClusterCatalogs and writes their status"
    );
    metrics::describe_counter!(
        "almanac_kubernetes_blocked_writes_total",
        "Writes of a status that a live catalogd, or not knowing of one, prevented"
    );
    metrics::describe_counter!(
        "almanac_kubernetes_overwritten_total",
        "Statuses of ClusterCatalogs that somebody else has overwritten"
    );
    metrics::describe_counter!(
        "almanac_kubernetes_events_total",
        "Events of Kubernetes that were written, failed, or were dropped for lack of budget"
    );
    metrics::describe_gauge!(
        "almanac_kubernetes_up_to_date",
        "Whether requests for a kind of objects succeed"
    );
}

impl Failures {
    /// Notes that a request failed. A failure that stays the same is logged once.
    pub(super) fn failed(&self, kind: Kind, verb: &'static str, problem: impl Into<Problem>) {
        let Problem { text, is_forbidden } = problem.into();
        let resource = kind.name();
        counter!(
            "almanac_kubernetes_errors_total", "resource" => resource.clone(), "verb" => verb
        )
        .increment(1);
        gauge!("almanac_kubernetes_up_to_date", "resource" => resource.clone()).set(0.0);
        let known = self.health.borrow().get(&resource) == Some(&text);
        if known {
            tracing::debug!(resource, verb, error = text, "the cluster fails again");
            return;
        }
        tracing::warn!(
            resource,
            verb,
            error = text,
            "the cluster cannot be read or written; the last state stays"
        );
        if is_forbidden {
            self.events.of_almanac(Said {
                is_warning: true,
                reason: "Forbidden",
                note: text.clone(),
            });
        }
        self.health.send_modify(|health| {
            Arc::make_mut(health).insert(resource, text);
        });
    }

    /// Notes that requests for a kind of objects succeed.
    pub(super) fn recovered(&self, kind: Kind) {
        let resource = kind.name();
        gauge!("almanac_kubernetes_up_to_date", "resource" => resource.clone()).set(1.0);
        self.health.send_if_modified(|health| {
            let failed = health.contains_key(&resource);
            if failed {
                Arc::make_mut(health).remove(&resource);
                tracing::info!(resource, "the cluster can be read again");
            }
            failed
        });
    }
}
