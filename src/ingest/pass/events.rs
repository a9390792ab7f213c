//! The events of one catalog: what webhooks are told about its passes.

use std::time::SystemTime;

use ::images::digest::Digest;

use crate::ingest::context::PassContext;
use crate::ingest::error::PassError;
use crate::name::CatalogName;
use crate::store::{HistoryEntry, Revision, RevisionId};
use crate::webhooks::{Event, EventData, EventKind, Failure, Publication, Recovery, Update};

/// Tells webhooks what passes found. A failure that repeats is told once.
#[derive(Debug, Default)]
pub(crate) struct PassEvents {
    /// The failures since the last pass that succeeded.
    failing: Option<Failing>,
}

/// Failures in a row.
#[derive(Debug)]
struct Failing {
    /// When the first one ended.
    since: SystemTime,
    /// The refusal that was told last.
    refused: Option<Told>,
    /// The other failure that was told last.
    failed: Option<Told>,
    /// The kind that was told last.
    last: EventKind,
}

/// The identity of a failure: the stage, the reason and the digest.
type Told = (&'static str, &'static str, Option<Digest>);

impl PassEvents {
    /// A pass ended with this digest of the source, and this revision is served.
    pub(crate) fn succeeded(
        &mut self,
        context: &PassContext,
        catalog: &CatalogName,
        digest: Option<Digest>,
        serving: Option<RevisionId>,
    ) {
        let Some(failing) = self.failing.take() else {
            return;
        };
        let since = humantime::format_rfc3339_millis(failing.since);
        let refused = failing.refused.map(|_| EventKind::Refused);
        let failed = failing.failed.map(|_| EventKind::Failed);
        context.webhooks.send(Event {
            catalog: catalog.clone(),
            digest,
            data: EventData::Recovered(Recovery {
                after: failing.last.as_str(),
                told: refused.into_iter().chain(failed).collect(),
                since: since.to_string(),
                serving: serving.map(|revision| revision.to_string()),
            }),
        });
    }

    /// A pass failed, and this revision is still served.
    pub(crate) fn failed(
        &mut self,
        context: &PassContext,
        catalog: &CatalogName,
        digest: Option<Digest>,
        error: &PassError,
        serving: Option<RevisionId>,
    ) {
        let is_refused = error.is_refusal();
        let kind = if is_refused {
            EventKind::Refused
        } else {
            EventKind::Failed
        };
        let failing = self.failing.get_or_insert_with(|| Failing {
            since: SystemTime::now(),
            refused: None,
            failed: None,
            last: kind,
        });
        failing.last = kind;
        let told = if is_refused {
            &mut failing.refused
        } else {
            &mut failing.failed
        };
        let found = (error.stage.as_str(), error.reason(), digest);
        if told.replace(found) == Some(found) {
            return;
        }
        let failure = Failure {
            stage: error.stage.as_str(),
            reason: error.reason(),
            error: error.to_string(),
            serving: serving.map(|revision| revision.to_string()),
        };
        context.webhooks.send(Event {
            catalog: catalog.clone(),
            digest,
            data: if is_refused {
                EventData::Refused(failure)
            } else {
                EventData::Failed(failure)
            },
        });
    }
}

/// The event that a revision is served now. `entry` is its place in the history.
pub(crate) fn publication(revision: &Revision, entry: Option<&HistoryEntry>) -> Event {
    let counts = &revision.counts;
    let changes = entry.and_then(|entry| {
        let changes = entry.changes.as_ref()?;
        Some(Update {
            from: entry.before.map(|before| before.to_string()),
            total: changes.total(),
            counts: changes.counts.clone(),
            first: changes.first.clone(),
        })
    });
    Event {
        catalog: revision.catalog.clone(),
        digest: Some(revision.digest),
        data: EventData::Published(Publication {
            revision: revision.id.to_string(),
            content: revision.content,
            packages: counts.packages,
            channels: counts.channels,
            bundles: counts.bundles,
            quarantined: counts.quarantined,
            changes,
        }),
    }
}
