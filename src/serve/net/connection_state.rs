//! The state of a connection: its open requests, how long it has been idle, and
//! how long no bytes have moved. It also carries requests to close or abort.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    requests: Mutex<Requests>,
    began: Instant,
    /// When a request last arrived or a part of a response was sent, in
    /// milliseconds since `began`.
    moved: AtomicU64,
    /// Cancelled to close the connection as soon as it is idle.
    pub(crate) asked_to_close: CancellationToken,
    /// Cancelled to close it at once, with its open requests.
    pub(crate) abort: CancellationToken,
}

#[derive(Debug)]
struct Requests {
    open: usize,
    /// When the last response ended, or the connection began.
    since: Instant,
}

/// An open request of a connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct ActiveRequest {
    pub(crate) connection: Arc<ConnectionState>,
    /// How many other requests were open when it arrived.
    pub(crate) others: usize,
    /// When it arrived.
    pub(crate) began: Instant,
    /// When it ended, if the caller knows the time already.
    pub(crate) ended: Option<Instant>,
}

/// The connections of a listener, by the addresses of their states.
#[derive(Debug, Default)]
pub(crate) struct Connections(Mutex<HashMap<usize, Arc<ConnectionState>>>);

impl ConnectionState {
    /// The state of a new connection.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            requests: Mutex::new(Requests {
                open: 0,
                since: Instant::now(),
            }),
            began: Instant::now(),
            moved: AtomicU64::new(0),
            asked_to_close: CancellationToken::new(),
            abort: CancellationToken::new(),
        })
    }

    /// Registers a request that arrives now.
    pub(crate) fn begin(self: &Arc<Self>) -> ActiveRequest {
        let began = Instant::now();
        let others = {
            let mut requests = self.requests.lock();
            requests.open += 1;
            requests.open - 1
        };
        self.moved(began);
        ActiveRequest {
            connection: Arc::clone(self),
            others,
            began,
            ended: None,
        }
    }

    /// A part of a response was sent.
    pub(crate) fn moved(&self, now: Instant) {
        let since = now.saturating_duration_since(self.began);
        self.moved.store(milliseconds(since), Ordering::Relaxed);
    }

    /// Waits until no bytes have moved for that long, in either direction. Open
    /// responses that stand still do not count.
    pub(crate) async fn wait_until_quiet(&self, limit: Duration) {
        loop {
            let until = self.quiet_from(limit);
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    /// Whether no bytes have moved for that long.
    pub(crate) fn is_quiet(&self, limit: Duration) -> bool {
        self.quiet_from(limit) <= Instant::now()
    }

    fn quiet_from(&self, limit: Duration) -> Instant {
        self.began + Duration::from_millis(self.moved.load(Ordering::Relaxed)) + limit
    }

    /// Since when no request is open.
    fn idle_since(&self) -> Option<Instant> {
        let requests = self.requests.lock();
        (requests.open == 0).then_some(requests.since)
    }

    /// Waits until no request has been open for that long.
    pub(crate) async fn wait_until_idle(&self, limit: Duration) {
        loop {
            let now = Instant::now();
            match self.idle_since() {
                Some(since) if since + limit <= now => return,
                Some(since) => tokio::time::sleep_until(since + limit).await,
                None => tokio::time::sleep(limit).await,
            }
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let now = self.ended.unwrap_or_else(Instant::now);
        self.connection.moved(now);
        let mut requests = self.connection.requests.lock();
        requests.open = requests.open.saturating_sub(1);
        requests.since = now;
    }
}

impl Connections {
    /// Adds a connection.
    pub(crate) fn add(&self, state: &Arc<ConnectionState>) {
        let address = Arc::as_ptr(state).addr();
        self.0.lock().insert(address, Arc::clone(state));
    }

    /// Removes a connection that has ended, if it was added.
    pub(crate) fn remove(&self, state: &Arc<ConnectionState>) {
        self.0.lock().remove(&Arc::as_ptr(state).addr());
    }

    /// Asks the longest-idle connections to close, at most `most`. Returns how
    /// many it asked.
    pub(crate) fn make_room(&self, most: usize) -> usize {
        let open = self.0.lock();
        let idle = open
            .values()
            .filter(|one| !one.asked_to_close.is_cancelled());
        let mut idle: Vec<_> = idle
            .filter_map(|one| Some((one.idle_since()?, one)))
            .collect();
        idle.sort_unstable_by_key(|(since, _)| *since);
        idle.truncate(most);
        for (_, longest) in &idle {
            longest.asked_to_close.cancel();
        }
        idle.len()
    }

    /// Whether any idle connection was asked to close and is still open.
    pub(crate) fn leaving(&self) -> bool {
        let open = self.0.lock();
        let mut asked = open
            .values()
            .filter(|one| one.asked_to_close.is_cancelled());
        asked.any(|one| one.idle_since().is_some())
    }
}

/// The milliseconds of a duration, saturating.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time is paused, so all durations are exact.
    const MOMENT: Duration = Duration::from_millis(20);

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_some_time_after_its_last_response() {
        let state = ConnectionState::new();
        let (first, second) = (state.begin(), state.begin());
        assert_eq!((first.others, second.others), (0, 1));
        let ended = async {
            tokio::time::sleep(MOMENT).await;
            drop(first);
            tokio::time::sleep(MOMENT).await;
            drop(second);
            Instant::now()
        };
        let idle = async {
            state.wait_until_idle(MOMENT).await;
            Instant::now()
        };
        let (ended, idle) = tokio::join!(ended, idle);
        assert_eq!(idle - ended, MOMENT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_quiet_when_no_bytes_move() {
        let state = ConnectionState::new();
        let begin = Instant::now();
        state.wait_until_quiet(MOMENT).await;
        assert_eq!(begin.elapsed(), MOMENT);
        // Returns at once if it has been quiet for that long.
        state.wait_until_quiet(MOMENT).await;
        assert_eq!(begin.elapsed(), MOMENT);
        let _stands_still = state.begin();
        let touch = async {
            tokio::time::sleep(MOMENT / 2).await;
            state.moved(Instant::now());
            Instant::now()
        };
        let quiet = async {
            state.wait_until_quiet(MOMENT).await;
            Instant::now()
        };
        let (moved, quiet) = tokio::join!(touch, quiet);
        assert_eq!(quiet - moved, MOMENT);
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connections_are_closed_first() {
        let connections = Connections::default();
        let mut all = Vec::new();
        for _ in 0..3 {
            let state = ConnectionState::new();
            connections.add(&state);
            all.push(state);
            tokio::time::sleep(MOMENT).await;
        }
        // The oldest has an open request.
        let _busy = all[0].begin();
        assert!(!connections.leaving());
        assert_eq!(connections.make_room(1), 1);
        assert!(connections.leaving());
        let asked_to_close = |at: usize| all[at].asked_to_close.is_cancelled();
        assert_eq!(
            [asked_to_close(0), asked_to_close(1), asked_to_close(2)],
            [false, true, false]
        );
        connections.remove(&all[1]);
        assert_eq!(connections.make_room(2), 1);
        assert!(asked_to_close(2));
        assert_eq!(connections.make_room(2), 0);
    }
}
