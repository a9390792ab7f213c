//! Uploads lost objects of the bucket again: the replica that follows a catalog at once, the
//! others a while later, as it may lack their bytes.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::ingest::fleet::membership::Membership;
use crate::store::{RevisionId, Store};

/// The time after the first look at lost objects. It doubles up to the longest one: a
/// bucket that alters each upload gets the same bytes ever more rarely.
const AGAIN: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_mins(20);

/// Uploads lost objects again until it is stopped.
pub(super) async fn upload_lost(membership: Membership, store: Store, stop: CancellationToken) {
    let restoring = async {
        let mut lost = membership.lost();
        let mut pause = AGAIN;
        let mut is_first = true;
        loop {
            let Ok(before) = lost.wait_for(|lost| *lost > 0).await.map(|lost| *lost) else {
                return;
            };
            once(&membership, &store, is_first).await;
            let others = lost.wait_for(|lost| *lost == 0 || *lost > before);
            // Those that nobody has are no reason to wait with others.
            match tokio::time::timeout(pause, others).await {
                Ok(Err(_)) => return,
                Ok(Ok(_)) => (pause, is_first) = (AGAIN, true),
                Err(_) => (pause, is_first) = ((pause * 2).min(LONGEST), false),
            }
        }
    };
    stop.run_until_cancelled(restoring).await;
}

async fn once(membership: &Membership, store: &Store, is_first: bool) {
    if !membership.verification().is_complete() {
        return;
    }
    for ((catalog, _), state) in membership.tracks() {
        let (id, is_held) = {
            let state = state.borrow();
            (state.id, state.lease.is_some())
        };
        let Some(id) = id.filter(|_| is_held || !is_first) else {
            continue;
        };
        let restored = match membership.fleet().restore(store, &catalog, id).await {
            Ok(restored) => restored,
            Err(error) => {
                tracing::warn!(%catalog, %error, "cannot upload lost objects again yet");
                continue;
            }
        };
        if restored.any {
            tracing::info!(%catalog, "lost objects are in the bucket again");
        }
        // By then the others have uploaded theirs.
        if !is_held || is_first {
            continue;
        }
        if !restored.without_copy.is_empty() {
            tracing::warn!(
                %catalog, revisions = listed(&restored.without_copy),
                "the bucket has lost objects of these revisions, and this replica has no copy: \
                 another one uploads them, or the next revision brings others"
            );
        }
        if !restored.without_outline.is_empty() {
            tracing::warn!(
                %catalog, revisions = listed(&restored.without_outline),
                "the bucket has lost outlines of these revisions, and this replica has none: their \
                 changes are not told until another one uploads them"
            );
        }
    }
}

fn listed(revisions: &[RevisionId]) -> String {
    let revisions = revisions.iter().map(ToString::to_string);
    revisions.collect::<Vec<_>>().join(", ")
}
