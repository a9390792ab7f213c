//! Changes of a new revision, for the log and the metrics. The history is trimmed.

use crate::answers::changes::in_words;
use crate::ingest::catalog_metrics::count_changes;
use crate::ingest::context::PassContext;
use crate::store::{HistoryEntry, RecordedChanges, Revision};

/// The place of a revision that was just published in its history.
pub(super) async fn entry(context: &PassContext, revision: &Revision) -> Option<HistoryEntry> {
    let history = context.store.history().latest(&revision.catalog, 1).await;
    let latest = history.inspect_err(|error| tracing::warn!(%error, "cannot read the history"));
    let latest = latest.ok()?.into_iter().next();
    latest.filter(|latest| latest.revision == revision.id)
}

/// Counts the changes of a revision.
pub(super) fn count(revision: &Revision, entry: Option<&HistoryEntry>) {
    if let Some(changes) = entry.and_then(|entry| entry.changes.as_ref()) {
        count_changes(&revision.catalog, &changes.counts);
    }
}

/// Trims the history of a catalog.
pub(super) async fn trim(context: &PassContext, revision: &Revision) {
    let kept = *context.history.borrow();
    if let Err(error) = context.store.trim_history(&revision.catalog, kept).await {
        tracing::warn!(%error, "cannot trim the history");
    }
}

/// The changes in a few words, for the log.
pub(super) fn words(changes: &RecordedChanges) -> String {
    if changes.counts.is_empty() {
        return "none".to_owned();
    }
    in_words(&changes.counts)
}
