//! What tags stood for, and the `ETag`s the registry gave for that, so that a
//! poll can ask whether anything else holds by now.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderValue;
use reqwest::Url;

use crate::registry::client::Resolved;

/// How long a "not modified" is believed: then the tag is asked for as if for
/// the first time, in case the registry never gives another `ETag`.
const BELIEVED: Duration = Duration::from_hours(1);
/// The most tags that are remembered.
const MAX_TAGS: usize = 4096;
/// The longest `ETag` that is kept, in bytes.
const MAX_ETAG: usize = 1024;

/// The tags of all registries. Cheap to clone; clones share what they know.
#[derive(Clone, Default)]
pub(crate) struct KnownTags {
    tags: Arc<Mutex<HashMap<String, Known>>>,
}

/// What a tag stood for.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) etag: HeaderValue,
    pub(crate) resolved: Resolved,
    since: Instant,
}

impl KnownTags {
    /// What the tag at `url` stood for, when that may be asked about.
    pub(crate) fn get(&self, url: &Url) -> Option<Known> {
        let tags = self.lock();
        let known = tags.get(url.as_str())?;
        (known.since.elapsed() < BELIEVED).then(|| known.clone())
    }

    /// Keeps, or forgets when there is no `ETag`, what the tag stands for.
    pub(crate) fn set(&self, url: &Url, etag: Option<&HeaderValue>, resolved: &Resolved) {
        let mut tags = self.lock();
        let Some(etag) = etag.filter(|etag| etag.len() <= MAX_ETAG) else {
            tags.remove(url.as_str());
            return;
        };
        if tags.len() >= MAX_TAGS {
            tags.clear();
        }
        let known = Known {
            etag: etag.clone(),
            resolved: resolved.clone(),
            since: Instant::now(),
        };
        tags.insert(url.to_string(), known);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.tags.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
