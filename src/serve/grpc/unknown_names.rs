//! The authorities of calls that no catalog answers to. A `CatalogSource` with a wrong name
//! keeps Operator Lifecycle Manager from resolving anything in its namespace, so the log and
//! the status report the name and who calls it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

/// How many names are kept: clients can make up any number.
const MOST: usize = 20;

/// The last names. Clones share them.
#[derive(Clone, Default)]
pub struct UnknownNames(Arc<Mutex<BTreeMap<String, Calls>>>);

/// The calls by a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Calls {
    /// The peer of the last one.
    pub(crate) peer: IpAddr,
    /// How many there were since the first that is kept.
    pub(crate) count: u64,
    /// The time of the first.
    pub(crate) first: SystemTime,
    /// The time of the last.
    pub(crate) last: SystemTime,
}

impl UnknownNames {
    /// Records a call by an authority, which is not too long.
    pub(super) fn record(&self, authority: String, peer: IpAddr, now: SystemTime) {
        let names = &mut *self.0.lock();
        if let Some(calls) = names.get_mut(&authority) {
            calls.peer = peer;
            calls.count += 1;
            calls.last = now;
            return;
        }
        tracing::warn!(
            authority,
            %peer,
            "no catalog answers to the name of this call; if a CatalogSource has it, OLM v0 \
             resolves nothing in its namespace"
        );
        if names.len() >= MOST {
            let oldest = names.iter().min_by_key(|(_, calls)| calls.last);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                names.remove(&oldest);
            }
        }
        let calls = Calls {
            peer,
            count: 1,
            first: now,
            last: now,
        };
        names.insert(authority, calls);
    }

    /// The names, sorted.
    pub(crate) fn all(&self) -> Vec<(String, Calls)> {
        let names = self.0.lock();
        names
            .iter()
            .map(|(name, calls)| (name.clone(), *calls))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_last_unknown_names_are_kept_with_their_peers() {
        let names = UnknownNames::default();
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let peer = |last: u8| IpAddr::from([192, 0, 2, last]);
        names.record("typo.olm.svc:50051".to_owned(), peer(1), at(1));
        names.record("typo.olm.svc:50051".to_owned(), peer(2), at(100));
        let wanted = Calls {
            peer: peer(2),
            count: 2,
            first: at(1),
            last: at(100),
        };
        assert_eq!(names.all(), [("typo.olm.svc:50051".to_owned(), wanted)]);
        for number in 0..50 {
            names.record(format!("made-up-{number}"), peer(3), at(50 + number));
        }
        let kept = names.all();
        assert_eq!(kept.len(), MOST);
        assert!(kept.iter().any(|(name, _)| name == "made-up-49"));
        // Called later than the first of the others.
        assert!(kept.iter().any(|(name, _)| name == "typo.olm.svc:50051"));
    }
}
