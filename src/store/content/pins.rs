//! Which blobs passes need, and which of them fetches each.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::OwnedMutexGuard;

use ::images::digest::Digest;

/// Keeps a blob in the store while a pass needs it and no row names it yet.
pub struct BlobPin {
    digest: Digest,
    pins: Pins,
}

/// How many passes need each blob. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub(super) struct Pins(Arc<Mutex<HashMap<Digest, usize>>>);

impl Pins {
    pub(super) fn pin(&self, digest: Digest) -> BlobPin {
        *self.0.lock().entry(digest).or_default() += 1;
        BlobPin {
            digest,
            pins: self.clone(),
        }
    }

    /// Nobody pins or releases a blob while the guard lives.
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<Digest, usize>> {
        self.0.lock()
    }
}

impl BlobPin {
    /// The blob.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

impl Drop for BlobPin {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = self.pins.0.lock().entry(self.digest) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// The right to fetch a blob: when several passes need the same one, the first
/// fetches it, and the others find it once they get the claim.
pub struct BlobClaim {
    digest: Digest,
    claims: Claims,
    guard: Option<OwnedMutexGuard<()>>,
}

/// Which blobs are being fetched, and who waits. Cheap to clone; all clones
/// are one.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims(Arc<Mutex<HashMap<Digest, Arc<tokio::sync::Mutex<()>>>>>);

impl Claims {
    pub(super) async fn claim(&self, digest: Digest) -> BlobClaim {
        let mutex = Arc::clone(self.0.lock().entry(digest).or_default());
        // Made before the wait, so that its drop also removes the entry of an
        // abandoned wait.
        let mut claim = BlobClaim {
            digest,
            claims: self.clone(),
            guard: None,
        };
        claim.guard = Some(mutex.lock_owned().await);
        claim
    }
}

impl Drop for BlobClaim {
    fn drop(&mut self) {
        self.guard = None;
        if let Entry::Occupied(entry) = self.claims.0.lock().entry(self.digest)
            && Arc::strong_count(entry.get()) == 1
        {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn one_pass_fetches_a_blob_that_several_need() {
        let claims = Claims::default();
        let digest = Digest::of(b"blob");
        let first = claims.claim(digest).await;
        assert!(claims.claim(digest).now_or_never().is_none());
        assert!(claims.claim(Digest::of(b"other")).now_or_never().is_some());
        drop(first);
        assert!(claims.claim(digest).now_or_never().is_some());
        assert!(claims.0.lock().is_empty());
    }

    #[test]
    fn a_blob_is_pinned_until_its_last_pin_is_dropped() {
        let pins = Pins::default();
        let digest = Digest::of(b"blob");
        let (first, second) = (pins.pin(digest), pins.pin(digest));
        drop(first);
        assert!(pins.lock().contains_key(&digest));
        drop(second);
        assert!(pins.lock().is_empty());
    }
}
