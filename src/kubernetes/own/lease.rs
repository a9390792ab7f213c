//! The leader among several almanacs: the holder of a Lease. The age of a Lease is
//! measured by the local clock from its last seen change, because the clocks of two
//! machines may differ.

use std::time::{Duration, SystemTime};

use kube::Api;
use kube::api::PostParams;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::kubernetes::health::Failures;
use crate::kubernetes::problem::of_request;
use crate::kubernetes::resources::LEASES;

/// The Lease of almanac.
pub(crate) const NAME: &str = "almanac-cluster-catalogs";
/// How long a Lease counts without a renewal. These three are the defaults of
/// Kubernetes.
const DURATION: Duration = Duration::from_secs(15);
/// How long after its last renewal a leader writes.
const DEADLINE: Duration = Duration::from_secs(10);
/// The time between two renewals, and between two looks at another leader's Lease.
const RETRY: Duration = Duration::from_secs(2);
/// The longest request.
const REQUEST: Duration = Duration::from_secs(5);

/// Stands for election.
pub(super) struct Election {
    pub(super) api: Api<DynamicObject>,
    /// Tells this almanac from others.
    pub(super) identity: String,
    /// Until when this almanac leads, if it does.
    pub(super) leads_until: watch::Sender<Option<Instant>>,
    pub(super) failures: Failures,
}

/// The next step for a Lease.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// It is ours, or free.
    Hold,
    /// Another one leads.
    Wait,
}

/// A Lease as it was seen, and since when it is so.
struct Seen {
    spec: Value,
    since: Instant,
}

/// Whether the leader may write now.
pub(super) fn leads(until: &watch::Receiver<Option<Instant>>) -> bool {
    until.borrow().is_some_and(|until| Instant::now() < until)
}

impl Election {
    /// Stands for election until `stop`, then gives the Lease up.
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut seen = None;
        loop {
            let began = Instant::now();
            let attempt = tokio::time::timeout(REQUEST, self.attempt(&mut seen));
            let attempt = tokio::select! {
                attempt = attempt => attempt,
                () = stop.cancelled() => break,
            };
            match attempt {
                Ok(Ok(leads)) => {
                    self.failures.recovered(LEASES);
                    self.leads_until
                        .send_replace(leads.then(|| began + DEADLINE));
                }
                Ok(Err((verb, error))) => {
                    let problem = of_request(&error, LEASES, verb);
                    self.failures.failed(LEASES, verb, problem);
                }
                Err(_) => {
                    let problem = "the API server does not answer in time".to_owned();
                    self.failures.failed(LEASES, "update", problem);
                }
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                () = stop.cancelled() => break,
            }
        }
        if self.leads_until.send_replace(None).is_some() {
            let releasing = tokio::time::timeout(REQUEST, self.release());
            if !matches!(releasing.await, Ok(Ok(()))) {
                tracing::debug!("the Lease was not given up; it expires by itself");
            }
        }
    }

    /// Takes or renews the Lease if that is possible. Returns whether it is held.
    async fn attempt(&self, seen: &mut Option<Seen>) -> Result<bool, (&'static str, kube::Error)> {
        let found = self.api.get_opt(NAME).await;
        let Some(mut lease) = found.map_err(|error| ("get", error))? else {
            let mut lease = DynamicObject::new(NAME, &LEASES.resource());
            lease.data = json!({ "spec": self.spec(&Value::Null) });
            let created = self.api.create(&PostParams::default(), &lease).await;
            return held(created).map_err(|error| ("create", error));
        };
        let spec = lease.data["spec"].take();
        let now = Instant::now();
        let since = match &*seen {
            Some(seen) if seen.spec == spec => seen.since,
            _ => now,
        };
        let step = step(&spec, &self.identity, now - since);
        *seen = Some(Seen {
            spec: spec.clone(),
            since,
        });
        if step == Step::Wait {
            return Ok(false);
        }
        lease.data["spec"] = self.spec(&spec);
        self.replace(&lease)
            .await
            .map_err(|error| ("update", error))
    }

    /// Replaces the Lease unless somebody else has changed it.
    async fn replace(&self, lease: &DynamicObject) -> Result<bool, kube::Error> {
        held(self.api.replace(NAME, &PostParams::default(), lease).await)
    }

    fn spec(&self, old: &Value) -> Value {
        let now = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
        let is_ours = old["holderIdentity"] == self.identity;
        let transitions = old["leaseTransitions"].as_i64().unwrap_or_default();
        json!({
            "holderIdentity": self.identity,
            "leaseDurationSeconds": DURATION.as_secs(),
            "acquireTime": if is_ours { old["acquireTime"].clone() } else { now.clone().into() },
            "renewTime": now,
            "leaseTransitions": if is_ours || old.is_null() { transitions } else { transitions + 1 },
        })
    }

    async fn release(&self) -> Result<(), kube::Error> {
        let Some(mut lease) = self.api.get_opt(NAME).await? else {
            return Ok(());
        };
        if lease.data["spec"]["holderIdentity"] == self.identity {
            lease.data["spec"]["holderIdentity"] = "".into();
            self.replace(&lease).await?;
        }
        Ok(())
    }
}

fn step(spec: &Value, identity: &str, unchanged: Duration) -> Step {
    let holder = spec["holderIdentity"].as_str().unwrap_or_default();
    let duration = spec["leaseDurationSeconds"].as_u64();
    let duration = duration.map_or(DURATION, Duration::from_secs);
    if holder.is_empty() || holder == identity || unchanged >= duration {
        Step::Hold
    } else {
        Step::Wait
    }
}

/// Whether a write has succeeded; a conflict means that another one was faster.
fn held(written: Result<DynamicObject, kube::Error>) -> Result<bool, kube::Error> {
    match written {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_taken_once_it_is_free_or_has_not_changed_for_its_time() {
        let held = |holder: &str| json!({"holderIdentity": holder, "leaseDurationSeconds": 15});
        let seconds = Duration::from_secs;
        for (holder, unchanged, wanted) in [
            ("", 0, Step::Hold),
            ("me", 0, Step::Hold),
            ("other", 0, Step::Wait),
            ("other", 14, Step::Wait),
            ("other", 15, Step::Hold),
        ] {
            let found = step(&held(holder), "me", seconds(unchanged));
            assert_eq!(found, wanted, "{holder} {unchanged}");
        }
        // A time in the Lease proves nothing: the clock of its writer may be wrong.
        let old = json!({"holderIdentity": "other", "renewTime": "2000-01-01T00:00:00.000000Z"});
        assert_eq!(step(&old, "me", seconds(0)), Step::Wait);
    }
}
