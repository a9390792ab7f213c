//! Publishes the content of a track again, with a later date: another configuration of the
//! catalog has shown something later, which clients may have seen.

use crate::ingest::context::PassContext;
use crate::ingest::error::{PassError, Stage};
use crate::ingest::fleet::membership::Track;
use crate::ingest::fleet::share::{MadeRevision, share_revision};
use crate::ingest::followed::Followed;
use crate::ingest::stages::StageTracker;
use crate::store::fleet::{Generation, Lease};

/// Publishes what a track shows again. Its files are on the disk, so no source is needed. A pass
/// that publishes something meanwhile makes it needless.
pub(super) async fn republish(
    context: PassContext,
    followed: Followed,
    (track, lease): (Track, Lease),
    outdated: Generation,
) {
    let publishing = async {
        let (store, failed) = (&context.store, PassError::at(Stage::Share));
        let kept = store.kept(&followed.name, outdated.revision).await;
        // The receiver fetches it first.
        let Some(kept) = kept.map_err(failed)? else {
            return Ok(());
        };
        let last = store.last_number().await;
        let last = last.map_err(PassError::at(Stage::Share))?;
        let number = track.next_revision(last).await;
        let number = number.map_err(PassError::at(Stage::Share))?;
        let again = store.keep_again(&kept, number).await;
        let again = again.map_err(PassError::at(Stage::Share))?;
        let made = MadeRevision {
            revision: &again,
            sources: &[],
            began: None,
            before: None,
        };
        let stages = StageTracker::at(Stage::Share);
        let holding = (&track, lease);
        share_revision(&context, holding, &stages, &followed.source, made).await?;
        tracing::info!(
            revision = %again.id,
            "published again with a later date: another configuration of the catalog has shown \
             something later"
        );
        Ok::<_, PassError>(())
    };
    if let Err(error) = publishing.await {
        tracing::warn!(%error, "the content cannot be published again with a later date yet");
    }
}
