//! The digests of tags. The last known one is kept for each tag, with the `ETag`
//! that the registry sent, so that a poll can be a conditional request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use quick_cache::sync::Cache;
use reqwest::Url;

use crate::digest::Digest;

/// How long a "not modified" is trusted, and an answer to HEAD is not. After that the
/// tag is requested with HEAD and without a condition, in case the registry never
/// changes its `ETag`, or answers HEAD well by now.
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
pub(super) struct TagCache {
    tags: Arc<Cache<String, (CachedTag, Instant)>>,
    /// Repositories whose registry answers HEAD with digests that it does not have.
    wrong_heads: Arc<Cache<String, Instant>>,
}

/// The last known digest of a tag.
#[derive(Clone)]
pub(super) struct CachedTag {
    pub(super) etag: HeaderValue,
    pub(super) resolved: Resolved,
}

impl TagCache {
    pub(super) fn new() -> Self {
        Self {
            tags: Arc::new(Cache::new(MAX_TAGS)),
            wrong_heads: Arc::new(Cache::new(MAX_TAGS)),
        }
    }

    /// The tag at `url`, unless it is unknown or too old.
    pub(super) fn get(&self, url: &Url) -> Option<CachedTag> {
        let (cached, since) = self.tags.get(url.as_str())?;
        (since.elapsed() < TRUSTED).then_some(cached)
    }

    /// Keeps the tag, or drops it when there is no `ETag`.
    pub(super) fn set(&self, url: &Url, etag: Option<&HeaderValue>, resolved: &Resolved) {
        let Some(etag) = etag.filter(|etag| etag.len() <= MAX_ETAG) else {
            self.tags.remove(url.as_str());
            return;
        };
        let cached = CachedTag {
            etag: etag.clone(),
            resolved: resolved.clone(),
        };
        self.tags.insert(url.to_string(), (cached, Instant::now()));
    }

    /// Notes that HEAD has a wrong answer for the tag at `url`: further tags of its
    /// repository are requested with GET.
    pub(super) fn distrust_head(&self, url: &Url) {
        self.wrong_heads.insert(manifests(url), Instant::now());
    }

    /// Whether HEAD had a wrong answer for a tag of this repository lately.
    pub(super) fn is_head_wrong(&self, url: &Url) -> bool {
        let since = self.wrong_heads.get(&manifests(url));
        since.is_some_and(|since| since.elapsed() < TRUSTED)
    }
}

/// The address of all manifests of a repository.
fn manifests(tag: &Url) -> String {
    let tag = tag.as_str();
    let end = tag.rfind('/').map_or(tag.len(), |slash| slash + 1);
    tag[..end].to_owned()
}
