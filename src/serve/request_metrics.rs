//! The metrics of requests, by their labels: one cache for HTTP, OCI and gRPC.
//!
//! Looking a metric up by its labels takes as long as the rest of a small
//! request. So the handles are cached: first the last ones of each thread, then
//! a bounded table for all threads. An evicted handle is looked up again.

use std::borrow::Cow;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use metrics::{Counter, Histogram, Unit, counter, histogram};
use metrics::{describe_counter, describe_histogram};
use quick_cache::Equivalent;
use quick_cache::sync::Cache;
use tonic::Code;

/// How many sets of labels are cached. There are about ten for each catalog.
const MAX_CACHED: usize = 4096;

/// The labels of a request. Each value is one of few, whatever clients send:
/// unrecognised names are labelled `unknown`, `other` or left empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Labels<'a> {
    /// A request of the HTTP API or of the OCI API.
    Http {
        /// The HTTP method.
        method: &'static str,
        /// The pattern of the route.
        route: Cow<'a, str>,
        /// The HTTP status.
        code: u16,
        /// The catalog, or empty.
        catalog: Cow<'a, str>,
        /// The content encoding.
        encoding: Cow<'a, str>,
    },
    /// A gRPC call.
    Grpc {
        /// The gRPC service.
        service: &'static str,
        /// The gRPC method.
        method: &'static str,
        /// The catalog, or empty.
        catalog: Cow<'a, str>,
        /// The gRPC status.
        code: Code,
    },
}

/// The metrics of requests with the same labels.
pub(crate) struct RequestMetrics {
    labels: Labels<'static>,
    requests: Counter,
    seconds: Histogram,
    /// Bytes of response bodies that were sent.
    sent: Counter,
}

/// A key that can be compared with borrowed labels.
struct Key(Labels<'static>);

/// Labels that may be borrowed, as they are looked up.
struct Borrowed<'a>(&'a Labels<'a>);

static CACHE: LazyLock<Cache<Key, Arc<RequestMetrics>>> = LazyLock::new(|| Cache::new(MAX_CACHED));

impl RequestMetrics {
    /// The metrics of these labels.
    pub(crate) fn of(labels: &Labels<'_>) -> Arc<Self> {
        thread_local! {
            /// Most requests have the same labels as the one before. Threads
            /// would wait for each other at the table.
            static LAST: RefCell<Option<Arc<RequestMetrics>>> = const { RefCell::new(None) };
        }
        LAST.with_borrow_mut(|last| match last {
            Some(metrics) if metrics.labels == *labels => Arc::clone(metrics),
            _ => {
                let metrics = Self::cached(labels);
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

    fn cached(labels: &Labels<'_>) -> Arc<Self> {
        if let Some(metrics) = CACHE.get(&Borrowed(labels)) {
            return metrics;
        }
        let labels = labels.clone().into_owned();
        let metrics = Arc::new(Self::register(labels.clone()));
        // Another thread may have inserted the same handles: both count alike.
        CACHE.insert(Key(labels), Arc::clone(&metrics));
        metrics
    }

    fn register(labels: Labels<'static>) -> Self {
        match &labels {
            Labels::Http {
                method,
                route,
                code,
                catalog,
                encoding,
            } => {
                let pairs = [
                    ("method", (*method).to_owned()),
                    ("route", route.to_string()),
                    ("code", code.to_string()),
                    ("catalog", catalog.to_string()),
                    ("encoding", encoding.to_string()),
                ];
                Self {
                    requests: counter!("almanac_http_requests_total", &pairs),
                    seconds: histogram!("almanac_http_request_seconds", &pairs[1..]),
                    sent: counter!("almanac_http_sent_bytes_total", &pairs[1..]),
                    labels,
                }
            }
            Labels::Grpc {
                service,
                method,
                catalog,
                code,
            } => {
                let pairs = [
                    ("service", (*service).to_owned()),
                    ("method", (*method).to_owned()),
                    ("catalog", catalog.to_string()),
                    ("code", format!("{code:?}")),
                ];
                Self {
                    requests: counter!("almanac_grpc_requests_total", &pairs),
                    seconds: histogram!("almanac_grpc_request_seconds", &pairs[1..]),
                    sent: counter!("almanac_grpc_sent_bytes_total", &pairs[1..]),
                    labels,
                }
            }
        }
    }
}

impl Labels<'_> {
    fn into_owned(self) -> Labels<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        match self {
            Self::Http {
                method,
                route,
                code,
                catalog,
                encoding,
            } => Labels::Http {
                method,
                route: owned(route),
                code,
                catalog: owned(catalog),
                encoding: owned(encoding),
            },
            Self::Grpc {
                service,
                method,
                catalog,
                code,
            } => Labels::Grpc {
                service,
                method,
                catalog: owned(catalog),
                code,
            },
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Hash for Borrowed<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Equivalent<Key> for Borrowed<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *self.0 == key.0
    }
}

/// Describes these metrics.
pub(crate) fn describe_metrics() {
    describe_counter!(
        "almanac_http_requests_total",
        "HTTP requests, by method, route, status code, catalog and content encoding"
    );
    describe_histogram!(
        "almanac_http_request_seconds",
        Unit::Seconds,
        "Time from the arrival of an HTTP request until its response is ready to send"
    );
    describe_counter!(
        "almanac_http_sent_bytes_total",
        Unit::Bytes,
        "Bytes of HTTP response bodies sent"
    );
    describe_counter!(
        "almanac_grpc_requests_total",
        "gRPC calls, by service, method, catalog and status code"
    );
    describe_histogram!(
        "almanac_grpc_request_seconds",
        Unit::Seconds,
        "Time from the arrival of a gRPC call until its response is ready to send"
    );
    describe_counter!(
        "almanac_grpc_sent_bytes_total",
        Unit::Bytes,
        "Bytes of gRPC responses sent"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(route: &str, code: u16) -> Labels<'_> {
        Labels::Http {
            method: "GET",
            route: route.into(),
            code,
            catalog: "a".into(),
            encoding: "gzip".into(),
        }
    }

    #[test]
    fn handles_are_cached_up_to_a_bound() {
        let first = RequestMetrics::of(&http("/a", 200));
        assert!(Arc::ptr_eq(&first, &RequestMetrics::of(&http("/a", 200))));
        let other = RequestMetrics::of(&http("/a", 404));
        assert!(!Arc::ptr_eq(&first, &other));
        // From the table, since other labels came in between.
        assert!(Arc::ptr_eq(&first, &RequestMetrics::of(&http("/a", 200))));
        let call = Labels::Grpc {
            service: "api.Registry",
            method: "GetBundle",
            catalog: "a".into(),
            code: Code::Ok,
        };
        assert_eq!(RequestMetrics::of(&call).labels, call);
        for code in 0..u16::try_from(MAX_CACHED).unwrap() * 2 {
            RequestMetrics::of(&http("/bounded", code));
        }
        assert!(CACHE.len() <= MAX_CACHED);
    }
}
