//! The snapshots of a connection: it sees one revision of each catalog, that of its
//! first call, until it is asked to close.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use metrics::gauge;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::name::CatalogName;
use crate::snapshot::{Catalog, Catalogs, Snapshot};

/// The snapshots of a connection, and its open calls.
#[derive(Default)]
pub(super) struct Pins {
    state: Mutex<State>,
    /// Cancelled when no more calls are admitted.
    leaving: CancellationToken,
}

#[derive(Default)]
struct State {
    pins: HashMap<CatalogName, Pin>,
    /// Calls whose responses are not sent yet.
    open: usize,
    /// How many packages the last list had, and those of them that the client has
    /// requested. Both are reset once it has requested all.
    listed: usize,
    asked: HashSet<String>,
    /// Whether no more calls are admitted.
    left: bool,
}

/// A call whose response is not sent yet.
pub(super) struct OpenCall(Arc<Pins>);

struct Pin {
    snapshot: Arc<Snapshot>,
    counted: Counted,
}

/// A connection in the metrics.
struct Counted {
    catalog: CatalogName,
    generation: &'static str,
}

const CURRENT: &str = "current";
const OLD: &str = "old";

impl Pins {
    /// The catalog's snapshot for this connection.
    pub(super) fn snapshot(&self, catalog: &Catalog) -> Option<Arc<Snapshot>> {
        let pins = &mut self.state.lock().pins;
        if let Some(pin) = pins.get(&catalog.name) {
            return Some(Arc::clone(&pin.snapshot));
        }
        let snapshot = catalog.snapshot()?;
        let pin = Pin {
            snapshot: Arc::clone(&snapshot),
            counted: Counted::new(catalog.name.clone(), CURRENT),
        };
        pins.insert(catalog.name.clone(), pin);
        Some(snapshot)
    }

    /// Registers a call, until the return value is dropped.
    pub(super) fn open(self: &Arc<Self>) -> OpenCall {
        self.state.lock().open += 1;
        OpenCall(Arc::clone(self))
    }

    /// Whether any snapshot is not the catalog's latest.
    pub(super) fn outdated(&self, catalogs: &Catalogs) -> bool {
        let mut outdated = false;
        for (name, pin) in &mut self.state.lock().pins {
            let latest = catalogs.get(name.as_str()).and_then(|c| c.snapshot());
            // A removed or unloaded catalog has no latest snapshot.
            if !latest.is_some_and(|latest| Arc::ptr_eq(&latest, &pin.snapshot)) {
                outdated = true;
                pin.counted.become_generation(OLD);
            }
        }
        outdated
    }

    /// The client requested the list of all bundles, and may request each of this
    /// many packages next.
    pub(super) fn listed(&self, packages: usize) {
        let state = &mut *self.state.lock();
        state.listed = packages;
        state.asked.clear();
    }

    /// The client requested a package.
    pub(super) fn asked(&self, package: &str) {
        let state = &mut *self.state.lock();
        if state.listed == 0 {
            return;
        }
        if !state.asked.contains(package) {
            state.asked.insert(package.to_owned());
        }
        if state.asked.len() >= state.listed {
            state.listed = 0;
            state.asked.clear();
        }
    }

    /// Whether the client has requested some packages of its list, and not all.
    pub(super) fn half_asked(&self) -> bool {
        !self.state.lock().asked.is_empty()
    }

    /// Stops admitting calls, if none is open and `quiet` holds. The client then
    /// makes them over its next connection, together with those that follow.
    pub(super) fn leave(&self, quiet: impl FnOnce() -> bool) -> bool {
        let open = self.state.lock().open;
        let leaving = open == 0 && quiet();
        if leaving {
            self.leave_anyway();
        }
        leaving
    }

    /// Stops admitting calls, even if some are open.
    pub(super) fn leave_anyway(&self) {
        self.state.lock().left = true;
        self.leaving.cancel();
    }

    /// Ends long-lived streams when the connection is asked to close.
    pub(super) fn leaving(&self) -> CancellationToken {
        self.leaving.clone()
    }

    /// Whether no more calls are admitted.
    pub(super) fn left(&self) -> bool {
        self.state.lock().left
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.state.lock().open -= 1;
    }
}

impl Counted {
    fn new(catalog: CatalogName, generation: &'static str) -> Self {
        let counted = Self {
            catalog,
            generation,
        };
        counted.gauge().increment(1.0);
        counted
    }

    fn become_generation(&mut self, generation: &'static str) {
        self.gauge().decrement(1.0);
        self.generation = generation;
        self.gauge().increment(1.0);
    }

    fn gauge(&self) -> metrics::Gauge {
        gauge!(
            "almanac_grpc_pinned_connections",
            "catalog" => self.catalog.to_string(), "generation" => self.generation
        )
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.gauge().decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_requests_the_listed_packages_may_finish() {
        let pins = Pins::default();
        let half_asked = |package| {
            pins.asked(package);
            pins.half_asked()
        };
        // Without a list, no request belongs to one.
        assert!(!half_asked("a"));
        pins.listed(3);
        assert!(!pins.half_asked(), "the list may be all that is wanted");
        let asked = ["a", "b", "a", "c"].map(half_asked);
        assert_eq!(asked, [true, true, true, false]);
        assert!(!half_asked("d"));
        // A client that gave up and started again.
        pins.listed(2);
        assert!(half_asked("a"));
        pins.listed(2);
        assert_eq!(["a", "b"].map(half_asked), [true, false]);
    }

    #[test]
    fn a_connection_with_an_open_call_stays() {
        let pins = Arc::new(Pins::default());
        let open = pins.open();
        assert!(!pins.leave(|| true) && !pins.left());
        drop(open);
        assert!(!pins.leave(|| false) && !pins.left());
        assert!(pins.leave(|| true) && pins.left());
    }
}
