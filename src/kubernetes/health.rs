//! Resources of the cluster that cannot be read or written, for the log, metrics
//! and the status.

use std::collections::BTreeMap;
use std::sync::Arc;

use metrics::{counter, gauge};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::kubernetes::events::{Events, Notice};
use crate::kubernetes::problem::Problem;
use crate::kubernetes::resources::Kind;

/// The failures by resource, and their texts. Empty: all is well.
pub type Health = Arc<BTreeMap<String, String>>;

/// The failures of a resource by part, and their texts.
type Parts = BTreeMap<Arc<str>, String>;

/// Takes failures and recoveries. Cheap to clone.
#[derive(Clone)]
pub(super) struct Failures {
    health: watch::Sender<Health>,
    events: Events,
    /// A resource fails as long as one of its parts fails.
    failing: Arc<Mutex<BTreeMap<String, Parts>>>,
    /// The part of each resource that these failures are of.
    part: Arc<str>,
}

pub(super) fn channel(events: Events) -> (Failures, watch::Receiver<Health>) {
    let (health, receiver) = watch::channel(Health::default());
    let failures = Failures {
        health,
        events,
        failing: Arc::default(),
        part: Arc::from(""),
    };
    (failures, receiver)
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
        "Reads and writes of statuses that almanac skipped, since catalogd runs or may run"
    );
    metrics::describe_counter!(
        "almanac_kubernetes_overwritten_total",
        "Statuses of ClusterCatalogs that another program has overwritten"
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
    /// Failures of one part, such as one object. It fails and recovers by itself.
    pub(super) fn of(&self, part: &str) -> Self {
        Self {
            part: Arc::from(part),
            ..self.clone()
        }
    }

    /// Notes that a request failed. A failure that stays the same is logged once.
    pub(super) fn failed(&self, kind: Kind, verb: &'static str, problem: impl Into<Problem>) {
        let Problem { text, is_forbidden } = problem.into();
        let resource = kind.name();
        counter!(
            "almanac_kubernetes_errors_total", "resource" => resource.clone(), "verb" => verb
        )
        .increment(1);
        let mut failing = self.failing.lock();
        let parts = failing.entry(resource.clone()).or_default();
        let last = parts.insert(Arc::clone(&self.part), text.clone());
        let known = last.as_ref() == Some(&text);
        self.publish(&resource, Some(parts));
        drop(failing);
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
            self.events.of_almanac(Notice {
                is_warning: true,
                reason: "Forbidden",
                note: text,
            });
        }
    }

    /// Notes that requests for a kind of objects succeed.
    pub(super) fn recovered(&self, kind: Kind) {
        let resource = kind.name();
        let mut failing = self.failing.lock();
        let failed = self.remove(&mut failing, &resource);
        self.publish(&resource, failing.get(&resource));
        drop(failing);
        if failed {
            tracing::info!(resource, "the cluster can be read again");
        }
    }

    /// Forgets a failure whose request is no longer needed.
    pub(super) fn forget(&self, kind: Kind) {
        let mut failing = self.failing.lock();
        if failing.is_empty() {
            return;
        }
        let resource = kind.name();
        if self.remove(&mut failing, &resource) {
            self.publish(&resource, failing.get(&resource));
        }
    }

    /// Removes the failure of this part. Returns whether there was one.
    fn remove(&self, failing: &mut BTreeMap<String, Parts>, resource: &str) -> bool {
        let Some(parts) = failing.get_mut(resource) else {
            return false;
        };
        let failed = parts.remove(&self.part).is_some();
        if parts.is_empty() {
            failing.remove(resource);
        }
        failed
    }

    /// Shows the failure of the first failing part, if any.
    fn publish(&self, resource: &str, parts: Option<&Parts>) {
        let text = parts.and_then(|parts| parts.values().next());
        let up_to_date = if text.is_none() { 1.0 } else { 0.0 };
        gauge!("almanac_kubernetes_up_to_date", "resource" => resource.to_owned()).set(up_to_date);
        self.health.send_if_modified(|health| {
            if health.get(resource) == text {
                return false;
            }
            let health = Arc::make_mut(health);
            match text {
                Some(text) => health.insert(resource.to_owned(), text.clone()),
                None => health.remove(resource),
            };
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::resources::SECRETS;

    #[test]
    fn a_resource_fails_as_long_as_one_of_its_parts_fails() {
        let (failures, mut health) = channel(Events::none());
        let (one, two) = (failures.of("one"), failures.of("two"));
        one.failed(SECRETS, "list", "no".to_owned());
        assert!(health.has_changed().unwrap());
        assert_eq!(health.borrow_and_update()["secrets"], "no");
        // Another part recovers, and the same failure repeats.
        two.recovered(SECRETS);
        one.failed(SECRETS, "list", "no".to_owned());
        assert!(!health.has_changed().unwrap());
        two.failed(SECRETS, "list", "never".to_owned());
        one.recovered(SECRETS);
        assert_eq!(health.borrow_and_update()["secrets"], "never");
        two.forget(SECRETS);
        assert!(health.borrow().is_empty());
    }
}
