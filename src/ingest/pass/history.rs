//! Changes of a new revision, for the log and the metrics. The history is trimmed.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::answers::changes::in_words;
use crate::ingest::catalog_metrics::count_changes;
use crate::ingest::context::PassContext;
use crate::store::{HistoryEntry, RecordedChanges, Revision, Store};

/// The time between two removals of outlines that were too young before.
const TRIM: Duration = Duration::from_mins(10);

/// The place of a revision that was just published in its history.
pub(crate) async fn entry(context: &PassContext, revision: &Revision) -> Option<HistoryEntry> {
    let history = context.store.history().latest(&revision.catalog, 1).await;
    let latest = history.inspect_err(|error| tracing::warn!(%error, "cannot read the history"));
    let latest = latest.ok()?.into_iter().next();
    latest.filter(|latest| latest.revision == revision.id)
}

/// Counts the changes of a revision.
pub(crate) fn count(revision: &Revision, entry: Option<&HistoryEntry>) {
    if let Some(changes) = entry.and_then(|entry| entry.changes.as_ref()) {
        count_changes(&revision.catalog, &changes.counts);
    }
}

/// Trims the history of a catalog.
pub(crate) async fn trim(context: &PassContext, revision: &Revision) {
    let kept = *context.history.borrow();
    if let Err(error) = context.store.trim_history(&revision.catalog, kept).await {
        tracing::warn!(%error, "cannot trim the history");
    }
}

/// Removes outlines of trimmed histories once they are old enough, until it is stopped.
pub async fn trim_outlines(store: Store, stop: CancellationToken) {
    let trimming = async {
        loop {
            tokio::time::sleep(TRIM).await;
            if let Err(error) = store.trim_outlines().await {
                tracing::warn!(%error, "cannot trim the history");
            }
        }
    };
    stop.run_until_cancelled(trimming).await;
}

/// The changes in a few words, for the log.
pub(crate) fn words(changes: &RecordedChanges) -> String {
    if changes.counts.is_empty() {
        return "none".to_owned();
    }
    in_words(&changes.counts)
}
