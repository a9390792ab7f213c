//! The metrics of requests, by their labels: one cache for HTTP, OCI and gRPC.
//!
//! Looking a metric up by its labels takes as long as the rest of a small
//! request. So the handles are cached: first the last ones of each thread, then
//! a bounded table for all threads. An evicted handle is looked up again.

use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

use metrics::{Counter, Histogram, counter, histogram};
use quick_cache::Equivalent;
use quick_cache::sync::Cache;

/// How many sets of labels are cached. There are about ten for each catalog.
const MAX_CACHED: usize = 4096;

/// The name and the value of a label. Each value is one of few, whatever clients
/// send: unrecognised names are labelled `unknown`, `other` or left empty.
pub(crate) type Label<'a> = (&'static str, &'a str);

/// The metrics that count a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Api {
    /// Those of the HTTP API and the OCI API.
    Http,
    /// Those of gRPC.
    Grpc,
}

/// The metrics of requests with the same labels.
pub(crate) struct RequestMetrics {
    key: Key,
    requests: Counter,
    seconds: Histogram,
    /// Bytes of response bodies that were sent.
    sent: Counter,
}

/// Labels as a key of the cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key(Api, Vec<(&'static str, String)>);

/// The labels of a request, to look up their [`Key`].
#[derive(Hash)]
struct Borrowed<'a>(Api, &'a [Label<'a>]);

static CACHE: LazyLock<Cache<Key, Arc<RequestMetrics>>> = LazyLock::new(|| Cache::new(MAX_CACHED));

impl RequestMetrics {
    /// The metrics of these labels. Durations and bytes are split by some of them only: a
    /// histogram has many series for each set of labels.
    pub(crate) fn of(api: Api, labels: &[Label<'_>]) -> Arc<Self> {
        thread_local! {
            /// Most requests have the same labels as the one before. Threads
            /// would wait for each other at the table.
            static LAST: RefCell<Option<Arc<RequestMetrics>>> = const { RefCell::new(None) };
        }
        let borrowed = Borrowed(api, labels);
        LAST.with_borrow_mut(|last| match last {
            Some(metrics) if borrowed.equivalent(&metrics.key) => Arc::clone(metrics),
            _ => {
                let metrics = Self::cached(&borrowed);
                *last = Some(Arc::clone(&metrics));
                metrics
            }
        })
    }

    /// Counts a request whose response is ready to send after `seconds`.
    pub(crate) fn count(&self, seconds: f64) {
        self.requests.increment(1);
        self.seconds.record(seconds);
    }

    /// Counts bytes of its response that were sent.
    pub(crate) fn count_sent(&self, bytes: u64) {
        self.sent.increment(bytes);
    }

    fn cached(borrowed: &Borrowed<'_>) -> Arc<Self> {
        if let Some(metrics) = CACHE.get(borrowed) {
            return metrics;
        }
        let Borrowed(api, labels) = borrowed;
        let labels = labels
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        let metrics = Arc::new(Self::register(Key(*api, labels.collect())));
        // Another thread may have inserted the same handles: both count alike.
        CACHE.insert(metrics.key.clone(), Arc::clone(&metrics));
        metrics
    }

    fn register(key: Key) -> Self {
        let Key(api, labels) = &key;
        let names = match api {
            Api::Http => [
                "almanac_http_requests_total",
                "almanac_http_request_seconds",
                "almanac_http_sent_bytes_total",
            ],
            Api::Grpc => [
                "almanac_grpc_requests_total",
                "almanac_grpc_request_seconds",
                "almanac_grpc_sent_bytes_total",
            ],
        };
        let [requests, seconds, sent] = names;
        let (of_seconds, of_sent): (&[&str], &[&str]) = match api {
            Api::Http => (&["route", "catalog"], &["route", "catalog", "encoding"]),
            Api::Grpc => (&["method", "catalog"], &["method", "catalog"]),
        };
        let some = |names: &[&str]| -> Vec<(&'static str, String)> {
            let labels = labels.iter().filter(|(name, _)| names.contains(name));
            labels.cloned().collect()
        };
        Self {
            requests: counter!(requests, &labels[..]),
            seconds: histogram!(seconds, &some(of_seconds)),
            sent: counter!(sent, &some(of_sent)),
            key,
        }
    }
}

impl Equivalent<Key> for Borrowed<'_> {
    fn equivalent(&self, Key(api, labels): &Key) -> bool {
        let mut pairs = self.1.iter().zip(labels);
        self.0 == *api
            && self.1.len() == labels.len()
            && pairs.all(|(one, other)| one.1 == other.1 && one.0 == other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(route: &str, code: u16) -> Arc<RequestMetrics> {
        let code = code.to_string();
        let labels = [
            ("method", "GET"),
            ("route", route),
            ("code", &code),
            ("catalog", "a"),
            ("encoding", "gzip"),
        ];
        RequestMetrics::of(Api::Http, &labels)
    }

    #[test]
    fn handles_are_cached_up_to_a_bound() {
        let first = http("/a", 200);
        assert!(Arc::ptr_eq(&first, &http("/a", 200)));
        let other = http("/a", 404);
        assert!(!Arc::ptr_eq(&first, &other));
        // From the table, since other labels came in between.
        assert!(Arc::ptr_eq(&first, &http("/a", 200)));
        let labels = [
            ("service", "api.Registry"),
            ("method", "GetBundle"),
            ("catalog", "a"),
            ("code", "Ok"),
        ];
        let call = RequestMetrics::of(Api::Grpc, &labels);
        assert!(Borrowed(Api::Grpc, &labels).equivalent(&call.key));
        assert!(!Borrowed(Api::Http, &labels).equivalent(&call.key));
        let codes = 0..u16::try_from(MAX_CACHED).unwrap() * 2;
        let handles = codes.map(|code| Arc::downgrade(&http("/bounded", code)));
        let handles: Vec<_> = handles.collect();
        assert!(CACHE.len() <= MAX_CACHED);
        // Evicted ones are freed. The last one of this thread may be evicted already.
        let alive = handles.iter().filter(|handle| handle.strong_count() > 0);
        assert!(alive.count() <= MAX_CACHED + 1);
    }
}
