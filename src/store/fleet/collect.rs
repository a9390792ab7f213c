//! Removes what no replica needs any more.
//!
//! Nothing is removed that a publication may still name. Rows go first, and objects
//! that no row names after a day. These are marked, and go an hour later; whoever
//! needs one meanwhile uploads it under another name.

use sqlx::Row as _;

use crate::store::fleet::connect::Fleet;
use crate::store::fleet::error::FleetError;
use crate::store::fleet::upload::key;
use ::images::digest::Digest;

/// Keeps two replicas from doing the same. Each step is safe beside itself.
const LOCK: i64 = 0x616c_6d61_6e61;
/// The most objects that are removed at once.
const MOST: i64 = 1000;

/// What a collection has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Rows of generations.
    pub generations: u64,
    /// Objects that are marked now.
    pub marked: u64,
    /// Objects that are gone from the bucket.
    pub objects: u64,
}

/// Each with what it does, in this order.
const STEPS: [(&str, &str); 6] = [
    (
        "forget replicas that are gone",
        "DELETE FROM replicas WHERE expires < clock_timestamp() - interval '1 hour'",
    ),
    (
        "note wanted catalogs",
        "UPDATE tracks SET wanted = clock_timestamp() WHERE id IN (
           SELECT unnest(wants) FROM replicas)",
    ),
    (
        "forget catalogs that nobody wants",
        "DELETE FROM tracks WHERE wanted < clock_timestamp() - interval '1 day'",
    ),
    // A pull that began before may still go on, and a replica may lag.
    (
        "forget replaced generations",
        "DELETE FROM generations g WHERE EXISTS (
           SELECT 1 FROM generations n WHERE n.track = g.track AND n.number > g.number
             AND n.flips < clock_timestamp() - interval '1 hour')",
    ),
    // Both are made in one transaction with their first generation.
    (
        "forget images",
        "DELETE FROM images i WHERE NOT EXISTS (
           SELECT 1 FROM generations g WHERE g.image = i.id)",
    ),
    (
        "forget revisions",
        "DELETE FROM revisions r
         WHERE NOT EXISTS (SELECT 1 FROM generations g WHERE g.revision = r.id)
           AND NOT EXISTS (SELECT 1 FROM images i WHERE i.revision = r.id)",
    ),
];

impl Fleet {
    /// Removes what no replica needs. `None` when another replica does so now.
    pub async fn collect(&self) -> Result<Option<Collected>, FleetError> {
        let mut collected = Collected::default();
        let action = "collect";
        let begun = self.pool.begin().await;
        let mut transaction = begun.map_err(FleetError::sql(action))?;
        let alone: bool = sqlx::query_scalar("SELECT pg_try_advisory_xact_lock($1)")
            .bind(LOCK)
            .fetch_one(&mut *transaction)
            .await
            .map_err(FleetError::sql(action))?;
        if !alone {
            return Ok(None);
        }
        for (action, statement) in STEPS {
            let done = sqlx::query(statement).execute(&mut *transaction).await;
            let rows = done.map_err(FleetError::sql(action))?.rows_affected();
            if action == "forget replaced generations" {
                collected.generations = rows;
            }
        }
        // A publisher touches what it names in its own transaction: either this finds
        // nothing, or the publisher finds that the object is going.
        let marked = sqlx::query(
            "UPDATE objects o SET state = 'going', touched = clock_timestamp()
             WHERE state <> 'going' AND touched < clock_timestamp() - interval '1 day'
               AND NOT EXISTS (SELECT 1 FROM files f
                 WHERE f.digest = o.digest AND f.incarnation = o.incarnation)
               AND NOT EXISTS (SELECT 1 FROM image_parts p
                 WHERE p.digest = o.digest AND p.incarnation = o.incarnation)",
        );
        let marked = marked.execute(&mut *transaction).await;
        collected.marked = marked
            .map_err(FleetError::sql("mark objects"))?
            .rows_affected();
        let committed = transaction.commit().await;
        committed.map_err(FleetError::sql(action))?;
        collected.objects = self.remove_marked().await?;
        Ok(Some(collected))
    }

    async fn remove_marked(&self) -> Result<u64, FleetError> {
        let query = sqlx::query(
            "SELECT digest, incarnation FROM objects
             WHERE state = 'going' AND touched < clock_timestamp() - interval '1 hour' LIMIT $1",
        );
        let rows = query.bind(MOST).fetch_all(&self.pool).await;
        let rows = rows.map_err(FleetError::sql("list marked objects"))?;
        let mut removed = 0;
        for row in &rows {
            let digest: &[u8] = row.get("digest");
            let incarnation: i64 = row.get("incarnation");
            let Ok(bytes) = <[u8; 32]>::try_from(digest) else {
                continue;
            };
            // The bytes first: a row without them is tried again, bytes without a row
            // would stay for good.
            let key = key(&Digest::from_bytes(bytes), incarnation);
            self.bucket.delete(&key).await?;
            let statement = sqlx::query(
                "DELETE FROM objects WHERE digest = $1 AND incarnation = $2 AND state = 'going'",
            );
            let statement = statement.bind(digest).bind(incarnation);
            let done = statement.execute(&self.pool).await;
            done.map_err(FleetError::sql("forget an object"))?;
            removed += 1;
        }
        Ok(removed)
    }
}
