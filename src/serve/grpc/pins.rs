//! The snapshots that a connection has seen: it sees one generation of each
//! catalog, the one of its first call, until it is asked to go.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::gauge;
use tokio_util::sync::CancellationToken;

use crate::name::CatalogName;
use crate::snapshot::{Catalog, Catalogs, Snapshot};

/// The snapshots that a connection has seen.
#[derive(Default)]
pub(super) struct Pins {
    state: Mutex<State>,
    /// Calls are let in no more.
    leaving: CancellationToken,
}

#[derive(Default)]
struct State {
    pins: HashMap<CatalogName, Pin>,
    /// Calls whose answers are not sent yet.
    open: usize,
    /// How many packages the client was listed, and those of them that it has
    /// asked for; none of either once it has asked for all.
    listed: usize,
    asked: HashSet<String>,
    /// Whether calls are let in no more.
    left: bool,
}

/// A call whose answer is not sent yet.
pub(super) struct Open(Arc<Pins>);

struct Pin {
    snapshot: Arc<Snapshot>,
    counted: Counted,
}

/// A connection as it stands in the metrics.
struct Counted {
    catalog: CatalogName,
    generation: &'static str,
}

const CURRENT: &str = "current";
const OLD: &str = "old";

impl Pins {
    /// The catalog's snapshot for this connection.
    pub(super) fn snapshot(&self, catalog: &Catalog) -> Option<Arc<Snapshot>> {
        let pins = &mut self.lock().pins;
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

    /// A call is open until this is dropped.
    pub(super) fn open(self: &Arc<Self>) -> Open {
        self.lock().open += 1;
        Open(Arc::clone(self))
    }

    /// Whether any of them is not the catalog's latest any more.
    pub(super) fn outdated(&self, catalogs: &Catalogs) -> bool {
        let mut outdated = false;
        for (name, pin) in &mut self.lock().pins {
            let latest = catalogs.get(name.as_str()).and_then(|c| c.snapshot());
            // A catalog that is gone, or nothing of it any more, is no latest.
            if !latest.is_some_and(|latest| Arc::ptr_eq(&latest, &pin.snapshot)) {
                outdated = true;
                pin.counted.become_generation(OLD);
            }
        }
        outdated
    }

    /// The list of all bundles was asked for, and each of this many packages may
    /// be asked for next. A list before it is forgotten.
    pub(super) fn listed(&self, packages: usize) {
        let state = &mut *self.lock();
        state.listed = packages;
        state.asked.clear();
    }

    /// A package was asked for.
    pub(super) fn asked(&self, package: &str) {
        let state = &mut *self.lock();
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

    /// Whether the client was listed packages and has asked for some of them,
    /// but not yet for all.
    pub(super) fn half_asked(&self) -> bool {
        !self.lock().asked.is_empty()
    }

    /// No call is let in from now on, if none is open and `quiet` holds. The
    /// client makes them over its next connection, where they belong together
    /// with those that follow.
    pub(super) fn leave(&self, quiet: impl FnOnce() -> bool) -> bool {
        let open = self.lock().open;
        let leaving = open == 0 && quiet();
        if leaving {
            self.leave_anyway();
        }
        leaving
    }

    /// The same, whatever is open.
    pub(super) fn leave_anyway(&self) {
        self.lock().left = true;
        self.leaving.cancel();
    }

    /// Ends streams that would stay as long as the client likes, when the
    /// connection is to end.
    pub(super) fn leaving(&self) -> CancellationToken {
        self.leaving.clone()
    }

    /// Whether calls are let in no more.
    pub(super) fn left(&self) -> bool {
        self.lock().left
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.lock().open -= 1;
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
    fn whoever_asks_for_one_package_after_the_other_is_let_finish() {
        let pins = Pins::default();
        let half_asked = |package| {
            pins.asked(package);
            pins.half_asked()
        };
        // Without a list there is nothing to finish.
        assert!(!half_asked("a"));
        pins.listed(3);
        assert!(!pins.half_asked(), "the list may be all that is wanted");
        let asked = ["a", "b", "a", "c"].map(half_asked);
        assert_eq!(asked, [true, true, true, false]);
        assert!(!half_asked("d"));
        // One who gave up, and began again.
        pins.listed(2);
        assert!(half_asked("a"));
        pins.listed(2);
        assert_eq!(["a", "b"].map(half_asked), [true, false]);
    }

    #[test]
    fn nobody_leaves_while_a_call_is_open() {
        let pins = Arc::new(Pins::default());
        let open = pins.open();
        assert!(!pins.leave(|| true) && !pins.left());
        drop(open);
        assert!(!pins.leave(|| false) && !pins.left());
        assert!(pins.leave(|| true) && pins.left());
    }
}
