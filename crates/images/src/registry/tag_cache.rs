//! The digests of tags. The last known one is kept for each tag, with the `ETag` that the registry sent, so
//! that a poll can be a conditional request.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use parking_lot::Mutex;
use reqwest::Url;

use crate::digest::Digest;

/// How long a "not modified" is trusted. After that the tag is requested
/// without a condition, in case the registry never changes its `ETag`.
const TRUSTED: Duration = Duration::from_hours(1);
/// The most tags that are kept.
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

/// The tags of all registries. Cheap to clone; clones share the tags.
#[derive(Clone, Default)]
pub(super) struct TagCache {
    tags: Arc<Mutex<HashMap<String, CachedTag>>>,
}

/// The last known digest of a tag.
#[derive(Clone)]
pub(super) struct CachedTag {
    pub(super) etag: HeaderValue,
    pub(super) resolved: Resolved,
    since: Instant,
}

impl TagCache {
    /// The tag at `url`, unless it is unknown or too old.
    pub(super) fn get(&self, url: &Url) -> Option<CachedTag> {
        let tags = self.tags.lock();
        let cached = tags.get(url.as_str())?;
        (cached.since.elapsed() < TRUSTED).then(|| cached.clone())
    }

    /// Keeps the tag, or drops it when there is no `ETag`.
    pub(super) fn set(&self, url: &Url, etag: Option<&HeaderValue>, resolved: &Resolved) {
        let mut tags = self.tags.lock();
        let Some(etag) = etag.filter(|etag| etag.len() <= MAX_ETAG) else {
            tags.remove(url.as_str());
            return;
        };
        if tags.len() >= MAX_TAGS {
            tags.clear();
        }
        let cached = CachedTag {
            etag: etag.clone(),
            resolved: resolved.clone(),
            since: Instant::now(),
        };
        tags.insert(url.to_string(), cached);
    }
}
