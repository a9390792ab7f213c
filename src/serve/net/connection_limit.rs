//! The connection limit of a listener, with a few slots beyond it for clients
//! that get an error.
//!
//! At the limit, the longest-idle connections are closed first. If none is idle,
//! the next client gets a slot beyond the limit, so that it learns the reason.
//! When these are taken as well, further clients wait. The limit of open files of the
//! process is raised to fit.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Gauge, gauge};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::serve::metrics::count_ended;
use crate::serve::net::connection_state::{ConnectionState, Connections};

/// How many connections beyond the limit get an error response at once.
pub(crate) const MORE: usize = 100;
/// How long such a client may send requests. Closing at once would make it
/// reconnect as often as it can.
const STAY: Duration = Duration::from_secs(2);
/// How long its connection may take to end after that.
const END: Duration = Duration::from_secs(5);
/// How long to wait for one connection to close before asking another.
const PAUSE: Duration = Duration::from_secs(1);
/// Descriptors for files, the store and the registry client.
const OTHER_DESCRIPTORS: u64 = 200;
/// One of so many connections is asked to close at a time.
const PART: usize = 20;
/// How often the log reports rejected clients.
const REPORT_INTERVAL: Duration = Duration::from_mins(1);

/// The limit of a listener.
pub(crate) struct ConnectionLimit {
    service: &'static str,
    most: usize,
    all: Arc<Connections>,
    free: Arc<Semaphore>,
    more: Arc<Semaphore>,
    open: Gauge,
    /// How many clients were rejected since the last report, and its time.
    unreported: usize,
    reported: Option<Instant>,
}

/// The slot of a connection, until it is dropped.
pub(crate) struct ConnectionSlot {
    /// The state of its connection.
    pub(crate) state: Arc<ConnectionState>,
    /// The limit, if this slot is beyond it.
    pub(crate) beyond: Option<usize>,
    all: Arc<Connections>,
    open: Gauge,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionLimit {
    /// A limit for a service.
    pub(crate) fn new(service: &'static str, most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        Self {
            service,
            most,
            all: Arc::default(),
            free: Arc::new(Semaphore::new(most)),
            more: Arc::new(Semaphore::new(MORE)),
            open: gauge!("almanac_connections", "service" => service),
            unreported: 0,
            reported: None,
        }
    }

    /// Waits for a slot for one more connection.
    pub(crate) async fn take(&mut self) -> Arc<ConnectionSlot> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return self.regular(permit);
        }
        loop {
            self.make_room();
            let pause = if self.all.leaving() {
                PAUSE
            } else {
                Duration::ZERO
            };
            let free = Arc::clone(&self.free).acquire_owned();
            if let Ok(Ok(permit)) = tokio::time::timeout(pause, free).await {
                return self.regular(permit);
            }
            let either = async {
                tokio::select! {
                    biased;
                    permit = Arc::clone(&self.free).acquire_owned() => (permit, true),
                    permit = Arc::clone(&self.more).acquire_owned() => (permit, false),
                }
            };
            match tokio::time::timeout(PAUSE, either).await {
                Ok((Ok(permit), true)) => return self.regular(permit),
                Ok((Ok(permit), false)) => return self.beyond(permit),
                // The semaphores are never closed, so this is the timeout.
                Ok((Err(_), _)) | Err(_) => {}
            }
        }
    }

    /// Asks several idle connections to close: more clients will follow.
    pub(crate) fn make_room(&self) {
        for _ in 0..self.all.make_room(self.most / PART + 1) {
            count_ended(self.service, "room");
        }
    }

    fn regular(&self, permit: OwnedSemaphorePermit) -> Arc<ConnectionSlot> {
        let slot = self.slot(None, permit);
        self.all.add(&slot.state);
        slot
    }

    fn beyond(&mut self, permit: OwnedSemaphorePermit) -> Arc<ConnectionSlot> {
        count_ended(self.service, "limit");
        self.unreported += 1;
        let due = |last: Instant| last.elapsed() >= REPORT_INTERVAL;
        if self.reported.is_none_or(due) {
            tracing::warn!(
                service = self.service,
                limit = self.most,
                clients = self.unreported,
                "the port has reached its connection limit (max_connections, where that can be \
                 set), and no connection is idle: new clients get an error"
            );
            self.reported = Some(Instant::now());
            self.unreported = 0;
        }
        self.slot(Some(self.most), permit)
    }

    fn slot(&self, beyond: Option<usize>, permit: OwnedSemaphorePermit) -> Arc<ConnectionSlot> {
        self.open.increment(1.0);
        Arc::new(ConnectionSlot {
            state: ConnectionState::new(),
            beyond,
            all: Arc::clone(&self.all),
            open: self.open.clone(),
            _permit: permit,
        })
    }
}

impl ConnectionSlot {
    /// Waits until a connection beyond the limit has to end. Before that, its
    /// client is asked to close it.
    pub(crate) async fn over(&self) {
        tokio::time::sleep(STAY).await;
        self.state.asked_to_close.cancel();
        tokio::time::sleep(END).await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.all.remove(&self.state);
        self.open.decrement(1.0);
    }
}

/// Raises the limit of open files to its maximum. Warns if that is not enough for
/// a listener with so many connections.
pub fn raise_descriptor_limit(connections: usize) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::debug!(%error, "cannot raise the limit of open files");
            limit.current
        }
    };
    let needed = OTHER_DESCRIPTORS + (connections + MORE) as u64;
    if let Some(current) = current.filter(|&current| current < needed) {
        tracing::warn!(
            limit = current,
            needed,
            "the limit of open files is below the connection limit: raise it (ulimit -n), or \
             lower max_connections where that can be set"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a slot that is free at once.
    async fn take(limit: &mut ConnectionLimit) -> Arc<ConnectionSlot> {
        let taken = tokio::time::timeout(PAUSE / 2, limit.take());
        taken.await.expect("a slot is free")
    }

    #[tokio::test]
    async fn connections_beyond_the_limit_are_accepted_for_an_error() {
        let mut limit = ConnectionLimit::new("test", 2);
        let first = take(&mut limit).await;
        let second = take(&mut limit).await;
        let _busy = [first.state.begin(), second.state.begin()];
        assert_eq!((first.beyond, second.beyond), (None, None));
        let mut more = Vec::new();
        for _ in 0..MORE {
            let slot = take(&mut limit).await;
            assert_eq!(slot.beyond, Some(2));
            more.push(slot);
        }
        // The next waits, for a slot of either kind.
        assert!(
            tokio::time::timeout(PAUSE / 10, limit.take())
                .await
                .is_err()
        );
        more.pop();
        more.push(take(&mut limit).await);
        drop(first);
        assert_eq!(take(&mut limit).await.beyond, None);
    }

    #[tokio::test]
    async fn idle_connections_are_closed_before_new_ones_are_rejected() {
        let mut limit = ConnectionLimit::new("test", 1);
        let first = take(&mut limit).await;
        let leave = {
            let state = Arc::clone(&first.state);
            async move {
                state.asked_to_close.cancelled().await;
                tokio::time::sleep(PAUSE / 10).await;
                drop(first);
            }
        };
        let (slot, ()) = tokio::join!(limit.take(), leave);
        assert_eq!(slot.beyond, None);
    }

    #[tokio::test]
    async fn a_connection_that_does_not_close_delays_no_error() {
        let mut limit = ConnectionLimit::new("test", 1);
        let _stays = take(&mut limit).await;
        assert_eq!(limit.take().await.beyond, Some(1));
    }

    #[tokio::test]
    async fn a_client_beyond_the_limit_is_asked_to_close() {
        let mut limit = ConnectionLimit::new("test", 1);
        let first = take(&mut limit).await;
        let _busy = first.state.begin();
        let beyond = take(&mut limit).await;
        let state = Arc::clone(&beyond.state);
        tokio::select! {
            () = beyond.over() => panic!("its client is asked to close first"),
            () = state.asked_to_close.cancelled() => {}
        }
    }
}
