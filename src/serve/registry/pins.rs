//! The snapshots that a connection has seen: it sees one generation of each
//! catalog, the one of its first call, until it is asked to go.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::gauge;

use crate::name::CatalogName;
use crate::snapshot::{Catalog, Catalogs, Snapshot};

/// The snapshots that a connection has seen.
#[derive(Default)]
pub(super) struct Pins(Mutex<State>);

#[derive(Default)]
struct State {
    pins: HashMap<CatalogName, Pin>,
    /// What it saw before it was asked to go, and may still be sent.
    before: Vec<Pin>,
    /// Calls whose answers are not sent yet.
    open: usize,
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
            let latest = catalogs.get(name.as_str()).and_then(Catalog::snapshot);
            if latest.is_some_and(|latest| !Arc::ptr_eq(&latest, &pin.snapshot)) {
                outdated = true;
                pin.counted.become_generation(OLD);
            }
        }
        outdated
    }

    /// Calls from now on see what is served now, if none is open and `quiet`
    /// holds. They come from a client that has not heard yet that it is asked to
    /// go: its next ones will come over a new connection, and belong together
    /// with these.
    pub(super) fn renew(&self, quiet: impl FnOnce() -> bool) -> bool {
        let mut state = self.lock();
        // No call gets a snapshot between the question and what follows.
        let renewed = state.open == 0 && quiet();
        if renewed {
            state.renew();
        }
        renewed
    }

    /// The same, whatever is open.
    pub(super) fn renew_anyway(&self) {
        self.lock().renew();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn renew(&mut self) {
        let pins = self.pins.drain().map(|(_, pin)| pin);
        self.before.extend(pins);
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
