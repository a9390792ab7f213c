//! The objects that a replica did not find in the bucket: it reports them, and the replicas
//! with their bytes upload them again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use ::images::digest::Digest;

/// The most that a replica reports at a time.
const MOST: usize = 1000;
/// How long an object is reported that is not asked for again: it may be needed no more.
const LONGEST: Duration = Duration::from_mins(2);

/// The reported objects of this replica, and when each was last asked for. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Missing(Arc<Mutex<BTreeMap<Digest, Instant>>>);

impl Missing {
    /// Reports an object, or that it was read.
    pub(super) fn set(&self, digest: Digest, is_missing: bool) {
        let mut reported = self.0.lock();
        if !is_missing {
            reported.remove(&digest);
        } else if (reported.len() < MOST || reported.contains_key(&digest))
            && reported.insert(digest, Instant::now()).is_none()
        {
            tracing::error!(
                object = %digest,
                "the bucket has lost an object, or has other bytes in its place: a replica with \
                 its bytes uploads them again"
            );
        }
    }

    /// All that were asked for lately.
    pub(super) fn all(&self) -> Vec<Digest> {
        let mut reported = self.0.lock();
        reported.retain(|_, asked| asked.elapsed() < LONGEST);
        reported.keys().copied().collect()
    }
}
