//! Places for the connections of a listener: so many, and a few more in which
//! clients are told that there is none.
//!
//! When all are taken, some connections that have been at nothing for longest
//! are asked to go. When none is, the next client gets one of the few: whoever
//! waited in silence would not know what for. When these are taken as well, the
//! next ones wait.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Gauge, gauge};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::serve::net::connection_state::{Activity, Connections};
use crate::serve::net::listen::ended;

/// How many more clients can be told at once.
pub(crate) const MORE: usize = 100;
/// How long such a client may ask before it has to go: not at once, or it would
/// come again as often as it can connect.
const STAY: Duration = Duration::from_secs(2);
/// How long its connection may take to end after that.
const END: Duration = Duration::from_secs(5);
/// How long to wait for a connection that makes room before another is asked.
const PAUSE: Duration = Duration::from_secs(1);
/// The part of the connections that is asked at once: one of so many.
const PART: usize = 20;
/// How often the log says that clients are sent away.
const SAY: Duration = Duration::from_mins(1);

/// The places of a listener.
pub(crate) struct Places {
    service: &'static str,
    most: usize,
    all: Arc<Connections>,
    free: Arc<Semaphore>,
    more: Arc<Semaphore>,
    open: Gauge,
    /// How many clients found no place that the log does not say yet, and when
    /// it last said so.
    unsaid: usize,
    said: Option<Instant>,
}

/// One of them, until it is dropped.
pub(crate) struct Place {
    activity: Arc<Activity>,
    kind: Kind,
    open: Gauge,
    _permit: OwnedSemaphorePermit,
}

enum Kind {
    /// With the number by which the connection is known.
    Regular(Arc<Connections>, u64),
    /// One more than these.
    Beyond(usize),
}

impl Places {
    /// So many for a service.
    pub(crate) fn new(service: &'static str, most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        Self {
            service,
            most,
            all: Arc::default(),
            free: Arc::new(Semaphore::new(most)),
            more: Arc::new(Semaphore::new(MORE)),
            open: gauge!("almanac_connections", "service" => service),
            unsaid: 0,
            said: None,
        }
    }

    /// A place for one more connection, once there is one.
    pub(crate) async fn take(&mut self) -> Arc<Place> {
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
                // The semaphores are never closed.
                Ok((Err(_), _)) | Err(_) => {}
            }
        }
    }

    /// Asks some to go, and not only one: the next will come soon.
    pub(crate) fn make_room(&self) {
        for _ in 0..self.all.make_room(self.most / PART + 1) {
            ended(self.service, "room");
        }
    }

    fn regular(&self, permit: OwnedSemaphorePermit) -> Arc<Place> {
        let (number, activity) = self.all.add();
        let kind = Kind::Regular(Arc::clone(&self.all), number);
        self.place(activity, kind, permit)
    }

    fn beyond(&mut self, permit: OwnedSemaphorePermit) -> Arc<Place> {
        ended(self.service, "limit");
        self.unsaid += 1;
        if self.said.is_none_or(|said| said.elapsed() >= SAY) {
            tracing::warn!(
                service = self.service,
                limit = self.most,
                clients = self.unsaid,
                "as many connections are open as the port lets in (max_connections, where that \
                 can be set), and none is idle: clients are sent away"
            );
            self.said = Some(Instant::now());
            self.unsaid = 0;
        }
        self.place(Activity::new(), Kind::Beyond(self.most), permit)
    }

    fn place(
        &self,
        activity: Arc<Activity>,
        kind: Kind,
        permit: OwnedSemaphorePermit,
    ) -> Arc<Place> {
        self.open.increment(1.0);
        Arc::new(Place {
            activity,
            kind,
            open: self.open.clone(),
            _permit: permit,
        })
    }
}

impl Place {
    /// What the connection in it is at.
    pub(crate) fn activity(&self) -> Arc<Activity> {
        Arc::clone(&self.activity)
    }

    /// The most connections that there may be, when this is for one more.
    pub(crate) fn beyond(&self) -> Option<usize> {
        match self.kind {
            Kind::Regular(..) => None,
            Kind::Beyond(most) => Some(most),
        }
    }

    /// Waits until a connection beyond the others has to be over; before that
    /// its client is asked to go.
    pub(crate) async fn over(&self) {
        tokio::time::sleep(STAY).await;
        self.activity.dismiss();
        tokio::time::sleep(END).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Kind::Regular(all, number) = &self.kind {
            all.remove(*number);
        }
        self.open.decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a place that is there at once.
    async fn take(places: &mut Places) -> Arc<Place> {
        let taken = tokio::time::timeout(PAUSE / 2, places.take());
        taken.await.expect("there is a place")
    }

    #[tokio::test]
    async fn who_is_one_too_many_is_let_in_to_be_told() {
        let mut places = Places::new("test", 2);
        let first = take(&mut places).await;
        let second = take(&mut places).await;
        let _busy = [first.activity().begin(), second.activity().begin()];
        assert_eq!((first.beyond(), second.beyond()), (None, None));
        let mut more = Vec::new();
        for _ in 0..MORE {
            let place = take(&mut places).await;
            assert_eq!(place.beyond(), Some(2));
            more.push(place);
        }
        // The next waits, for a place of either kind.
        assert!(
            tokio::time::timeout(PAUSE / 10, places.take())
                .await
                .is_err()
        );
        more.pop();
        more.push(take(&mut places).await);
        drop(first);
        assert_eq!(take(&mut places).await.beyond(), None);
    }

    #[tokio::test]
    async fn who_is_at_nothing_makes_room_before_anybody_is_sent_away() {
        let mut places = Places::new("test", 1);
        let first = take(&mut places).await;
        let leave = {
            let activity = first.activity();
            async move {
                activity.dismissed().await;
                tokio::time::sleep(PAUSE / 10).await;
                drop(first);
            }
        };
        let (place, ()) = tokio::join!(places.take(), leave);
        assert_eq!(place.beyond(), None);
    }

    #[tokio::test]
    async fn who_does_not_go_is_not_waited_for() {
        let mut places = Places::new("test", 1);
        let _stays = take(&mut places).await;
        assert_eq!(places.take().await.beyond(), Some(1));
    }

    #[tokio::test]
    async fn a_client_beyond_the_others_is_asked_to_go() {
        let mut places = Places::new("test", 1);
        let first = take(&mut places).await;
        let _busy = first.activity().begin();
        let beyond = take(&mut places).await;
        let activity = beyond.activity();
        tokio::select! {
            () = beyond.over() => panic!("its client is asked to go first"),
            () = activity.dismissed() => {}
        }
    }
}
