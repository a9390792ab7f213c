//! The digests of tags. The last known one is kept for each tag, with the `ETag`
//! that the registry sent, so that a poll can be a conditional request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use quick_cache::sync::Cache;
use reqwest::Url;

use crate::digest::Digest;

/// How long a "not modified" is trusted. After that the tag is requested
/// without a condition, in case the registry never changes its `ETag`.
const TRUSTED: Duration = Duration::from_hours(1);
/// The most tags that are kept. Further ones replace those used least.
const MAX_TAGS: usize = 4096;
/// The longest `ETag` that is kept, in bytes.
const MAX_ETAG: usize = 1024;

/// The current target of a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The digest of the manifest, or of the index if the reference names one.
    pub digest: Digest,
    /// Its media type, if the registry sent it.
    pub media_type: Option<String>,
    /// Its size in bytes, if the registry sent it.
    pub size: Option<u64>,
}

impl From<Digest> for Resolved {
    fn from(digest: Digest) -> Self {
        Self {
            digest,
            media_type: None,
            size: None,
        }
    }
}

/// The tags of all registries. Cheap to clone; clones share the tags.
#[derive(Clone)]
pub(super) struct TagCache(Arc<Cache<String, CachedTag>>);

/// The last known digest of a tag.
#[derive(Clone)]
pub(super) struct CachedTag {
    pub(super) etag: HeaderValue,
    pub(super) resolved: Resolved,
    since: Instant,
}

impl TagCache {
    pub(super) fn new() -> Self {
        Self(Arc::new(Cache::new(MAX_TAGS)))
    }

    /// The tag at `url`, unless it is unknown or too old.
    pub(super) fn get(&self, url: &Url) -> Option<CachedTag> {
        let cached = self.0.get(url.as_str())?;
        (cached.since.elapsed() < TRUSTED).then_some(cached)
    }

    /// Keeps the tag, or drops it when there is no `ETag`.
    pub(super) fn set(&self, url: &Url, etag: Option<&HeaderValue>, resolved: &Resolved) {
        let Some(etag) = etag.filter(|etag| etag.len() <= MAX_ETAG) else {
            self.0.remove(url.as_str());
            return;
        };
        let cached = CachedTag {
            etag: etag.clone(),
            resolved: resolved.clone(),
            since: Instant::now(),
        };
        self.0.insert(url.to_string(), cached);
    }
}
