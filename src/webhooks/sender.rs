//! Takes events and sends them, with one task for each webhook.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use metrics::{counter, describe_counter, describe_gauge, gauge};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::webhooks::event::{Event, encode, new_id};
use crate::webhooks::queue::{Delivery, Queue};
use crate::webhooks::receiver::Receiver;
use crate::webhooks::webhook::WebhookName;

/// The wait after the first failed attempt; it doubles with each further one.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest wait, unless a receiver asks for a longer one.
const LAST_RETRY: Duration = Duration::from_mins(10);

/// The active webhooks. Cheap to clone.
#[derive(Clone, Default)]
pub struct Webhooks {
    active: Arc<RwLock<BTreeMap<WebhookName, Active>>>,
}

/// A webhook with the task that sends its events.
struct Active {
    receiver: watch::Sender<Receiver>,
    queue: Arc<Queue>,
    attempts: Arc<Mutex<Attempts>>,
    stop: CancellationToken,
}

/// The outcome of the attempts so far.
#[derive(Default)]
struct Attempts {
    delivered: Option<SystemTime>,
    failures: u32,
    error: Option<String>,
}

/// The state of a webhook.
#[derive(Clone, Debug)]
pub struct WebhookStatus {
    /// Its name.
    pub name: WebhookName,
    /// Scheme, host and port of its receiver.
    pub receiver: String,
    /// How many events wait or are being sent.
    pub pending: usize,
    /// When the receiver last took one, since the start.
    pub delivered: Option<SystemTime>,
    /// How many attempts in a row have failed.
    pub failures: u32,
    /// The error of the last of them.
    pub error: Option<String>,
}

impl Webhooks {
    /// Replaces the webhooks. The events of one that keeps its name still wait, and
    /// are sent with its new settings. The tasks belong to `tasks`, and end when
    /// `stopping` is cancelled.
    pub fn set(&self, receivers: Vec<Receiver>, tasks: &TaskTracker, stopping: &CancellationToken) {
        let mut active = self.active.write();
        let mut old = std::mem::take(&mut *active);
        for receiver in receivers {
            let name = receiver.webhook.name.clone();
            let known = old.remove(&name).inspect(|known| {
                known.receiver.send_if_modified(|active| {
                    // A wait ends for new settings only.
                    let is_new = active.webhook != receiver.webhook;
                    *active = receiver.clone();
                    is_new
                });
            });
            let new = known.unwrap_or_else(|| {
                let (receiver, current) = watch::channel(receiver);
                let (queue, stop) = (Arc::<Queue>::default(), stopping.child_token());
                let attempts = Arc::<Mutex<Attempts>>::default();
                let sending = Sending {
                    current,
                    queue: Arc::clone(&queue),
                    attempts: Arc::clone(&attempts),
                };
                tasks.spawn(run(sending, stop.clone()));
                Active {
                    receiver,
                    queue,
                    attempts,
                    stop,
                }
            });
            active.insert(name, new);
        }
        for (name, removed) in old {
            removed.stop.cancel();
            pending(&name).set(0.0);
        }
    }

    /// The state of each webhook, by name.
    pub fn status(&self) -> Vec<WebhookStatus> {
        let active = self.active.read();
        let status = active.iter().map(|(name, active)| {
            let attempts = active.attempts.lock();
            WebhookStatus {
                name: name.clone(),
                receiver: active.receiver.borrow().webhook.url.to_string(),
                pending: active.queue.len(),
                delivered: attempts.delivered,
                failures: attempts.failures,
                error: attempts.error.clone(),
            }
        });
        status.collect()
    }

    /// Hands an event to the webhooks that want it. Waits for nothing.
    pub fn send(&self, mut event: Event) {
        event.shorten();
        let now = SystemTime::now();
        for active in self.active.read().values() {
            let webhook = Arc::clone(&active.receiver.borrow().webhook);
            if !webhook.wants(&event) {
                continue;
            }
            let id = new_id();
            let dropped = active.queue.push(Delivery {
                body: encode(&event, &id, &webhook.source, now),
                id,
                kind: event.kind(),
                catalog: event.catalog.clone(),
            });
            let name = &webhook.name;
            if let Some(dropped) = dropped {
                counted(name, "dropped");
                tracing::error!(
                    webhook = %name, catalog = %dropped.catalog, event = %dropped.kind,
                    "too many events wait for this webhook: the oldest one was dropped"
                );
            }
            pending(name).set(active.queue.len() as f64);
        }
    }
}

/// What the task of a webhook works with.
struct Sending {
    current: watch::Receiver<Receiver>,
    queue: Arc<Queue>,
    attempts: Arc<Mutex<Attempts>>,
}

/// Sends the events of a queue, one after the other, until it is stopped.
async fn run(mut sending: Sending, stop: CancellationToken) {
    let name = sending.current.borrow().webhook.name.clone();
    let queue = Arc::clone(&sending.queue);
    let sending = async {
        loop {
            let delivery = queue.first().await;
            let outcome = deliver(&mut sending, &delivery).await;
            // A dropped event was counted when it was dropped.
            if queue.remove(&delivery) {
                counted(&name, outcome);
            }
            pending(&name).set(queue.len() as f64);
        }
    };
    tokio::select! {
        () = sending => {}
        () = stop.cancelled() => {}
    }
    let left = queue.len();
    if left > 0 {
        tracing::warn!(webhook = %name, left, "stopped before all events were sent");
    }
}

/// Sends an event until the receiver takes it, refuses it, or failed too often. The
/// result is the outcome for the metric.
async fn deliver(sending: &mut Sending, delivery: &Delivery) -> &'static str {
    let Sending {
        current,
        queue,
        attempts,
    } = sending;
    let (catalog, event) = (&delivery.catalog, delivery.kind);
    let mut attempt = 0;
    loop {
        attempt += 1;
        let receiver = current.borrow_and_update().clone();
        let webhook = &receiver.webhook;
        let (name, url) = (&webhook.name, &webhook.url);
        // New settings may exclude the catalog, and name another receiver.
        if !webhook.still_wants(delivery) {
            tracing::info!(webhook = %name, %catalog, %event, "the webhook is no longer configured for the event");
            return "dropped";
        }
        if !queue.holds(delivery) {
            return "dropped";
        }
        let error = match receiver.post(&delivery.id, delivery.body.clone()).await {
            Ok(status) => {
                let status = status.as_u16();
                tracing::debug!(webhook = %name, %catalog, %event, status, attempt, "event delivered");
                *attempts.lock() = Attempts {
                    delivered: Some(SystemTime::now()),
                    ..Attempts::default()
                };
                return "delivered";
            }
            Err(error) => error,
        };
        {
            let mut attempts = attempts.lock();
            attempts.failures = attempts.failures.saturating_add(1);
            attempts.error = Some(error.to_string());
        }
        if !error.is_temporary || attempt >= webhook.attempts.get() {
            tracing::error!(
                webhook = %name, %url, %catalog, %event, attempt, %error,
                "the event was not delivered, and is given up"
            );
            return "failed";
        }
        let wait = retry(attempt).max(error.retry_after.unwrap_or_default());
        if attempt == 1 {
            tracing::warn!(
                webhook = %name, %url, %catalog, %event, %error,
                "the event was not delivered, and is sent again"
            );
        } else {
            tracing::debug!(webhook = %name, %catalog, %event, attempt, ?wait, %error, "not delivered");
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            // New settings may mend it.
            Ok(()) = current.changed() => {}
        }
    }
}

/// The wait after an attempt: up to a tenth more or less than the doubled one.
fn retry(attempt: u32) -> Duration {
    let doubled = FIRST_RETRY.saturating_mul(1 << (attempt - 1).min(20));
    doubled.min(LAST_RETRY).mul_f64(0.9 + 0.2 * fastrand::f64())
}

/// Counts an event that is done.
fn counted(webhook: &WebhookName, outcome: &'static str) {
    counter!(
        "almanac_webhook_events_total",
        "webhook" => webhook.to_string(),
        "outcome" => outcome
    )
    .increment(1);
}

fn pending(webhook: &WebhookName) -> metrics::Gauge {
    gauge!("almanac_webhook_pending_events", "webhook" => webhook.to_string())
}

/// Describes the metrics of this module.
pub fn describe_metrics() {
    describe_counter!(
        "almanac_webhook_events_total",
        "Events of webhooks that are done, by webhook and outcome"
    );
    describe_gauge!(
        "almanac_webhook_pending_events",
        "Events that are not delivered yet, by webhook"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_come_further_and_further_apart() {
        assert!((0.9..1.1).contains(&retry(1).as_secs_f64()));
        assert!((3.6..4.4).contains(&retry(3).as_secs_f64()));
        for attempt in [11, 40, u32::MAX] {
            assert!((540.0..660.0).contains(&retry(attempt).as_secs_f64()));
        }
    }
}
