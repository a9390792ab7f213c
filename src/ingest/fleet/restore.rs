//! Uploads lost objects of the bucket again, for the catalogs that this replica follows.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::ingest::fleet::membership::Membership;
use crate::store::Store;

/// The time after the first look at lost objects. It doubles up to the longest one: a
/// bucket that alters each upload gets the same bytes ever more rarely.
const AGAIN: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_mins(20);

/// Uploads lost objects again until it is stopped.
pub(super) async fn upload_lost(membership: Membership, store: Store, stop: CancellationToken) {
    let restoring = async {
        let mut lost = membership.lost();
        let mut pause = AGAIN;
        loop {
            let Ok(before) = lost.wait_for(|lost| *lost > 0).await.map(|lost| *lost) else {
                return;
            };
            once(&membership, &store).await;
            let others = lost.wait_for(|lost| *lost == 0 || *lost > before);
            // Those that nobody has are no reason to wait with others.
            pause = match tokio::time::timeout(pause, others).await {
                Ok(Err(_)) => return,
                Ok(Ok(_)) => AGAIN,
                Err(_) => (pause * 2).min(LONGEST),
            };
        }
    };
    stop.run_until_cancelled(restoring).await;
}

async fn once(membership: &Membership, store: &Store) {
    if !membership.verification().is_complete() {
        return;
    }
    for ((catalog, _), state) in membership.tracks() {
        let lease = state.borrow().lease;
        let Some(lease) = lease else { continue };
        match membership.fleet().restore(store, &catalog, lease).await {
            Ok(true) => tracing::info!(%catalog, "lost objects are in the bucket again"),
            Ok(false) => {}
            Err(error) => tracing::warn!(
                %catalog, %error,
                "cannot upload lost objects again; the next revision brings others"
            ),
        }
    }
}
