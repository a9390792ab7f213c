//! Tells webhooks of publications in a fleet: one replica does so, once.

use crate::ingest::fleet::membership::Track;
use crate::store::RevisionId;
use crate::store::fleet::{FleetError, Lease};
use crate::webhooks::{Event, Webhooks};

impl Track {
    /// Tells webhooks of a revision, unless a replica has done so. Whether this one did.
    ///
    /// # Errors
    /// When the database does not take the claim: whoever follows the catalog tells later.
    pub(in crate::ingest) async fn tell(
        &self,
        lease: Lease,
        revision: RevisionId,
        (webhooks, event): (&Webhooks, Event),
    ) -> Result<bool, FleetError> {
        let (fleet, webhooks) = (self.membership().fleet().clone(), webhooks.clone());
        // A task of its own: a caller that is dropped after the claim would lose the event.
        let telling = tokio::spawn(async move {
            let is_claimed = fleet.claim_event(lease, revision).await?;
            if is_claimed {
                webhooks.send(event);
            }
            Ok(is_claimed)
        });
        // A panic has been logged.
        telling.await.unwrap_or(Ok(false))
    }

    /// Notes the revision that a pass here announces, and tells of itself.
    pub(in crate::ingest) fn announces(&self, revision: RevisionId) {
        self.update(|state| state.announcing = Some(revision));
    }
}
