//! The snapshots that a connection has seen: it sees one generation of each
//! catalog, the one of its first call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::gauge;

use crate::name::CatalogName;
use crate::snapshot::{Catalog, Catalogs, Snapshot};

/// The snapshots that a connection has seen.
#[derive(Default)]
pub(super) struct Pins(Mutex<HashMap<CatalogName, Pin>>);

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
        let mut pins = self.lock();
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

    /// Whether any of them is not the catalog's latest any more.
    pub(super) fn outdated(&self, catalogs: &Catalogs) -> bool {
        let mut outdated = false;
        for (name, pin) in self.lock().iter_mut() {
            let latest = catalogs.get(name.as_str()).and_then(Catalog::snapshot);
            if latest.is_some_and(|latest| !Arc::ptr_eq(&latest, &pin.snapshot)) {
                outdated = true;
                pin.counted.become_generation(OLD);
            }
        }
        outdated
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CatalogName, Pin>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
