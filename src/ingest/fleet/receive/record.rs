//! Makes what clients see what a start serves, and adds it to the history.

use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use crate::ingest::fleet::missed_outlines::bring_outlines;
use crate::ingest::fleet::moments::unless_turned;
use crate::ingest::fleet::receive::Receiver;
use crate::ingest::fleet::track_state::TrackState;
use crate::ingest::{history, pass_events};
use crate::store::StoreError;
use crate::store::fleet::FleetError;

impl Receiver {
    /// Makes what clients see what a start serves: at once, and without the database.
    pub(super) async fn keep_shown(&mut self) -> Result<(), StoreError> {
        let Some(shown) = self.shown.as_ref().filter(|_| !self.is_kept) else {
            return Ok(());
        };
        let (store, revision) = (&self.context.store, &shown.revision);
        let image = shown.image.as_ref();
        let image = image.map(|image| (image.revision, &image.record));
        store.make_current(revision, image).await?;
        self.is_kept = true;
        Ok(())
    }

    /// Adds the shown revision to the history, after the missed ones.
    pub(super) async fn record(&mut self, state: &TrackState) -> Result<(), FleetError> {
        self.keep_shown().await?;
        let Some(shown) = self.shown.as_ref().filter(|_| !self.is_recorded) else {
            return Ok(());
        };
        let (store, revision) = (&self.context.store, &shown.revision);
        let kept = *self.context.history.borrow();
        let most = kept.revisions.saturating_add(kept.days);
        let fleet = self.track.membership().fleet();
        // Missed revisions come before the current one.
        let missed = fleet.fetch_history(store, &revision.catalog, revision.id, most);
        let Some(missed) = unless_turned(&self.track, state, missed).await else {
            // The next generation is recorded soon.
            return Ok(());
        };
        missed?;
        store.serve(revision).await?;
        history::trim(&self.context, revision).await;
        self.is_recorded = true;
        let catalog = revision.catalog.clone();
        let outlines = bring_outlines(self.context.clone(), self.track.clone(), catalog);
        let outlines = tokio::spawn(outlines.in_current_span());
        self.outlines = Some(AbortOnDropHandle::new(outlines));
        Ok(())
    }

    /// Tells webhooks of a revision, if that is for this replica to do: an import has
    /// published it, which may not reach their receivers, or a replica that has died since.
    /// What a pass here has published, it tells itself.
    pub(super) async fn tell_webhooks(&self, state: &TrackState) -> Result<(), FleetError> {
        let shown = self.shown.as_ref().filter(|_| self.is_recorded);
        let (Some(turned), Some(shown), Some(lease)) = (&state.turned, shown, state.lease) else {
            return Ok(());
        };
        let is_of_pass = state.announcing == Some(turned.revision);
        if !turned.untold || is_of_pass || !shown.generation.is_same(turned) {
            return Ok(());
        }
        let revision = &shown.revision;
        let entry = history::entry(&self.context, revision).await;
        let event = pass_events::publication(revision, entry.as_ref());
        let event = (&self.context.webhooks, event);
        if self.track.tell(lease, revision.id, event).await? {
            history::count(revision, entry.as_ref());
        }
        self.track.update(|state| {
            if let Some(now) = state.turned.as_mut().filter(|now| now.is_same(turned)) {
                now.untold = false;
            }
        });
        Ok(())
    }

    /// Removes revisions of passes that failed, and those that were replaced before
    /// clients saw them.
    pub(super) async fn tidy(&self) -> Result<(), FleetError> {
        let Some(shown) = self.shown.as_ref().filter(|_| self.is_recorded) else {
            return Ok(());
        };
        let states = self.track.subscribe();
        let next = self.next.as_ref().map(|next| next.revision.id);
        let is_making = self.is_republishing();
        let is_spare = |id| {
            let state = states.borrow();
            let known = [&state.turned, &state.pending].into_iter().flatten();
            let mut needed = known.map(|one| one.revision).chain(next);
            !state.passing && !is_making && !needed.any(|needed| needed == id)
        };
        let store = &self.context.store;
        Ok(store.retire_spare(&shown.revision, is_spare).await?)
    }
}
