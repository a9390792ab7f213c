//! The recorded updates of a catalog up to its served revision, for feeds and pages.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use tokio::runtime::Handle;

use crate::answers::changes::{Change, Kind, changes, counts};
use crate::answers::outline::Outline;
use crate::serve::http::api::problem::Problem;
use crate::snapshot::Snapshot;
use crate::store::{HistoryEntry, MAX_CHANGES, OutlineName, RevisionId, StoreError};
use ::images::digest::Digest;

/// How long a request may read the history.
const LONGEST: Duration = Duration::from_secs(10);
/// The longest search for wanted changes behind the first rows.
const LONGER: Duration = Duration::from_secs(2);

/// Reads the history on a worker: the database has two connections, and passes need
/// them too.
pub(crate) struct Reading {
    runtime: Handle,
    until: Instant,
}

/// The changes that are asked for: all by default.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wanted<'a> {
    /// Those of a package.
    pub(crate) package: Option<&'a str>,
    /// Those of a kind.
    pub(crate) kind: Option<Kind>,
    /// Those of updates since then.
    pub(crate) since: Option<SystemTime>,
}

impl Wanted<'_> {
    /// Whether all changes of an update are asked for.
    fn is_all(&self) -> bool {
        self.package.is_none() && self.kind.is_none()
    }

    fn has(&self, change: &Change) -> bool {
        self.package.is_none_or(|package| change.package == package)
            && self.kind.is_none_or(|kind| change.kind == kind)
    }
}

/// An update with the changes to tell.
pub(crate) struct Update {
    /// The revision that it made, without its recorded changes.
    pub(crate) entry: HistoryEntry,
    /// The revision before.
    pub(crate) before: RevisionId,
    /// The content before.
    pub(crate) content_before: Digest,
    /// The first changes.
    pub(crate) changes: Vec<Change>,
    /// How many changes there are of each kind.
    pub(crate) counts: BTreeMap<Kind, usize>,
    /// How many changes there are.
    pub(crate) total: usize,
}

impl Reading {
    /// Begins on a worker. `runtime` runs the queries of the database.
    pub(crate) fn begin(runtime: Handle) -> Self {
        let until = Instant::now() + LONGEST;
        Self { runtime, until }
    }

    /// All rows, the served revision first, without changes.
    pub(super) fn all(&self, snapshot: &Snapshot) -> Result<Vec<HistoryEntry>, Problem> {
        let history = snapshot.history();
        let mut rows = self.read(history.list(&snapshot.revision().catalog))?;
        drop_unserved(&mut rows, &snapshot.revision().content);
        Ok(rows)
    }

    /// The last `most` updates with wanted changes, the newest first.
    pub(crate) fn updates(
        &self,
        snapshot: &Snapshot,
        most: u32,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Update>, Problem> {
        let (history, catalog) = (snapshot.history(), &snapshot.revision().catalog);
        let mut rows = most.saturating_add(1);
        let begun = Instant::now();
        let mut updates = Vec::new();
        // The outline before one update is the one after the next.
        let mut read = None;
        // The update whose revision before is the next row.
        let mut update: Option<HistoryEntry> = None;
        loop {
            let than = update.as_ref().map(|update| update.revision);
            let mut older = self.read(history.older(catalog, than, rows))?;
            let is_last = older.len() < rows as usize;
            if than.is_none() {
                drop_unserved(&mut older, &snapshot.revision().content);
            }
            for before in older {
                // Asked first, since outlines take time.
                let is_new = |update: &HistoryEntry| {
                    wanted.since.is_none_or(|since| update.committed >= since)
                };
                if let Some(update) = update.take_if(|update| is_new(update)) {
                    updates.extend(self.update(snapshot, (update, &before), wanted, &mut read)?);
                }
                if updates.len() >= most as usize {
                    return Ok(updates);
                }
                update = Some(before);
            }
            let is_old =
                |update: &HistoryEntry| wanted.since.is_some_and(|since| update.committed < since);
            // Only the first rows are read whatever that takes.
            if is_last || update.as_ref().is_none_or(is_old) || begun.elapsed() > LONGER {
                return Ok(updates);
            }
            rows = rows.saturating_mul(4);
        }
    }

    fn read(
        &self,
        reading: impl Future<Output = Result<Vec<HistoryEntry>, StoreError>>,
    ) -> Result<Vec<HistoryEntry>, Problem> {
        let left = self.until.saturating_duration_since(Instant::now());
        let reading = async { tokio::time::timeout(left, reading).await };
        let read = self.runtime.block_on(reading).map_err(|_| too_long())?;
        read.map_err(|error| {
            tracing::error!(%error, "the history cannot be read");
            Problem::internal()
        })
    }

    /// An update, if it changed anything that is asked for.
    fn update(
        &self,
        snapshot: &Snapshot,
        (mut entry, before): (HistoryEntry, &HistoryEntry),
        wanted: Wanted<'_>,
        read: &mut Option<(OutlineName, Outline)>,
    ) -> Result<Option<Update>, Problem> {
        let Some(recorded) = entry.changes.take() else {
            return Ok(None);
        };
        let (mut counted, total) = (recorded.counts.clone(), recorded.total());
        // The row before may have been trimmed; and some of the wanted changes may not be
        // among the recorded ones.
        let is_next = entry.before == Some(before.revision);
        let is_whole = wanted.is_all() || total == recorded.first.len();
        let mut changes = recorded.first;
        if !(is_next && is_whole) {
            if Instant::now() > self.until {
                return Err(too_long());
            }
            if let Some(all) = compared(snapshot, before, &entry, read) {
                counted = counts(&all);
                changes = all;
            }
        }
        if !wanted.is_all() {
            changes.retain(|change| wanted.has(change));
            counted = counts(&changes);
        }
        let total = counted.values().sum();
        changes.truncate(MAX_CHANGES);
        Ok((total > 0).then_some(Update {
            before: before.revision,
            content_before: before.content,
            entry,
            changes,
            counts: counted,
            total,
        }))
    }
}

/// Removes the revisions that are committed, but not served yet. The served one comes
/// first then. It is found by its content: a number changes when a revision is rebuilt.
fn drop_unserved(history: &mut Vec<HistoryEntry>, served: &Digest) {
    let newest = history.iter().position(|one| one.content == *served);
    history.drain(..newest.unwrap_or(history.len()));
}

/// The changes between two revisions, if their outlines are kept. `read` is the
/// outline that was read last, with its name.
fn compared(
    snapshot: &Snapshot,
    from: &HistoryEntry,
    to: &HistoryEntry,
    read: &mut Option<(OutlineName, Outline)>,
) -> Option<Vec<Change>> {
    let history = snapshot.history();
    let after = match read.take() {
        Some((name, outline)) if name == to.outline() => outline,
        _ => history.outline(&to.outline())?,
    };
    let before = history.outline(&from.outline())?;
    let found = changes(&before, &after);
    *read = Some((from.outline(), before));
    Some(found)
}

fn too_long() -> Problem {
    tracing::error!(longest = ?LONGEST, "the history took too long to read");
    Problem::slow_history()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::store::Counts;

    #[test]
    fn a_history_that_takes_too_long_asks_to_come_again() {
        assert_eq!(too_long().status(), 503);
    }

    #[test]
    fn a_revision_that_is_not_served_yet_is_not_told() {
        let row = |content: &[u8]| HistoryEntry {
            revision: serde_json::from_str("1").unwrap(),
            source: String::new(),
            digest: Digest::of(b""),
            content: Digest::of(content),
            committed: SystemTime::UNIX_EPOCH,
            counts: Counts::default(),
            before: None,
            changed: None,
            changes: None,
        };
        for (served, left) in [(&b"new"[..], 3), (b"served", 2), (b"other", 0)] {
            let mut rows = vec![row(b"new"), row(b"served"), row(b"old")];
            drop_unserved(&mut rows, &Digest::of(served));
            assert_eq!(rows.len(), left);
        }
    }
}
