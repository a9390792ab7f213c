//! Work on a revision after it is published, outside of passes: its lines in other
//! encodings, and its GraphQL schema.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use metrics::{gauge, histogram};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::snapshot::{Catalog, Catalogs, Snapshot};
use crate::store::{Encoded, Encoding, RevisionId, Store, StoreError};

/// The label of this stage, which is no stage of a pass.
const STAGE: &str = "encode";
/// The time until a failed encoding is tried again: the disk may have room then.
const AGAIN: Duration = Duration::from_mins(10);
/// The priority (`nice`): the lowest, so that the work uses idle processors.
#[cfg(target_os = "linux")]
const NICE: i32 = 19;

/// Completes each published revision, until it is stopped.
pub async fn encode(store: Store, catalogs: Catalogs, stop: CancellationToken) {
    // Beside each other: nobody who asks for a selection waits for the whole of another
    // catalog.
    tokio::join!(
        encode_as(&store, &catalogs, &[Encoding::Segments], &stop),
        encode_as(&store, &catalogs, &Encoding::WHOLE, &stop),
    );
}

/// Makes some encodings of each published revision, one file at a time.
async fn encode_as(
    store: &Store,
    catalogs: &Catalogs,
    encodings: &[Encoding],
    stop: &CancellationToken,
) {
    let mut publications = catalogs.publications();
    let mut failed = Failed::new();
    loop {
        failed.retain(|_, since| since.elapsed() < AGAIN);
        publications.borrow_and_update();
        let all = catalogs.all();
        for catalog in &all {
            describe(catalog);
        }
        for catalog in &all {
            let Some(snapshot) = catalog.snapshot() else {
                continue;
            };
            for encoding in encodings {
                if *encoding != Encoding::Segments {
                    until_segments(&catalogs.all(), stop).await;
                }
                complete(store, catalog, &snapshot, *encoding, &mut failed, stop).await;
                snapshot.end_encoding(*encoding);
            }
        }
        tokio::select! {
            changed = publications.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(again(&failed)), if !failed.is_empty() => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Waits until no catalog lacks segments: most requests need those, and a start is ready
/// with them. They take all processors for less than a second.
async fn until_segments(all: &[Arc<Catalog>], stop: &CancellationToken) {
    let snapshots = all.iter().filter_map(|catalog| catalog.snapshot());
    let waiting = async {
        for snapshot in snapshots {
            snapshot.until_encoded(Encoding::Segments).await;
        }
    };
    stop.run_until_cancelled(waiting).await;
}

/// Encodings that failed, and when.
type Failed = HashMap<(RevisionId, Encoding), Instant>;

/// The time until the first of them is tried again.
fn again(failed: &Failed) -> Duration {
    let waited = failed.values().map(Instant::elapsed).max();
    AGAIN.saturating_sub(waited.unwrap_or_default())
}

/// Makes one encoding of a catalog's current revision, unless it has it.
async fn complete(
    store: &Store,
    catalog: &Catalog,
    snapshot: &Arc<Snapshot>,
    encoding: Encoding,
    failed: &mut Failed,
    stop: &CancellationToken,
) {
    let key = (snapshot.revision().id, encoding);
    if stop.is_cancelled() || snapshot.encoded(encoding).is_some() || failed.contains_key(&key) {
        return;
    }
    let started = Instant::now();
    let work = {
        let (store, catalog) = (store.clone(), catalog.clone());
        let (snapshot, stop) = (Arc::clone(snapshot), stop.clone());
        move || make(&store, &catalog, &snapshot, encoding, &stop)
    };
    let made = match aside(work).await {
        Some(Ok(Some(encoded))) => {
            let recorded = store.record_files(key.0, &encoded.sums).await;
            Some(recorded.map(|()| Some(encoded.file)))
        }
        other => other.map(|made| made.map(|_| None)),
    };
    match made {
        Some(Ok(Some(file))) => {
            if !snapshot.set_encoded(encoding, Some(file)) {
                tracing::error!(
                    catalog = %catalog.name,
                    encoding = encoding.as_str(),
                    "what was encoded does not belong to the catalog"
                );
                failed.insert(key, Instant::now());
                return;
            }
            histogram!("almanac_stage_seconds", "stage" => STAGE)
                .record(started.elapsed().as_secs_f64());
            describe(catalog);
            tracing::debug!(
                catalog = %catalog.name,
                encoding = encoding.as_str(),
                elapsed = ?started.elapsed(),
                "encoded"
            );
        }
        // Nothing is made of nothing.
        Some(Ok(None)) if snapshot.decoded().length == 0 => forget(snapshot, encoding),
        // Another revision was published, or almanac stops. The next revision gets what
        // this one got.
        Some(Ok(None)) => {}
        // Clients get a larger response until it is tried again.
        Some(Err(error)) => {
            tracing::warn!(
                catalog = %catalog.name,
                encoding = encoding.as_str(),
                %error,
                "the catalog could not be encoded"
            );
            forget(snapshot, encoding);
            failed.insert(key, Instant::now());
        }
        None => {
            forget(snapshot, encoding);
            failed.insert(key, Instant::now());
        }
    }
}

/// Forgets what an earlier snapshot has of an encoding: files that were removed keep
/// their room while they are open.
fn forget(snapshot: &Snapshot, encoding: Encoding) {
    snapshot.set_encoded(encoding, None);
    if encoding == Encoding::Gzip {
        snapshot.set_groups(None);
    }
}

fn make(
    store: &Store,
    catalog: &Catalog,
    snapshot: &Arc<Snapshot>,
    encoding: Encoding,
    stop: &CancellationToken,
) -> Result<Option<Encoded>, StoreError> {
    if encoding == Encoding::Zstd {
        snapshot.prepare_graphql();
    }
    let go_on = || {
        let served = catalog.snapshot();
        !stop.is_cancelled() && served.is_some_and(|served| Arc::ptr_eq(&served, snapshot))
    };
    let made = store.encode(
        snapshot.revision(),
        encoding,
        snapshot.plain(encoding),
        go_on,
    );
    if encoding == Encoding::Gzip
        && let Ok(Some(encoded)) = &made
    {
        let (id, packed) = (snapshot.revision().id, encoded.file.bytes.clone());
        snapshot.set_groups(store.groups(id, snapshot.lines(), packed));
    }
    made
}

/// Runs work on a thread of low priority. `None` when it panicked, which the
/// panic hook has logged.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, result) = oneshot::channel();
    let span = tracing::Span::current();
    let run = move || {
        // For this thread alone, on Linux. Without the right to do so the work
        // keeps the usual priority.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::setpriority_process(None, NICE);
        let _ = sender.send(span.in_scope(work));
    };
    std::thread::Builder::new()
        .name("encode".into())
        .spawn(run)
        .ok()?;
    result.await.ok()
}

/// Sets the gauges of the size in each encoding; 0 for missing ones.
fn describe(catalog: &Catalog) {
    let Some(snapshot) = catalog.snapshot() else {
        return;
    };
    for encoding in Encoding::ALL {
        let bytes = snapshot.encoded(encoding).map_or(0, |file| file.len());
        gauge!(
            "almanac_catalog_encoded_bytes",
            "catalog" => catalog.name.to_string(),
            "encoding" => encoding.as_str()
        )
        .set(bytes as f64);
    }
}
