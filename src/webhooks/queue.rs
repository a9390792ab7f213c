//! The events that wait for one receiver.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::name::CatalogName;
use crate::webhooks::event::EventKind;

/// The most events that wait. Beyond it the oldest one is dropped: a newer one says
/// more about the catalog.
pub(super) const MAX_EVENTS: usize = 100;

/// An event on its way to one receiver.
#[derive(Debug)]
pub(super) struct Delivery {
    /// Its identifier, the same in each attempt.
    pub(super) id: String,
    /// Its kind.
    pub(super) kind: EventKind,
    /// The catalog.
    pub(super) catalog: CatalogName,
    /// The content of the request.
    pub(super) body: Vec<u8>,
}

/// A bounded queue. Adding to it never waits.
#[derive(Debug, Default)]
pub(super) struct Queue {
    events: Mutex<VecDeque<Arc<Delivery>>>,
    added: Notify,
}

impl Queue {
    /// Adds an event. Returns one that was dropped for it.
    pub(super) fn push(&self, delivery: Delivery) -> Option<Arc<Delivery>> {
        let mut events = self.events.lock();
        let dropped = (events.len() >= MAX_EVENTS).then(|| events.pop_front());
        events.push_back(Arc::new(delivery));
        drop(events);
        self.added.notify_one();
        dropped.flatten()
    }

    /// The oldest event, which stays in the queue. Waits until there is one.
    pub(super) async fn first(&self) -> Arc<Delivery> {
        loop {
            let first = self.events.lock().front().cloned();
            match first {
                Some(first) => return first,
                None => self.added.notified().await,
            }
        }
    }

    /// Whether an event still waits: it is dropped when too many came after it.
    pub(super) fn holds(&self, delivery: &Delivery) -> bool {
        let events = self.events.lock();
        events.front().is_some_and(|first| first.id == delivery.id)
    }

    /// Removes an event that is done. `false` if it was dropped meanwhile.
    pub(super) fn remove(&self, done: &Delivery) -> bool {
        let mut events = self.events.lock();
        let held = events.front().is_some_and(|first| first.id == done.id);
        if held {
            events.pop_front();
        }
        held
    }

    /// The number of events.
    pub(super) fn len(&self) -> usize {
        self.events.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_queue_drops_the_oldest_event() {
        let queue = Queue::default();
        let delivery = |number: usize| Delivery {
            id: number.to_string(),
            kind: EventKind::Published,
            catalog: "a".parse().unwrap(),
            body: Vec::new(),
        };
        for number in 0..MAX_EVENTS {
            assert!(queue.push(delivery(number)).is_none());
        }
        let sending = queue.first().await;
        assert_eq!(sending.id, "0");
        let dropped = queue.push(delivery(MAX_EVENTS)).unwrap();
        assert_eq!(dropped.id, "0");
        // The dropped event takes no other with it when its attempt ends.
        assert!(!queue.holds(&sending));
        assert!(!queue.remove(&sending));
        assert_eq!(queue.len(), MAX_EVENTS);
        assert_eq!(queue.first().await.id, "1");
        assert!(queue.holds(&delivery(1)));
        assert!(queue.remove(&delivery(1)));
        assert_eq!(queue.first().await.id, "2");
    }
}
