//! Fetches outlines that the bucket did not give when their revisions were learnt of. Nobody
//! waits for them but those who ask for changes.

use crate::ingest::context::PassContext;
use crate::ingest::fleet::fleet_metrics;
use crate::ingest::fleet::membership::Track;
use crate::ingest::retry;
use crate::name::CatalogName;

/// Tries until the history of a catalog has all outlines that the fleet has.
pub(super) async fn bring_outlines(context: PassContext, track: Track, catalog: CatalogName) {
    let fleet = track.membership().fleet();
    let mut failures = 0;
    while let Err(error) = fleet.fetch_missed_outlines(&context.store, &catalog).await {
        fleet_metrics::failed(&error);
        tracing::debug!(%error, "outlines of the history are fetched later");
        failures += 1;
        tokio::time::sleep(retry::retry(failures, None, None)).await;
    }
}
