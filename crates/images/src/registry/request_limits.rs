//! Limits on the requests to one registry: how many at once, and none while the
//! registry asks for a pause (`Retry-After`).

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quick_cache::sync::Cache;
use reqwest::Url;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// The most registries that are kept. Further ones replace those used least,
/// whose running requests keep the old limit: they exceed it once.
const MAX_HOSTS: usize = 4096;

/// The limits of all registries. Cheap to clone; clones share the limits.
#[derive(Clone)]
pub(super) struct RequestLimits {
    permits: NonZeroUsize,
    hosts: Arc<Cache<String, Arc<HostLimit>>>,
}

/// The limit of one registry, which is a host and a port.
pub(super) struct HostLimit {
    all: Arc<Semaphore>,
    /// One permit fewer than `all`, where `all` has several: a poll never waits
    /// for the layers of another image.
    blobs: Arc<Semaphore>,
    paused_until: Mutex<Option<Instant>>,
}

/// The permission for one request. Dropping it returns it.
pub(super) struct RequestPermit {
    _all: Option<OwnedSemaphorePermit>,
    _blobs: Option<OwnedSemaphorePermit>,
}

impl RequestLimits {
    /// Limits with this many permits for each registry.
    pub(super) fn new(permits: NonZeroUsize) -> Self {
        Self {
            permits,
            hosts: Arc::new(Cache::new(MAX_HOSTS)),
        }
    }

    /// The limit of the registry that `url` belongs to.
    pub(super) fn of(&self, url: &Url) -> Arc<HostLimit> {
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        let permits = self.permits.get();
        let limit = || {
            Arc::new(HostLimit {
                all: Arc::new(Semaphore::new(permits)),
                blobs: Arc::new(Semaphore::new((permits - 1).max(1))),
                paused_until: Mutex::default(),
            })
        };
        let Ok(limit) = self
            .hosts
            .get_or_insert_with(&format!("{host}:{port}"), || Ok::<_, Infallible>(limit()));
        limit
    }
}

impl HostLimit {
    /// Waits for a permit for a small request: a poll, a manifest.
    pub(super) async fn acquire(&self) -> RequestPermit {
        RequestPermit {
            _all: take_permit(&self.all).await,
            _blobs: None,
        }
    }

    /// Waits for a permit for a blob, which can take long.
    pub(super) async fn acquire_for_blob(&self) -> RequestPermit {
        // The narrower limit first: a waiting blob takes no permit of others.
        let blobs = take_permit(&self.blobs).await;
        RequestPermit {
            _all: take_permit(&self.all).await,
            _blobs: blobs,
        }
    }

    /// Stops requests for a while, as the registry asked.
    pub(super) fn pause_for(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut paused = self.paused_until.lock();
        *paused = Some(paused.map_or(until, |before| before.max(until)));
    }

    /// How much longer requests are stopped.
    pub(super) fn paused(&self) -> Option<Duration> {
        let mut paused = self.paused_until.lock();
        let left = (*paused)?.checked_duration_since(Instant::now());
        let left = left.filter(|left| !left.is_zero());
        if left.is_none() {
            *paused = None;
        }
        left
    }
}

async fn take_permit(semaphore: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    // The semaphore is never closed.
    Arc::clone(semaphore).acquire_owned().await.ok()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn limit(permits: usize) -> Arc<HostLimit> {
        let limits = RequestLimits::new(NonZeroUsize::new(permits).unwrap());
        limits.of(&Url::parse("https://quay.io/v2/").unwrap())
    }

    #[tokio::test]
    async fn blobs_leave_a_permit_for_polls() {
        let limit = limit(2);
        let _blob = limit.acquire_for_blob().await;
        assert!(limit.acquire_for_blob().now_or_never().is_none());
        let poll = limit.acquire().now_or_never();
        assert!(poll.is_some());
        assert!(limit.acquire().now_or_never().is_none());
        drop(poll);
        assert!(limit.acquire().now_or_never().is_some());
    }

    #[tokio::test]
    async fn one_permit_is_enough() {
        let limit = limit(1);
        drop(limit.acquire_for_blob().await);
        let _poll = limit.acquire().await;
        assert!(limit.acquire_for_blob().now_or_never().is_none());
    }

    #[tokio::test]
    async fn each_registry_has_a_limit_of_its_own() {
        let limits = RequestLimits::new(NonZeroUsize::MIN);
        let of = |url: &str| limits.of(&Url::parse(url).unwrap());
        let _permit = of("https://quay.io/v2/a").acquire().await;
        assert!(
            of("https://quay.io:443/v2/b")
                .acquire()
                .now_or_never()
                .is_none()
        );
        assert!(
            of("https://quay.io:8443/v2/b")
                .acquire()
                .now_or_never()
                .is_some()
        );
        assert!(
            of("https://ghcr.io/v2/b")
                .acquire()
                .now_or_never()
                .is_some()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_registry_is_requested_again() {
        let limit = limit(1);
        assert_eq!(limit.paused(), None);
        limit.pause_for(Duration::from_millis(40));
        limit.pause_for(Duration::from_millis(1));
        assert_eq!(limit.paused(), Some(Duration::from_millis(40)));
        tokio::time::sleep(Duration::from_millis(39)).await;
        assert_eq!(limit.paused(), Some(Duration::from_millis(1)));
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(limit.paused(), None);
    }
}
