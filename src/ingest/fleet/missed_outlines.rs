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
    while let Err(error) = fleet.complete_history(&context.store, &catalog).await {
        failures += 1;
        if failures == 1 {
            fleet_metrics::failed(&error);
            tracing::warn!(%error, "the history lacks outlines, which are fetched again");
        } else {
            tracing::debug!(%error, "the history still lacks outlines");
        }
        tokio::time::sleep(retry::retry(failures, None, None)).await;
    }
}
