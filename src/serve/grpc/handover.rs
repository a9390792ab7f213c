//! Snapshots for clients whose calls cross with GOAWAY.
//!
//! Such a call is answered with the latest snapshot, and those that belong to it
//! arrive over the client's next connection. So new sessions get the same snapshot
//! for a while, even if another one is published. Refusing the call would be simpler:
//! HTTP/2 lets clients repeat it, but gRPC's C library reports UNAVAILABLE instead.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::name::CatalogName;
use crate::serve::net::limits::Renewal;
use crate::snapshot::{Catalog, Snapshot};

/// The snapshots that new sessions get, by catalog; the latest of all others.
pub(super) struct Handovers {
    held: Arc<Mutex<HashMap<CatalogName, Held>>>,
    /// How long a client may take to make its next call over another connection.
    hold: Duration,
    /// How long new sessions do not see new content at most.
    longest: Duration,
}

struct Held {
    catalog: Catalog,
    snapshot: Arc<Snapshot>,
    since: Instant,
    until: Instant,
}

impl Handovers {
    /// Nothing is held. A client may take as long as in the middle of a list.
    pub(super) fn new(renewal: &Renewal) -> Arc<Self> {
        Arc::new(Self {
            held: Arc::default(),
            hold: renewal.half_asked,
            longest: renewal.latest,
        })
    }

    /// The snapshot for a session, and whether it is held. `crossing` says that it is
    /// for a call that crosses with GOAWAY.
    pub(super) fn snapshot(
        &self,
        catalog: &Catalog,
        crossing: bool,
    ) -> Option<(Arc<Snapshot>, bool)> {
        let mut all = self.held.lock();
        // Nothing is held most of the time.
        if all.is_empty() && !crossing {
            return Some((catalog.snapshot()?, false));
        }
        let now = Instant::now();
        // The source of the catalog may have changed.
        let is_other = |held: &Held| held.catalog.name != catalog.name;
        all.retain(|_, held| {
            let is_good = held.until > now && !held.snapshot.is_damaged();
            is_good && (is_other(held) || held.catalog.has_slot_of(catalog))
        });
        let latest = catalog.snapshot()?;
        if crossing {
            let held = all.entry(catalog.name.clone()).or_insert_with(|| {
                // No session may come to an idle port for a long time.
                tokio::spawn(release(Arc::clone(&self.held), catalog.name.clone()));
                Held {
                    catalog: catalog.clone(),
                    snapshot: Arc::clone(&latest),
                    since: now,
                    until: now,
                }
            });
            held.until = (now + self.hold).min(held.since + self.longest);
        }
        Some(match all.get(&catalog.name) {
            Some(held) => (Arc::clone(&held.snapshot), true),
            None => (latest, false),
        })
    }

    /// When the snapshot of a catalog is no longer held.
    pub(super) fn until(&self, catalog: &CatalogName) -> Option<Instant> {
        self.held.lock().get(catalog).map(|held| held.until)
    }
}

/// Drops the snapshot of a catalog when its hold ends.
async fn release(all: Arc<Mutex<HashMap<CatalogName, Held>>>, catalog: CatalogName) {
    loop {
        let until = match all.lock().entry(catalog.clone()) {
            Entry::Occupied(held) if held.get().until <= Instant::now() => {
                held.remove();
                return;
            }
            Entry::Occupied(held) => held.get().until,
            Entry::Vacant(_) => return,
        };
        tokio::time::sleep_until(until).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::testing::Stored;
    use crate::snapshot::{Catalogs, Routing};

    #[tokio::test]
    async fn a_held_snapshot_is_dropped_when_the_hold_ends_also_on_an_idle_port() {
        let name: CatalogName = "a".parse().unwrap();
        let stored = Stored::new(&name, "file:/a").await;
        let (catalogs, publishers) = Catalogs::new([(name, Routing::default())], None);
        let catalog = catalogs.get("a").unwrap();
        publishers[0].publish(stored.open());

        let handovers = Handovers::new(&Renewal {
            half_asked: Duration::from_millis(100),
            latest: Duration::from_millis(250),
            ..Renewal::default()
        });
        let crossing = |count| {
            let (snapshot, is_held) = handovers.snapshot(&catalog, true).unwrap();
            assert!(is_held, "{count}");
            snapshot
        };
        let first = crossing(1);
        let latest = stored.open();
        let id = latest.revision().id;
        publishers[0].publish(latest);
        // The hold is longer from the second call on.
        assert!(Arc::ptr_eq(&first, &crossing(2)));
        let held = Arc::downgrade(&first);
        drop(first);
        assert!(held.upgrade().is_some());
        let begin = Instant::now();
        while held.upgrade().is_some() {
            assert!(begin.elapsed() < Duration::from_secs(20), "it stays");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (latest, is_held) = handovers.snapshot(&catalog, false).unwrap();
        assert!(!is_held && latest.revision().id == id);
    }
}
