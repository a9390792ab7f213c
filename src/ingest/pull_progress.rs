//! Log lines about a pull that takes long.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::ingest::error::{PassError, Stage};
use crate::ingest::stages::blocking;
use crate::name::CatalogName;
use crate::store::content::{Contents, Tally};
use ::images::Descriptor;

/// The time between two lines. Shorter pulls have none.
const EVERY: Duration = Duration::from_secs(10);

/// The same blobs; bytes that are written there for a catalog are logged from time to
/// time.
pub(super) fn logged(contents: &Contents, catalog: &CatalogName) -> Contents {
    let catalog = catalog.clone();
    let tally = telling(EVERY, move |bytes, of| {
        let percent = bytes.saturating_mul(100).checked_div(of).unwrap_or(0);
        tracing::info!(%catalog, bytes, of, percent = percent.min(100), "pulling");
    });
    contents.clone().with_tally(tally)
}

/// Expects the bytes of the blobs that are not stored.
pub(super) async fn expect(store: &Contents, blobs: &[Descriptor]) -> Result<(), PassError> {
    let (store, blobs) = (store.clone(), blobs.to_vec());
    blocking(Stage::Pull, move || {
        let missing = blobs
            .iter()
            .filter(|blob| store.blob(&blob.digest).is_none());
        let sizes = missing.map(|blob| blob.size);
        store.tally().expect(sizes.fold(0, u64::saturating_add));
        Ok(())
    })
    .await
}

/// Calls `tell` with the bytes so far and those expected, at most once in `every`.
fn telling(every: Duration, tell: impl Fn(u64, u64) + Send + Sync + 'static) -> Tally {
    let last = Mutex::new(Instant::now());
    Tally::new(move |bytes, of| {
        // Another thread tells at this moment.
        let Some(mut last) = last.try_lock() else {
            return;
        };
        if last.elapsed() >= every {
            *last = Instant::now();
            tell(bytes, of);
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use ::images::digest::Digest;

    /// Reports about a blob of ten bytes, written in two pieces.
    async fn told(every: Duration) -> Vec<(u64, u64)> {
        let folder = tempfile::tempdir().unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let telling_to = Arc::clone(&told);
        let tally = telling(every, move |bytes, of| telling_to.lock().push((bytes, of)));
        let store = Contents::open(folder.path().join("sha256")).unwrap();
        let stored = Digest::of(b"stored");
        store.import(stored, &b"stored"[..]).await.unwrap();
        let store = store.with_tally(tally);
        let digest = Digest::of(b"0123456789");
        let blob = |digest, size| Descriptor {
            digest,
            size,
            media_type: String::new(),
        };
        let blobs = [blob(digest, 10), blob(stored, 6)];
        expect(&store, &blobs).await.unwrap();
        let mut writer = store.write_blob(digest).unwrap();
        writer.write(b"01234").unwrap();
        writer.write(b"56789").unwrap();
        writer.finish().await.unwrap();
        std::mem::take(&mut *told.lock())
    }

    #[tokio::test]
    async fn a_pull_is_told_of_its_missing_bytes_from_time_to_time() {
        assert_eq!(told(Duration::ZERO).await, [(5, 10), (10, 10)]);
        assert_eq!(told(Duration::from_hours(1)).await, []);
    }
}
