//! Samples the log lines that clients without credentials can cause as often as they
//! like: of each kind one line a minute, with the number of lines left out.

use std::collections::HashMap;
use std::fmt::{Debug, Write as _};
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

use fbc::text::display::clip;
use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// The modules and libraries whose lines are sampled: those that speak to clients.
/// The lines of `credential`, `tls` and `connection_limit` come rarely.
const SAMPLED: [&str; 8] = [
    "h2",
    "hyper",
    "rustls",
    "almanac::serve::grpc::unknown_names",
    "almanac::serve::http",
    "almanac::serve::net::listen",
    "almanac::serve::oci",
    "almanac::serve::worker_pool",
];
/// One line of a kind is logged in this time.
const INTERVAL: Duration = Duration::from_mins(1);
/// The time between two reports of lines left out.
const STEP: Duration = Duration::from_secs(5);
/// How much of a message the summary repeats, in characters.
const MAX_MESSAGE: usize = 200;

/// Lets the first line of a kind through and counts the others. A kind is a place in
/// the code, so there are few.
pub(super) struct LogSampler;

/// The kinds that were logged within the last interval.
static KINDS: Mutex<Option<HashMap<Identifier, Kind>>> = Mutex::new(None);

struct Kind {
    target: &'static str,
    message: String,
    since: Instant,
    left_out: u64,
}

impl<S: Subscriber> Layer<S> for LogSampler {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        // Who asks for finer levels wants all of them.
        if *metadata.level() > Level::WARN || !is_sampled(metadata.target()) {
            return true;
        }
        let mut kinds = KINDS.lock();
        let kinds = kinds.get_or_insert_default();
        if let Some(kind) = kinds.get_mut(&metadata.callsite()) {
            kind.left_out += 1;
            report();
            return false;
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        let kind = Kind {
            target: metadata.target(),
            message: clip(&message.0, MAX_MESSAGE),
            since: Instant::now(),
            left_out: 0,
        };
        kinds.insert(metadata.callsite(), kind);
        true
    }
}

fn is_sampled(target: &str) -> bool {
    SAMPLED.iter().any(|sampled| {
        let rest = target.strip_prefix(sampled);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    })
}

/// Reports the lines left out on a thread, from the first of them on.
fn report() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        // Without a thread, the lines are left out uncounted.
        let _ = thread::Builder::new().name("log-sampler".into()).spawn(|| {
            loop {
                thread::sleep(STEP);
                let due = KINDS
                    .lock()
                    .as_mut()
                    .map(|kinds| due(kinds, Instant::now()));
                for (from, message, lines) in due.unwrap_or_default() {
                    tracing::warn!(from, lines, "more lines were left out: {message}");
                }
            }
        });
    });
}

/// The kinds whose interval is over: those with lines left out begin another, and the
/// next line of the others is logged.
fn due(kinds: &mut HashMap<Identifier, Kind>, now: Instant) -> Vec<(&'static str, String, u64)> {
    let mut due = Vec::new();
    kinds.retain(|_, kind| {
        if now.saturating_duration_since(kind.since) < INTERVAL {
            return true;
        }
        let left_out = std::mem::take(&mut kind.left_out);
        if left_out > 0 {
            kind.since = now;
            due.push((kind.target, kind.message.clone(), left_out));
        }
        left_out > 0
    });
    due
}

/// The message of an event.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// Keeps the messages that pass.
    struct Passed(Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Passed {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let mut message = Message(String::new());
            event.record(&mut message);
            self.0.lock().push(message.0);
        }
    }

    #[test]
    fn one_line_of_a_kind_is_logged_in_a_minute_and_the_others_are_counted() {
        let passed = Arc::default();
        let lines = tracing_subscriber::registry()
            .with(Passed(Arc::clone(&passed)))
            .with(LogSampler);
        tracing::subscriber::with_default(lines, || {
            for number in 0..1000 {
                tracing::warn!(target: "h2::proto", "reset {number}");
                if number < 2 {
                    tracing::error!(target: "h2::proto", "another kind");
                    tracing::debug!(target: "h2::proto", "details");
                    tracing::warn!(target: "h2o", "another library");
                }
            }
        });
        let wanted = [
            "reset 0",
            "another kind",
            "details",
            "another library",
            "details",
            "another library",
        ];
        assert_eq!(*passed.lock(), wanted);
        let mut kinds = KINDS.lock();
        let kinds = kinds.as_mut().unwrap();
        let now = Instant::now();
        assert_eq!(due(kinds, now), []);
        let mut summary = due(kinds, now + INTERVAL);
        summary.sort();
        let from = "h2::proto";
        let counted = [
            (from, "another kind".to_owned(), 1),
            (from, "reset 0".to_owned(), 999),
        ];
        assert_eq!(summary, counted);
        // After a minute without any, the next is logged.
        assert_eq!(due(kinds, now + 3 * INTERVAL), []);
        assert!(kinds.is_empty());
    }
}
