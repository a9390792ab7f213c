//! What curated catalogs are made of.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;

use crate::ingest::fleet::membership::Track;
use crate::ingest::fleet::track_state::TrackState;
use crate::name::CatalogName;
use crate::snapshot::Snapshot;
use crate::store::fleet::SourceRevision;

/// How long a pass waits for what it is made of.
const LONGEST: Duration = Duration::from_mins(1);

impl Track {
    /// Waits until the current revisions of the catalogs that it is made of have come to
    /// this replica. Returns the first that has not in time.
    pub(in crate::ingest) async fn until_sources(&self) -> Result<(), CatalogName> {
        let sources = self.subscribe().borrow().sources();
        let waiting = async {
            let mut tracks = self.membership().tracks();
            tracks.retain(|((catalog, _), _)| sources.contains(catalog));
            // At first, there is nothing of them yet. Outdated content is published again soon.
            let has_come = |state: &TrackState| {
                state.is_settled() && state.turned.is_some() && !state.is_outdated()
            };
            // Until all have at once: the first may change while the next one is awaited.
            while !tracks.iter().all(|(_, state)| has_come(&state.borrow())) {
                for (_, state) in &tracks {
                    let _ = state.subscribe().wait_for(has_come).await;
                }
            }
        };
        let _ = tokio::time::timeout(LONGEST, waiting).await;
        let behind = self.membership().behind_with(&sources);
        behind.into_iter().next().map_or(Ok(()), Err)
    }

    /// The revisions that a curated catalog is made of, as the fleet has them.
    pub(in crate::ingest) fn sources(&self, made_of: &[Arc<Snapshot>]) -> Vec<SourceRevision> {
        let tracks = self.membership().tracks();
        let find = |snapshot: &Arc<Snapshot>| {
            let revision = snapshot.revision();
            let mut tracks = tracks.iter();
            let found = tracks.find(|((catalog, _), _)| *catalog == revision.catalog);
            Some(SourceRevision {
                track: found?.1.borrow().id?,
                revision: revision.id,
                content: revision.content.to_string(),
            })
        };
        made_of.iter().filter_map(find).collect()
    }

    /// Waits until this replica knows that one of these revisions was replaced.
    pub(in crate::ingest) async fn until_replaced(&self, sources: &[SourceRevision]) {
        self.membership().nudge();
        let tracks = self.membership().tracks().into_iter();
        let waiting = tracks.filter_map(|(_, state)| {
            let id = state.borrow().id;
            let source = sources.iter().find(|source| Some(source.track) == id)?;
            let mut state = state.subscribe();
            Some(Box::pin(async move {
                let replaced = |state: &TrackState| {
                    let turned = state.turned.as_ref();
                    turned.is_none_or(|turned| !turned.shows(source))
                };
                let _ = state.wait_for(replaced).await;
            }))
        });
        let waiting: Vec<_> = waiting.collect();
        if !waiting.is_empty() {
            let _ = tokio::time::timeout(LONGEST, select_all(waiting)).await;
        }
    }
}
