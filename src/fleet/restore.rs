//! Uploads again what the bucket has lost. Names of objects are those of their bytes, so that
//! any replica may do so; the first in rank begins, the others follow if that brings nothing.

use std::time::Duration;

use sqlx::Row as _;
use tokio_util::sync::CancellationToken;

use crate::fleet::error::FleetError;
use crate::fleet::fetch::object;
use crate::fleet::object::{Coding, OUTLINE, Object};
use crate::fleet::ranking::rank;
use crate::fleet::replica::Replica;
use crate::fleet::session::Session;
use crate::fleet::upload::{Upload, blocking, file, part, upload};
use crate::store::{Published, RevisionId, Store};
use ::images::digest::Digest;

/// The time between the tries of two replicas, in the order of their ranks.
const TURN: Duration = Duration::from_secs(5);
/// The most objects that are uploaded before the replicas report again.
const MOST: usize = 100;

/// Where the bytes of an object may be.
struct Place {
    object: Object,
    revision: RevisionId,
    published: Option<Published>,
}

/// Uploads reported objects again, until it is stopped.
pub(super) async fn restore(replica: Replica, stop: CancellationToken) {
    let restoring = async {
        let mut reported = replica.to_restore();
        let mut last: Option<Digest> = None;
        loop {
            let found = reported.wait_for(|(missing, _)| !missing.is_empty()).await;
            let Ok((mut missing, live)) = found.map(|found| found.clone()) else {
                return;
            };
            // After those of the last time: nobody may have their bytes.
            missing.sort_unstable();
            let after = missing.iter().position(|digest| Some(*digest) > last);
            missing.rotate_left(after.unwrap_or(0));
            missing.truncate(MOST);
            last = missing.last().copied();
            for place in 0..live.len().max(1) {
                let still = reported.borrow().0.clone();
                for digest in missing.iter().filter(|digest| still.contains(digest)) {
                    if place_of(*digest, &replica, &live) == place
                        && let Err(error) = upload_again(&replica, *digest).await
                    {
                        tracing::warn!(object = %digest, %error, "cannot upload a lost object again yet");
                    }
                }
                // The replicas that reported them read them again.
                let is_found = reported.wait_for(|(missing, _)| missing.is_empty());
                if tokio::time::timeout(TURN, is_found).await.is_ok() {
                    break;
                }
            }
        }
    };
    stop.run_until_cancelled(restoring).await;
}

/// How many replicas come before this one for an object.
fn place_of(digest: Digest, replica: &Replica, live: &[i32]) -> usize {
    let subject = digest.as_bytes().first_chunk();
    let subject = subject.map_or(0, |bytes| u64::from_be_bytes(*bytes));
    let own = replica.me().map(|me| rank(subject, me));
    let before = live.iter().filter(|id| Some(rank(subject, **id)) < own);
    before.count()
}

async fn upload_again(replica: &Replica, digest: Digest) -> Result<(), FleetError> {
    if !replica.fleet().owns_bucket() {
        return Ok(());
    }
    for place in places(replica.fleet().session(), digest).await? {
        let store = replica.store().clone();
        // What is not here, another replica has.
        let Ok(Some(found)) = blocking(move || Ok(find(&store, &place))).await else {
            continue;
        };
        if found.object.digest == digest {
            replica.fleet().upload_again(found).await?;
            tracing::info!(object = %digest, "a lost object is in the bucket again");
            return Ok(());
        }
    }
    Ok(())
}

/// The generations and revisions of the history that have an object.
async fn places(session: &Session, digest: Digest) -> Result<Vec<Place>, FleetError> {
    let query = sqlx::query(
        "(SELECT o.name, o.digest, o.size, o.coding, g.revision, g.published
          FROM objects o JOIN generations g ON g.number = o.generation
          WHERE o.digest = $1 ORDER BY g.number DESC LIMIT 10)
         UNION ALL
         (SELECT $2, outline, size, 'identity', revision, published FROM history
          WHERE outline = $1 LIMIT 10)",
    );
    let query = query.bind(digest.as_bytes().to_vec()).bind(OUTLINE);
    let rows = session.rows(None, "look for a lost object", query).await?;
    let place = |row: &sqlx::postgres::PgRow| {
        Ok(Place {
            object: object(row)?,
            revision: RevisionId::from_number(row.get("revision")),
            published: serde_json::from_str(row.get("published")).ok(),
        })
    };
    rows.iter().map(place).collect()
}

/// The bytes of an object here. This blocks.
fn find(store: &Store, place: &Place) -> Option<Upload> {
    let name = &place.object.name;
    if *name == OUTLINE {
        let bytes = store.encoded_outline(&place.published.as_ref()?.outline())?;
        return Some(upload(OUTLINE, bytes.into(), Coding::Identity));
    }
    if let Ok(digest) = name.parse() {
        return part(store, &digest).ok();
    }
    file(
        store,
        place.revision,
        name,
        place.object.coding == Coding::Zstd,
    )
    .ok()
}
