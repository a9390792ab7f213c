//! What a connection is at: how many answers are open on it, since when there
//! is none, and since when nothing moves. Who has to make room, or to go, is
//! told through it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What one connection is at.
#[derive(Debug)]
pub(crate) struct Activity {
    state: Mutex<State>,
    began: Instant,
    /// When a request last came or a piece of an answer was taken, in
    /// milliseconds since `began`.
    moved: AtomicU64,
    /// Asked to go as soon as it is at nothing.
    dismissed: CancellationToken,
    /// To be dropped, whatever it is at.
    cut: CancellationToken,
}

#[derive(Debug)]
struct State {
    open: usize,
    /// When the last answer ended, or the connection began.
    since: Instant,
}

/// An answer that is open on a connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Busy {
    connection: Arc<Activity>,
    /// How many were open before.
    others: usize,
    began: Instant,
    /// When it ended, if somebody has looked at the clock already.
    ended: Option<Instant>,
}

/// All connections of a listener.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    next: AtomicU64,
    open: Mutex<HashMap<u64, Arc<Activity>>>,
}

impl Activity {
    /// Of a connection that begins now.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                open: 0,
                since: Instant::now(),
            }),
            began: Instant::now(),
            moved: AtomicU64::new(0),
            dismissed: CancellationToken::new(),
            cut: CancellationToken::new(),
        })
    }

    /// Another answer is open from now on.
    pub(crate) fn begin(self: &Arc<Self>) -> Busy {
        let began = Instant::now();
        let others = {
            let mut state = self.state();
            state.open += 1;
            state.open - 1
        };
        self.moved(began);
        Busy {
            connection: Arc::clone(self),
            others,
            began,
            ended: None,
        }
    }

    /// Something was taken of an answer.
    pub(crate) fn moved(&self, now: Instant) {
        let since = now.saturating_duration_since(self.began);
        self.moved
            .store(since.as_millis() as u64, Ordering::Relaxed);
    }

    /// Waits until nothing has moved for that long, in either direction. Open
    /// answers do not count when they stand still.
    pub(crate) async fn quiet(&self, limit: Duration) {
        loop {
            let until = self.quiet_from(limit);
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    /// Whether nothing has moved for that long.
    pub(crate) fn is_quiet(&self, limit: Duration) -> bool {
        self.quiet_from(limit) <= Instant::now()
    }

    fn quiet_from(&self, limit: Duration) -> Instant {
        self.began + Duration::from_millis(self.moved.load(Ordering::Relaxed)) + limit
    }

    /// Since when there is none.
    fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        (state.open == 0).then_some(state.since)
    }

    /// Waits until there has been none for that long.
    pub(crate) async fn idle(&self, limit: Duration) {
        loop {
            let now = Instant::now();
            match self.idle_since() {
                Some(since) if since + limit <= now => return,
                Some(since) => tokio::time::sleep_until(since + limit).await,
                None => tokio::time::sleep(limit).await,
            }
        }
    }

    /// Asks the connection to go as soon as it is at nothing.
    pub(crate) fn dismiss(&self) {
        self.dismissed.cancel();
    }

    /// Waits until somebody else needs the place.
    pub(crate) async fn dismissed(&self) {
        self.dismissed.cancelled().await;
    }

    /// Ends the connection whatever it is at.
    pub(crate) fn cut(&self) {
        self.cut.cancel();
    }

    /// Waits for that.
    pub(crate) async fn is_cut(&self) {
        self.cut.cancelled().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Busy {
    /// The connection.
    pub(crate) fn connection(&self) -> &Activity {
        &self.connection
    }

    /// When its request came.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// How many others were open on the connection when it began.
    pub(crate) fn others(&self) -> usize {
        self.others
    }

    /// It is dropped next, and this is the time.
    pub(crate) fn ends(&mut self, now: Instant) {
        self.ended = Some(now);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let now = self.ended.unwrap_or_else(Instant::now);
        self.connection.moved(now);
        let mut state = self.connection.state();
        state.open = state.open.saturating_sub(1);
        state.since = now;
    }
}

impl Connections {
    /// A new connection, with the number by which it is removed.
    pub(crate) fn add(&self) -> (u64, Arc<Activity>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let activity = Activity::new();
        self.lock().insert(number, Arc::clone(&activity));
        (number, activity)
    }

    /// A connection that has ended.
    pub(crate) fn remove(&self, number: u64) {
        self.lock().remove(&number);
    }

    /// Asks the connections to go that have been at nothing for longest, at
    /// most so many. Tells how many there are.
    pub(crate) fn make_room(&self, most: usize) -> usize {
        let open = self.lock();
        let idle = open.values().filter(|one| !one.dismissed.is_cancelled());
        let mut idle: Vec<_> = idle
            .filter_map(|one| Some((one.idle_since()?, one)))
            .collect();
        idle.sort_unstable_by_key(|(since, _)| *since);
        idle.truncate(most);
        for (_, longest) in &idle {
            longest.dismiss();
        }
        idle.len()
    }

    /// Whether any was asked to go, and is at nothing that it would finish.
    pub(crate) fn leaving(&self) -> bool {
        let open = self.lock();
        let mut asked = open.values().filter(|one| one.dismissed.is_cancelled());
        asked.any(|one| one.idle_since().is_some())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Activity>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time stands still but for sleep, so all of them are exact.
    const MOMENT: Duration = Duration::from_millis(20);

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_when_its_last_answer_has_ended_for_long() {
        let activity = Activity::new();
        let (first, second) = (activity.begin(), activity.begin());
        assert_eq!((first.others(), second.others()), (0, 1));
        let ended = async {
            tokio::time::sleep(MOMENT).await;
            drop(first);
            tokio::time::sleep(MOMENT).await;
            drop(second);
            Instant::now()
        };
        let idle = async {
            activity.idle(MOMENT).await;
            Instant::now()
        };
        let (ended, idle) = tokio::join!(ended, idle);
        assert_eq!(idle - ended, MOMENT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_quiet_when_nothing_moves() {
        let activity = Activity::new();
        let begin = Instant::now();
        activity.quiet(MOMENT).await;
        assert_eq!(begin.elapsed(), MOMENT);
        // At once when it has been so for long.
        activity.quiet(MOMENT).await;
        assert_eq!(begin.elapsed(), MOMENT);
        let _stands_still = activity.begin();
        let touch = async {
            tokio::time::sleep(MOMENT / 2).await;
            activity.moved(Instant::now());
            Instant::now()
        };
        let quiet = async {
            activity.quiet(MOMENT).await;
            Instant::now()
        };
        let (moved, quiet) = tokio::join!(touch, quiet);
        assert_eq!(quiet - moved, MOMENT);
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_is_idle_for_longest_makes_room() {
        let connections = Connections::default();
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(connections.add());
            tokio::time::sleep(MOMENT).await;
        }
        // The oldest is at something.
        let _busy = all[0].1.begin();
        assert!(!connections.leaving());
        assert_eq!(connections.make_room(1), 1);
        assert!(connections.leaving());
        let dismissed = |at: usize| all[at].1.dismissed.is_cancelled();
        assert_eq!(
            [dismissed(0), dismissed(1), dismissed(2)],
            [false, true, false]
        );
        connections.remove(all[1].0);
        assert_eq!(connections.make_room(2), 1);
        assert!(dismissed(2));
        assert_eq!(connections.make_room(2), 0);
    }
}
