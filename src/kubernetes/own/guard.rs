//! The look for a live catalogd. It compares the whole status with its own, so two
//! writers would overwrite each other without an end.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use kube::core::DynamicObject;
use kube::{Api, Client};
use metrics::{Counter, counter};
use tokio::time::Instant;

use crate::kubernetes::problem::{Problem, of_request};
use crate::kubernetes::resources::LEASES;

/// The Lease of catalogd.
const NAME: &str = "catalogd-operator-lock";
/// Where catalogd runs, upstream and on OpenShift.
const NAMESPACES: [&str; 2] = ["olmv1-system", "openshift-catalogd"];
/// How long its Lease counts.
const DURATION: Duration = Duration::from_secs(137);
/// The longest request.
const REQUEST: Duration = Duration::from_secs(5);

/// Counts how often almanac found that it must not write.
pub(super) fn blocked_writes() -> Counter {
    counter!("almanac_kubernetes_blocked_writes_total")
}

/// Looks for a live catalogd.
pub(super) struct Guard {
    client: Client,
    seen: BTreeMap<&'static str, Seen>,
}

/// The last time of a renewal that was seen in a Lease.
struct Seen {
    renewed: String,
    since: Instant,
    /// Whether another time was seen before.
    moved: bool,
}

impl Guard {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            seen: BTreeMap::new(),
        }
    }

    /// The namespace of a live catalogd, if there is one.
    ///
    /// # Errors
    /// When the Leases cannot be read. Then nothing may be written.
    pub(super) async fn live(&mut self) -> Result<Option<&'static str>, Problem> {
        for namespace in NAMESPACES {
            let resource = LEASES.resource();
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), namespace, &resource);
            let found = tokio::time::timeout(REQUEST, api.get_opt(NAME)).await;
            let found = found.map_err(|_| "the API server does not answer in time".to_owned())?;
            let found = found.map_err(|error| of_request(&error, LEASES, "get"))?;
            if found.is_some_and(|lease| self.is_live(namespace, &lease)) {
                return Ok(Some(namespace));
            }
        }
        Ok(None)
    }

    fn is_live(&mut self, namespace: &'static str, lease: &DynamicObject) -> bool {
        let spec = &lease.data["spec"];
        let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
        let (holder, renewed) = (text("holderIdentity"), text("renewTime"));
        let now = Instant::now();
        let moved = self
            .seen
            .get(namespace)
            .is_some_and(|seen| seen.moved || seen.renewed != renewed);
        let seen = self.seen.entry(namespace).or_insert_with(|| Seen {
            renewed: renewed.clone(),
            since: now,
            moved,
        });
        if seen.renewed != renewed {
            *seen = Seen {
                renewed: renewed.clone(),
                since: now,
                moved,
            };
        }
        // Released on a clean stop.
        if holder.is_empty() || now - seen.since >= DURATION {
            return false;
        }
        seen.moved || is_young(&renewed, SystemTime::now())
    }
}

/// Whether a time is less than the duration of a Lease ago, or in the future.
fn is_young(renewed: &str, now: SystemTime) -> bool {
    let Ok(renewed) = humantime::parse_rfc3339(renewed) else {
        return false;
    };
    now.duration_since(renewed).is_ok_and(|age| age < DURATION) || renewed > now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_is_young_for_the_time_of_a_lease() {
        let now = humantime::parse_rfc3339("2026-01-01T01:00:00Z").unwrap();
        for (renewed, wanted) in [
            ("2026-01-01T00:59:00.123456Z", true),
            ("2026-01-01T00:57:00.123456Z", false),
            ("2026-01-01T01:01:00.123456Z", true),
            ("", false),
        ] {
            assert_eq!(is_young(renewed, now), wanted, "{renewed}");
        }
    }
}
