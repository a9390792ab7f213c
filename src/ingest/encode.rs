//! What is made of a revision once it is served, off the way of every pass:
//! the whole of it in other encodings, and its GraphQL schema.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use metrics::{gauge, histogram};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::snapshot::{Catalog, Catalogs, Snapshot};
use crate::store::{Encoding, RevisionId, Store, StoreError};

/// The label of this stage: no stage of a pass.
const STAGE: &str = "encode";
/// How little the work counts against all other (`nice`): it gets what nobody
/// else wants, and more only of a processor that is at nothing.
#[cfg(target_os = "linux")]
const NICE: i32 = 19;

/// Completes whatever is published, one file at a time, until it is stopped.
pub async fn encode(store: Store, catalogs: Catalogs, stop: CancellationToken) {
    let mut publications = catalogs.publications();
    let mut failed = HashSet::new();
    loop {
        publications.borrow_and_update();
        let all = catalogs.all();
        for catalog in &all {
            describe(catalog);
        }
        for catalog in &all {
            for encoding in Encoding::ALL {
                complete(&store, catalog, encoding, &mut failed, &stop).await;
            }
        }
        tokio::select! {
            changed = publications.changed() => if changed.is_err() { return },
            () = stop.cancelled() => return,
        }
    }
}

/// Makes one encoding of what is served of a catalog, when that lacks it.
async fn complete(
    store: &Store,
    catalog: &Catalog,
    encoding: Encoding,
    failed: &mut HashSet<(RevisionId, Encoding)>,
    stop: &CancellationToken,
) {
    let Some(snapshot) = catalog.snapshot() else {
        return;
    };
    let key = (snapshot.revision().id, encoding);
    if stop.is_cancelled() || snapshot.encoded(encoding).is_some() || failed.contains(&key) {
        return;
    }
    let started = Instant::now();
    let work = {
        let (store, catalog) = (store.clone(), catalog.clone());
        let (snapshot, stop) = (Arc::clone(&snapshot), stop.clone());
        move || make(&store, &catalog, &snapshot, encoding, &stop)
    };
    match aside(work).await {
        Some(Ok(true)) => {
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
        // Another revision came, or the end.
        Some(Ok(false)) => {}
        // Clients get a larger answer: nothing to stop for, and nothing that
        // would go better at once.
        Some(Err(error)) => {
            tracing::warn!(
                catalog = %catalog.name,
                encoding = encoding.as_str(),
                %error,
                "the catalog could not be encoded as a whole"
            );
            failed.insert(key);
        }
        None => {
            failed.insert(key);
        }
    }
}

fn make(
    store: &Store,
    catalog: &Catalog,
    snapshot: &Arc<Snapshot>,
    encoding: Encoding,
    stop: &CancellationToken,
) -> Result<bool, StoreError> {
    snapshot.prepare_graphql();
    let go_on = || {
        let served = catalog.snapshot();
        !stop.is_cancelled() && served.is_some_and(|served| Arc::ptr_eq(&served, snapshot))
    };
    let lines = snapshot.lines();
    let file = store.encode(snapshot.revision(), encoding, &lines, go_on)?;
    Ok(file
        .map(|file| snapshot.add_encoded(encoding, file))
        .is_some())
}

/// Runs work on a thread that counts less than all others. `None` when it
/// panicked, which has been shown.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, result) = oneshot::channel();
    let span = tracing::Span::current();
    let run = move || {
        // Of this thread alone, on Linux. Where it is not allowed the work is
        // done all the same.
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

/// How large what is served of a catalog is in each encoding; 0 in those that
/// are not there.
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
