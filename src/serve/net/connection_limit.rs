//! The connection limit of a listener, with a few slots beyond it for clients
//! that get an error.
//!
//! At the limit, the longest-idle connections are closed first. If none is idle,
//! the next client gets a slot beyond the limit, so that it learns the reason.
//! When these are taken as well, further clients wait.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Gauge, gauge};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::serve::net::connection_state::{ConnectionState, Connections};
use crate::serve::net::metrics::count_ended;

/// How many connections beyond the limit get an error response at once.
pub(crate) const MORE: usize = 100;
/// How long such a client may send requests. Closing at once would make it
/// reconnect as often as it can.
const STAY: Duration = Duration::from_secs(2);
/// How long its connection may take to end after that.
const END: Duration = Duration::from_secs(5);
/// How long to wait for one connection to close before asking another.
const PAUSE: Duration = Duration::from_secs(1);
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

/// One of them, until it is dropped.
pub(crate) struct ConnectionSlot {
    state: Arc<ConnectionState>,
    kind: SlotKind,
    open: Gauge,
    _permit: OwnedSemaphorePermit,
}

enum SlotKind {
    /// Within the limit, with the number of the connection.
    Regular(Arc<Connections>, u64),
    /// Beyond this limit.
    Beyond(usize),
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
        let (number, state) = self.all.add();
        let kind = SlotKind::Regular(Arc::clone(&self.all), number);
        self.slot(state, kind, permit)
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
        self.slot(ConnectionState::new(), SlotKind::Beyond(self.most), permit)
    }

    fn slot(
        &self,
        state: Arc<ConnectionState>,
        kind: SlotKind,
        permit: OwnedSemaphorePermit,
    ) -> Arc<ConnectionSlot> {
        self.open.increment(1.0);
        Arc::new(ConnectionSlot {
            state,
            kind,
            open: self.open.clone(),
            _permit: permit,
        })
    }
}

impl ConnectionSlot {
    /// The state of its connection.
    pub(crate) fn state(&self) -> Arc<ConnectionState> {
        Arc::clone(&self.state)
    }

    /// The limit, if this slot is beyond it.
    pub(crate) fn beyond(&self) -> Option<usize> {
        match self.kind {
            SlotKind::Regular(..) => None,
            SlotKind::Beyond(most) => Some(most),
        }
    }

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
        if let SlotKind::Regular(all, number) = &self.kind {
            all.remove(*number);
        }
        self.open.decrement(1.0);
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
        let _busy = [first.state().begin(), second.state().begin()];
        assert_eq!((first.beyond(), second.beyond()), (None, None));
        let mut more = Vec::new();
        for _ in 0..MORE {
            let slot = take(&mut limit).await;
            assert_eq!(slot.beyond(), Some(2));
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
        assert_eq!(take(&mut limit).await.beyond(), None);
    }

    #[tokio::test]
    async fn idle_connections_are_closed_before_new_ones_are_rejected() {
        let mut limit = ConnectionLimit::new("test", 1);
        let first = take(&mut limit).await;
        let leave = {
            let state = first.state();
            async move {
                state.asked_to_close.cancelled().await;
                tokio::time::sleep(PAUSE / 10).await;
                drop(first);
            }
        };
        let (slot, ()) = tokio::join!(limit.take(), leave);
        assert_eq!(slot.beyond(), None);
    }

    #[tokio::test]
    async fn a_connection_that_does_not_close_delays_no_error() {
        let mut limit = ConnectionLimit::new("test", 1);
        let _stays = take(&mut limit).await;
        assert_eq!(limit.take().await.beyond(), Some(1));
    }

    #[tokio::test]
    async fn a_client_beyond_the_limit_is_asked_to_close() {
        let mut limit = ConnectionLimit::new("test", 1);
        let first = take(&mut limit).await;
        let _busy = first.state().begin();
        let beyond = take(&mut limit).await;
        let state = beyond.state();
        tokio::select! {
            () = beyond.over() => panic!("its client is asked to close first"),
            () = state.asked_to_close.cancelled() => {}
        }
    }
}
