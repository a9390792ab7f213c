//! Resources of the cluster that cannot be read or written, for the log, metrics
//! and the status.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::runtime::watcher;
use metrics::{counter, gauge};
use tokio::sync::watch;

use crate::error_chain::error_chain;
use crate::kubernetes::resources::Kind;
use fbc::text::display::shown;

/// The failures by resource, and their texts. Empty: all is well.
pub type Health = Arc<BTreeMap<String, String>>;

/// Takes failures and recoveries. Cheap to clone.
#[derive(Clone)]
pub(super) struct Failures(watch::Sender<Health>);

pub(super) fn channel() -> (Failures, watch::Receiver<Health>) {
    let (sender, receiver) = watch::channel(Health::default());
    (Failures(sender), receiver)
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
    metrics::describe_gauge!(
        "almanac_kubernetes_up_to_date",
        "Whether requests for a kind of objects succeed"
    );
}

impl Failures {
    /// Notes that a request failed. A failure that stays the same is logged once.
    pub(super) fn failed(&self, kind: Kind, verb: &'static str, problem: String) {
        let resource = kind.name();
        counter!(
            "almanac_kubernetes_errors_total", "resource" => resource.clone(), "verb" => verb
        )
        .increment(1);
        gauge!("almanac_kubernetes_up_to_date", "resource" => resource.clone()).set(0.0);
        let known = self.0.borrow().get(&resource) == Some(&problem);
        if known {
            tracing::debug!(resource, verb, error = problem, "the cluster fails again");
            return;
        }
        tracing::warn!(
            resource,
            verb,
            error = problem,
            "the cluster cannot be read or written; the last state stays"
        );
        self.0.send_modify(|health| {
            Arc::make_mut(health).insert(resource, problem);
        });
    }

    /// Notes that requests for a kind of objects succeed.
    pub(super) fn recovered(&self, kind: Kind) {
        let resource = kind.name();
        gauge!("almanac_kubernetes_up_to_date", "resource" => resource.clone()).set(1.0);
        self.0.send_if_modified(|health| {
            let failed = health.contains_key(&resource);
            if failed {
                Arc::make_mut(health).remove(&resource);
                tracing::info!(resource, "the cluster can be read again");
            }
            failed
        });
    }
}

/// The verb and the text of a failure to list or watch.
pub(super) fn of_watcher(error: &watcher::Error, kind: Kind) -> (&'static str, String) {
    match error {
        watcher::Error::InitialListFailed(error) => ("list", of_request(error, kind, "list")),
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
            ("watch", of_request(error, kind, "watch"))
        }
        watcher::Error::WatchError(status) => ("watch", of_status(status, kind, "watch")),
        watcher::Error::NoResourceVersion => ("list", shown(&error.to_string())),
    }
}

/// The text of a failed request, with its verb and resource.
pub(super) fn of_request(error: &kube::Error, kind: Kind, verb: &str) -> String {
    match error {
        kube::Error::Api(status) => of_status(status, kind, verb),
        error => {
            let resource = kind.name();
            let problem = shown(&error_chain(error));
            format!("cannot {verb} {resource}: {problem}")
        }
    }
}

fn of_status(status: &kube::core::Status, kind: Kind, verb: &str) -> String {
    let resource = kind.name();
    let message = shown(&status.message);
    match status.code {
        401 => format!(
            "cannot {verb} {resource}: the API server does not accept the credentials: {message}"
        ),
        403 => format!(
            "cannot {verb} {resource}: the API server forbids it: {message}; a role must grant \
             the verb {verb} on {resource}"
        ),
        404 => format!("cannot {verb} {resource}: the API server does not have it: {message}"),
        code => format!(
            "cannot {verb} {resource}: {code} {}: {message}",
            shown(&status.reason)
        ),
    }
}
