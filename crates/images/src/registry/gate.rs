//! How many requests one registry gets at once, and whether it asked to be
//! left alone.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Url;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// The most registries that are remembered.
const MAX_HOSTS: usize = 4096;

/// The gates of all registries. Cheap to clone; clones share the gates.
#[derive(Clone)]
pub(crate) struct Gates {
    places: NonZeroUsize,
    hosts: Arc<Mutex<HashMap<String, Arc<Gate>>>>,
}

/// The gate of one registry, which is a host and a port.
pub(crate) struct Gate {
    all: Arc<Semaphore>,
    /// One place fewer where there are several, so that a poll never waits
    /// until somebody's layers are there.
    blobs: Arc<Semaphore>,
    closed_until: Mutex<Option<Instant>>,
}

/// A place at a registry, given back when it is dropped.
pub(crate) struct Place {
    _all: Option<OwnedSemaphorePermit>,
    _blobs: Option<OwnedSemaphorePermit>,
}

impl Gates {
    /// Gates with so many places for each registry.
    pub(crate) fn new(places: NonZeroUsize) -> Self {
        Self {
            places,
            hosts: Arc::default(),
        }
    }

    /// The gate of the registry that `url` belongs to.
    pub(crate) fn of(&self, url: &Url) -> Arc<Gate> {
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        let mut hosts = lock(&self.hosts);
        if hosts.len() >= MAX_HOSTS {
            // Who is inside keeps the old gate; that is one time too many.
            hosts.clear();
        }
        let places = self.places.get();
        let gate = hosts.entry(format!("{host}:{port}")).or_insert_with(|| {
            Arc::new(Gate {
                all: Arc::new(Semaphore::new(places)),
                blobs: Arc::new(Semaphore::new((places - 1).max(1))),
                closed_until: Mutex::default(),
            })
        });
        Arc::clone(gate)
    }
}

impl Gate {
    /// Waits for a place for a small request: a poll, a manifest.
    pub(crate) async fn enter(&self) -> Place {
        Place {
            _all: acquire(&self.all).await,
            _blobs: None,
        }
    }

    /// Waits for a place for a blob, which may be kept for long.
    pub(crate) async fn enter_for_blob(&self) -> Place {
        // The narrower gate first, or blobs would take the places of others
        // while they wait.
        let blobs = acquire(&self.blobs).await;
        Place {
            _all: acquire(&self.all).await,
            _blobs: blobs,
        }
    }

    /// Closes the gate for a while, as the registry asked.
    pub(crate) fn close_for(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut closed = lock(&self.closed_until);
        *closed = Some(closed.map_or(until, |before| before.max(until)));
    }

    /// How long the gate is closed yet.
    pub(crate) fn closed(&self) -> Option<Duration> {
        let mut closed = lock(&self.closed_until);
        let left = (*closed)?.checked_duration_since(Instant::now());
        let left = left.filter(|left| !left.is_zero());
        if left.is_none() {
            *closed = None;
        }
        left
    }
}

async fn acquire(semaphore: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    // It is never closed.
    Arc::clone(semaphore).acquire_owned().await.ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn gate(places: usize) -> Arc<Gate> {
        let gates = Gates::new(NonZeroUsize::new(places).unwrap());
        gates.of(&Url::parse("https://quay.io/v2/").unwrap())
    }

    #[tokio::test]
    async fn blobs_leave_a_place_for_polls() {
        let gate = gate(2);
        let _blob = gate.enter_for_blob().await;
        assert!(gate.enter_for_blob().now_or_never().is_none());
        let poll = gate.enter().now_or_never();
        assert!(poll.is_some());
        assert!(gate.enter().now_or_never().is_none());
        drop(poll);
        assert!(gate.enter().now_or_never().is_some());
    }

    #[tokio::test]
    async fn one_place_is_enough() {
        let gate = gate(1);
        drop(gate.enter_for_blob().await);
        let _poll = gate.enter().await;
        assert!(gate.enter_for_blob().now_or_never().is_none());
    }

    #[tokio::test]
    async fn each_registry_has_a_gate_of_its_own() {
        let gates = Gates::new(NonZeroUsize::MIN);
        let of = |url: &str| gates.of(&Url::parse(url).unwrap());
        let _place = of("https://quay.io/v2/a").enter().await;
        assert!(
            of("https://quay.io:443/v2/b")
                .enter()
                .now_or_never()
                .is_none()
        );
        assert!(
            of("https://quay.io:8443/v2/b")
                .enter()
                .now_or_never()
                .is_some()
        );
        assert!(of("https://ghcr.io/v2/b").enter().now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_gate_opens_again() {
        let gate = gate(1);
        assert_eq!(gate.closed(), None);
        gate.close_for(Duration::from_millis(40));
        gate.close_for(Duration::from_millis(1));
        assert_eq!(gate.closed(), Some(Duration::from_millis(40)));
        tokio::time::sleep(Duration::from_millis(39)).await;
        assert_eq!(gate.closed(), Some(Duration::from_millis(1)));
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(gate.closed(), None);
    }
}
