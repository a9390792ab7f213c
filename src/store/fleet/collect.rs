//! Removes what no replica needs any more.
//!
//! Nothing is removed that a publication may still name. Rows go first, and objects
//! that no row names after a day. These are marked, and go an hour later; whoever
//! needs one meanwhile uploads it under another name.

use sqlx::{Connection as _, Row as _};

use crate::store::fleet::error::FleetError;
use crate::store::fleet::pool::Fleet;
use crate::store::fleet::session::limited;
use crate::store::fleet::upload::{OBJECTS, key, parse_key};
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
    /// Objects without a row that are marked now.
    pub strays: u64,
    /// Objects that are gone from the bucket.
    pub objects: u64,
}

/// Each with what it does, in this order.
const STEPS: [(&str, &str); 10] = [
    (
        "forget replicas that are gone",
        "DELETE FROM replicas WHERE expires < clock_timestamp() - interval '1 hour'",
    ),
    (
        "note wanted catalogs",
        "UPDATE tracks SET wanted = clock_timestamp() WHERE id IN (
           SELECT unnest(wants) FROM replicas)",
    ),
    // A track may have begun with what another one served.
    (
        "move revisions to the track that serves them",
        "WITH old AS (SELECT id FROM tracks WHERE wanted < clock_timestamp() - interval '1 day')
         UPDATE revisions r SET track = g.track
         FROM generations g LEFT JOIN images i ON i.id = g.image
         WHERE r.id IN (g.revision, i.revision) AND r.track IN (SELECT id FROM old)
           AND g.track NOT IN (SELECT id FROM old)",
    ),
    (
        "forget unwanted catalogs",
        "DELETE FROM tracks WHERE wanted < clock_timestamp() - interval '1 day'",
    ),
    // A pull that began before may still go on, and a replica may lag.
    (
        "forget replaced generations",
        "DELETE FROM generations g WHERE EXISTS (
           SELECT 1 FROM generations n WHERE n.track = g.track AND n.number > g.number
             AND n.flips < clock_timestamp() - interval '1 hour')",
    ),
    // Nobody turns to one that another has replaced before.
    (
        "forget generations that were never shown",
        "DELETE FROM generations g WHERE flips IS NULL AND EXISTS (
           SELECT 1 FROM generations n WHERE n.track = g.track AND n.number > g.number)",
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
    (
        "forget the history of catalogs that are gone",
        "DELETE FROM history h WHERE NOT EXISTS (
           SELECT 1 FROM tracks t WHERE t.catalog = h.catalog)",
    ),
    // Replicas keep what `[history]` says.
    (
        "trim the history",
        "DELETE FROM history h WHERE h.revision < (
           SELECT revision FROM history n WHERE n.catalog = h.catalog
           ORDER BY revision DESC OFFSET 999 LIMIT 1)",
    ),
];

impl Fleet {
    /// Removes what no replica needs. `None` when another replica does so now.
    ///
    /// # Errors
    /// The first one, after all has been tried that can be.
    pub async fn collect(&self) -> Result<Option<Collected>, FleetError> {
        let Some(mut collected) = limited(self.forget()).await? else {
            return Ok(None);
        };
        // Whatever another database does not know would go from the bucket.
        let query = sqlx::query(
            "SELECT id, listed < clock_timestamp() - interval '7 days' AS is_list_due FROM fleet",
        );
        let row = self.find("look up the fleet", query).await?;
        let row = row.ok_or(FleetError::NoFleet)?;
        if !self.has_mark(row.get("id")).await? {
            return Err(FleetError::Unmarked);
        }
        if !row.get::<bool, _>("is_list_due") {
            collected.objects = self.remove_marked().await?;
            return Ok(Some(collected));
        }
        let strays = self.mark_strays().await;
        let removed = self.remove_marked().await;
        let moments = self.remove_moments().await;
        let probes = self.remove_probes().await;
        collected.strays = strays?;
        collected.objects = removed?;
        moments?;
        probes?;
        // Last: what failed is tried again before another week has passed.
        let listed = sqlx::query("UPDATE fleet SET listed = clock_timestamp()");
        self.execute("note the list of the bucket", listed).await?;
        Ok(Some(collected))
    }

    /// Removes rows, and marks objects.
    async fn forget(&self) -> Result<Option<Collected>, FleetError> {
        let mut collected = Collected::default();
        let action = "collect";
        let mut session = self.session(action).await?;
        let begun = session.begin().await;
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
        // A publisher touches objects in its own transaction before it names them: either
        // this finds nothing, or the publisher finds that the object is going.
        let marked = sqlx::query(
            "WITH unused AS (
               SELECT digest, incarnation FROM objects o
               WHERE state <> 'going' AND touched < clock_timestamp() - interval '1 day'
                 AND NOT EXISTS (SELECT 1 FROM files f
                   WHERE f.digest = o.digest AND f.incarnation = o.incarnation)
                 AND NOT EXISTS (SELECT 1 FROM image_parts p
                   WHERE p.digest = o.digest AND p.incarnation = o.incarnation)
                 AND NOT EXISTS (SELECT 1 FROM history h
                   WHERE h.digest = o.digest AND h.incarnation = o.incarnation)
               ORDER BY digest, incarnation FOR UPDATE SKIP LOCKED)
             UPDATE objects o SET state = 'going', touched = clock_timestamp() FROM unused u
             WHERE o.digest = u.digest AND o.incarnation = u.incarnation",
        );
        let marked = marked.execute(&mut *transaction).await;
        collected.marked = marked
            .map_err(FleetError::sql("mark objects"))?
            .rows_affected();
        let committed = transaction.commit().await;
        committed.map_err(FleetError::sql(action))?;
        session.release();
        Ok(Some(collected))
    }

    /// Marks objects that no row knows, such as those of a database that lost commits. The
    /// marked row keeps their names from being used meanwhile.
    async fn mark_strays(&self) -> Result<u64, FleetError> {
        let mut pages = self.bucket.list(OBJECTS);
        let mut marked = 0;
        while let Some(page) = pages.next().await? {
            let named = page.iter().filter_map(|object| parse_key(&object.name));
            let named: Vec<_> = named.collect();
            let digests = named.iter().map(|(digest, _)| digest.as_bytes().to_vec());
            let incarnations = named.iter().map(|(_, incarnation)| *incarnation);
            let statement = sqlx::query(
                "INSERT INTO objects (digest, incarnation, size, coding, state)
                 SELECT *, 0, 'identity', 'going' FROM unnest($1::bytea[], $2::bigint[])
                 ON CONFLICT DO NOTHING",
            );
            let statement = statement
                .bind(digests.collect::<Vec<_>>())
                .bind(incarnations.collect::<Vec<_>>());
            marked += self
                .execute("mark objects without a row", statement)
                .await?;
        }
        Ok(marked)
    }

    async fn remove_marked(&self) -> Result<u64, FleetError> {
        let query = sqlx::query(
            "SELECT digest, incarnation FROM objects
             WHERE state = 'going' AND touched < clock_timestamp() - interval '1 hour'
             ORDER BY touched LIMIT $1",
        );
        let rows = self.rows("list marked objects", query.bind(MOST)).await?;
        let mut removed = 0;
        let mut failed = None;
        for row in &rows {
            let digest: &[u8] = row.get("digest");
            let incarnation: i64 = row.get("incarnation");
            let Ok(bytes) = <[u8; 32]>::try_from(digest) else {
                continue;
            };
            // The bytes first: a row without them is tried again, bytes without a row
            // would stay for good.
            let key = key(&Digest::from_bytes(bytes), incarnation);
            match self.bucket.delete(&key).await {
                Ok(()) => {
                    let statement = "DELETE FROM objects
                        WHERE digest = $1 AND incarnation = $2 AND state = 'going'";
                    let statement = sqlx::query(statement).bind(digest).bind(incarnation);
                    self.execute("forget an object", statement).await?;
                    removed += 1;
                }
                Err(error) => {
                    // A rule may protect this one: others come first the next time.
                    let statement = "UPDATE objects SET touched = clock_timestamp()
                        WHERE digest = $1 AND incarnation = $2 AND state = 'going'";
                    let statement = sqlx::query(statement).bind(digest).bind(incarnation);
                    self.execute("put an object off", statement).await?;
                    let is_temporary = error.is_temporary();
                    failed.get_or_insert(error);
                    if is_temporary {
                        break;
                    }
                }
            }
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(removed),
        }
    }
}
