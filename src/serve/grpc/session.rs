//! The session of a connection: it sees one revision of each catalog, that of its
//! first call, until it is asked to close.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use metrics::{Gauge, gauge};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::name::CatalogName;
use crate::serve::grpc::handover::Handovers;
use crate::snapshot::{Catalog, Catalogs, Snapshot};

/// The snapshots of a connection, and its open calls.
pub(super) struct Session {
    state: Mutex<State>,
    /// A permit for each call whose response is not sent yet.
    calls: Arc<Semaphore>,
    /// Cancelled when the connection is asked to close.
    closing: CancellationToken,
    handovers: Arc<Handovers>,
    /// Told when the session gets a snapshot that is held back from newer ones.
    held: Notify,
}

#[derive(Default)]
struct State {
    /// Few: comparing names is faster than hashing one.
    snapshots: BTreeMap<CatalogName, Pinned>,
    /// How many packages the last list had, and those of them that the client has
    /// requested. Both are reset once it has requested all.
    listed: usize,
    requested: HashSet<String>,
    /// Whether a snapshot was held back from newer ones, for a list that the client
    /// began over its last connection.
    held: bool,
}

/// A snapshot, and the metric that counts its connections.
struct Pinned {
    snapshot: Arc<Snapshot>,
    connections: Gauge,
}

impl Session {
    /// A session without calls.
    pub(super) fn new(handovers: Arc<Handovers>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            calls: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            closing: CancellationToken::new(),
            handovers,
            held: Notify::new(),
        })
    }

    /// The catalog's snapshot for this connection.
    pub(super) fn snapshot(&self, catalog: &Catalog) -> Option<Arc<Snapshot>> {
        let state = &mut *self.state.lock();
        if let Some(pinned) = state.snapshots.get(&catalog.name) {
            return (!pinned.snapshot.is_damaged()).then(|| Arc::clone(&pinned.snapshot));
        }
        let crossing = self.closing.is_cancelled();
        let (snapshot, held) = self.handovers.snapshot(catalog, crossing)?;
        if held {
            state.held = true;
            self.held.notify_one();
        }
        let pinned = Pinned {
            snapshot: Arc::clone(&snapshot),
            connections: connections(&catalog.name, "current"),
        };
        pinned.connections.increment(1.0);
        state.snapshots.insert(catalog.name.clone(), pinned);
        Some(snapshot)
    }

    /// Waits until the session gets a snapshot that may not be the latest.
    pub(super) async fn held(&self) {
        self.held.notified().await;
    }

    /// Waits until clients see newer snapshots over another connection. A connection
    /// that is asked to close before would only prolong that: its calls may cross too.
    pub(super) async fn released(&self) {
        loop {
            let until = {
                let snapshots = &self.state.lock().snapshots;
                let held = snapshots
                    .keys()
                    .filter_map(|name| self.handovers.until(name));
                held.max().filter(|until| *until > Instant::now())
            };
            let Some(until) = until else { return };
            tokio::time::sleep_until(until).await;
        }
    }

    /// Registers a call until the permit is dropped.
    pub(super) fn begin_call(&self) -> Option<OwnedSemaphorePermit> {
        // Not while `close_if` looks whether any call is open.
        let _state = self.state.lock();
        // There is always a permit.
        Arc::clone(&self.calls).try_acquire_owned().ok()
    }

    /// Whether any snapshot is not the catalog's latest.
    pub(super) fn outdated(&self, catalogs: &Catalogs) -> bool {
        let mut outdated = false;
        for (name, pinned) in &mut self.state.lock().snapshots {
            let latest = catalogs.get(name.as_str()).and_then(|c| c.snapshot());
            // A removed or unloaded catalog has no latest snapshot.
            if !latest.is_some_and(|latest| Arc::ptr_eq(&latest, &pinned.snapshot)) {
                outdated = true;
                pinned.connections.decrement(1.0);
                pinned.connections = connections(name, "old");
                pinned.connections.increment(1.0);
            }
        }
        outdated
    }

    /// The client requested the list of all bundles, and may request each of this
    /// many packages next.
    pub(super) fn listed(&self, packages: usize) {
        let state = &mut *self.state.lock();
        state.listed = packages;
        state.requested.clear();
        // The calls that belong to a list over the last connection are done.
        state.held = false;
    }

    /// The client requested a package.
    pub(super) fn requested(&self, package: &str) {
        let state = &mut *self.state.lock();
        if state.listed == 0 {
            return;
        }
        if !state.requested.contains(package) {
            state.requested.insert(package.to_owned());
        }
        if state.requested.len() >= state.listed {
            state.listed = 0;
            state.requested.clear();
        }
    }

    /// Ends the session, if no call is open and `quiet` holds. `quiet` gets whether the
    /// client will probably continue: it has requested some packages of its list and
    /// not all, or the list was answered over its last connection.
    pub(super) fn close_if(&self, quiet: impl FnOnce(bool) -> bool) -> bool {
        let mut state = self.state.lock();
        let idle = self.calls.available_permits() == Semaphore::MAX_PERMITS;
        let continues = !state.requested.is_empty() || state.held;
        let close = idle && quiet(continues);
        if close {
            self.end(&mut state);
        }
        close
    }

    /// Ends the session, even if calls are open.
    pub(super) fn close(&self) {
        self.end(&mut self.state.lock());
    }

    /// Later calls cross with GOAWAY. They see the snapshots that those over the
    /// client's next connection will see.
    fn end(&self, state: &mut State) {
        state.snapshots.clear();
        self.closing.cancel();
    }

    /// Ends long-lived streams when the connection is asked to close.
    pub(super) fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.connections.decrement(1.0);
    }
}

/// The number of connections that see this generation of a catalog.
fn connections(catalog: &CatalogName, generation: &'static str) -> Gauge {
    gauge!(
        "almanac_grpc_pinned_connections",
        "catalog" => catalog.to_string(), "generation" => generation
    )
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::serve::net::limits::Renewal;

    fn session() -> Arc<Session> {
        Session::new(Handovers::new(&Renewal::default()))
    }

    #[test]
    fn a_client_that_requests_the_listed_packages_may_finish() {
        let session = session();
        let continues = || {
            let mut some = false;
            session.close_if(|requested_some| {
                some = requested_some;
                false
            });
            some
        };
        let after = |package| {
            session.requested(package);
            continues()
        };
        // Without a list, no request belongs to one.
        assert!(!after("a"));
        session.listed(3);
        assert!(!continues(), "the list may be all that is wanted");
        assert_eq!(["a", "b", "a", "c"].map(after), [true, true, true, false]);
        assert!(!after("d"));
        // A client that gave up and started again.
        session.listed(2);
        assert!(after("a"));
        session.listed(2);
        assert_eq!(["a", "b"].map(after), [true, false]);
    }

    #[test]
    fn a_connection_with_an_open_call_stays() {
        let session = session();
        let call = session.begin_call();
        assert!(!session.close_if(|_| true));
        drop(call);
        assert!(!session.close_if(|_| false));
        assert!(!session.closing().is_cancelled());
        assert!(session.close_if(|_| true));
        assert!(session.closing().is_cancelled());
    }

    #[test]
    fn no_call_begins_between_the_look_at_open_calls_and_the_end_of_a_session() {
        let session = session();
        let mut began = None;
        assert!(session.close_if(|_| {
            let session = Arc::clone(&session);
            let calling = thread::spawn(move || {
                let _call = session.begin_call();
                session.closing().is_cancelled()
            });
            let until = Instant::now() + Duration::from_millis(50);
            while !calling.is_finished() && Instant::now() < until {
                thread::yield_now();
            }
            began = Some(calling);
            true
        }));
        assert!(began.unwrap().join().unwrap(), "it began before the end");
    }
}
