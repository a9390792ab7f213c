//! What a fleet has of a catalog, whichever track it is of.

use std::collections::BTreeSet;

use sqlx::{Connection as _, Row as _};

use crate::name::CatalogName;
use crate::store::fleet::error::FleetError;
use crate::store::fleet::generation::{Generation, GenerationId, generation};
use crate::store::fleet::leases::TrackId;
use crate::store::fleet::pool::Fleet;
use crate::store::fleet::session::limited;
use crate::store::{NewRevisionNumber, Published, RevisionId, SourceIdentity, time_of_unix};

/// The largest number that a revision of another store keeps: numbers above it have to
/// last for all that the fleet publishes later.
const LARGEST: i64 = 1 << 52;
/// Locked by whoever chooses a number, and shared by those who take the next one.
const NUMBERING: i64 = 0x616c_6d61_6e62;

impl Fleet {
    /// The next number of a revision. It is above `last`: after a failover that lost
    /// commits, the database may give numbers a second time.
    pub async fn next_revision(
        &self,
        catalog: &CatalogName,
        last: RevisionId,
    ) -> Result<NewRevisionNumber, FleetError> {
        let number = self.number(catalog).await?;
        if number.id > last {
            return Ok(number);
        }
        let query = sqlx::query(
            "WITH numbering AS MATERIALIZED (SELECT pg_advisory_xact_lock($2))
             SELECT setval('revisions_id_seq', greatest($1, last_value))
             FROM numbering, revisions_id_seq",
        );
        let query = query.bind(last.0).bind(NUMBERING);
        self.execute("number a revision", query).await?;
        self.number(catalog).await
    }

    async fn number(&self, catalog: &CatalogName) -> Result<NewRevisionNumber, FleetError> {
        let query = sqlx::query(
            "WITH numbering AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared($2))
             SELECT nextval(pg_get_serial_sequence('revisions', 'id')) AS id, greatest((
               SELECT max(r.modified) FROM revisions r
               JOIN tracks t ON t.id = r.track JOIN generations g ON g.revision = r.id
               WHERE t.catalog = $1 AND g.flips IS NOT NULL), (
               SELECT max(not_before) FROM tracks WHERE catalog = $1)) AS modified
             FROM numbering",
        );
        let row = query.bind(catalog.as_str()).bind(NUMBERING);
        let row = self.row("number a revision", row).await?;
        let modified: Option<i64> = row.get("modified");
        let modified = modified.and_then(|seconds| u64::try_from(seconds).ok());
        Ok(NewRevisionNumber {
            id: RevisionId(row.get("id")),
            modified: modified.map(time_of_unix),
        })
    }

    /// Numbers for revisions of another store, which are in groups of one catalog each: a
    /// group keeps its own if the fleet has come to none as large, else it gets the next.
    pub async fn claim_revisions(
        &self,
        wanted: &[Vec<RevisionId>],
    ) -> Result<Vec<Vec<RevisionId>>, FleetError> {
        limited(self.claim(wanted)).await
    }

    async fn claim(&self, wanted: &[Vec<RevisionId>]) -> Result<Vec<Vec<RevisionId>>, FleetError> {
        let action = "number a revision";
        let mut session = self.session(action).await?;
        let begun = session.begin().await;
        let mut transaction = begun.map_err(FleetError::sql(action))?;
        // Nobody else takes a number meanwhile.
        let locked = sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(NUMBERING);
        let locked = locked.execute(&mut *transaction).await;
        locked.map_err(FleetError::sql(action))?;
        let last = sqlx::query_scalar("SELECT nextval(pg_get_serial_sequence('revisions', 'id'))");
        let last: i64 = last
            .fetch_one(&mut *transaction)
            .await
            .map_err(FleetError::sql(action))?;
        // This very number was not used yet.
        let claimed = numbered(wanted, last - 1);
        let largest = claimed.iter().flatten().map(|id| id.0).max();
        let largest = largest.unwrap_or(last).max(last);
        let set = sqlx::query("SELECT setval(pg_get_serial_sequence('revisions', 'id'), $1)");
        let set = set.bind(largest).execute(&mut *transaction).await;
        set.map_err(FleetError::sql(action))?;
        let committed = transaction.commit().await;
        committed.map_err(FleetError::sql(action))?;
        session.release();
        Ok(claimed)
    }

    /// What is served of each catalog. Of two tracks of a name, the one that turned last.
    pub async fn served(&self) -> Result<Vec<(CatalogName, Generation)>, FleetError> {
        let query = sqlx::query(
            "SELECT DISTINCT ON (t.catalog) t.catalog, g.track, g.number, g.revision, r.content,
               r.untold, r.modified, t.not_before, g.image,
               (extract(epoch FROM g.flips) * 1000000)::bigint AS flips,
               (extract(epoch FROM g.resolved) * 1000000)::bigint AS resolved
             FROM generations g JOIN revisions r ON r.id = g.revision JOIN tracks t ON t.id = g.track
             WHERE g.flips <= clock_timestamp() ORDER BY t.catalog, g.flips DESC, g.number DESC",
        );
        let rows = self.rows("list served revisions", query).await?;
        let named = rows.iter().filter_map(|row| {
            let name: CatalogName = row.get::<&str, _>("catalog").parse().ok()?;
            Some((name, generation(row)))
        });
        Ok(named.collect())
    }

    /// What other tracks of a catalog serve, with the source of it; the latest one first.
    pub async fn served_elsewhere(
        &self,
        catalog: &CatalogName,
        track: TrackId,
    ) -> Result<Vec<(SourceIdentity, GenerationId)>, FleetError> {
        let query = sqlx::query(
            "SELECT track, number, published, variant FROM (
               SELECT DISTINCT ON (g.track)
                 g.track, g.number, g.flips, r.modified, r.published, r.variant
               FROM generations g JOIN revisions r ON r.id = g.revision
               JOIN tracks t ON t.id = g.track
               WHERE t.catalog = $1 AND g.track <> $2 AND g.flips <= clock_timestamp()
               ORDER BY g.track, g.number DESC) served
             WHERE published IS NOT NULL ORDER BY modified DESC, flips DESC",
        );
        let query = query.bind(catalog.as_str()).bind(track.0);
        let rows = self.rows("list served revisions", query).await?;
        let identified = rows.iter().filter_map(|row| {
            let published: Published = serde_json::from_str(row.get("published")).ok()?;
            let identity = SourceIdentity {
                source: published.source,
                variant: row.get("variant"),
            };
            let (track, number) = (TrackId(row.get("track")), row.get("number"));
            Some((identity, GenerationId { track, number }))
        });
        Ok(identified.collect())
    }
}

/// The numbers of groups, where those up to `used` are in use.
fn numbered(wanted: &[Vec<RevisionId>], used: i64) -> Vec<Vec<RevisionId>> {
    let mut taken = BTreeSet::new();
    let mut keeps = |group: &[RevisionId]| {
        let mut ids = group.iter();
        ids.all(|id| (used + 1..=LARGEST).contains(&id.0) && taken.insert(id.0))
    };
    let kept: Vec<bool> = wanted.iter().map(|group| keeps(group)).collect();
    let mut next = taken.last().map_or(used, |last| *last.max(&used));
    let groups = wanted.iter().zip(kept).map(|(group, keeps)| {
        if keeps {
            return group.clone();
        }
        let ids = group.iter().map(|_| {
            next += 1;
            RevisionId(next)
        });
        ids.collect()
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imported_revisions_keep_their_numbers_or_get_the_next_in_their_order() {
        let numbered = |wanted: &[&[i64]], used| {
            let group = |ids: &&[i64]| ids.iter().map(|id| RevisionId(*id)).collect();
            let wanted: Vec<Vec<RevisionId>> = wanted.iter().map(group).collect();
            let found = super::numbered(&wanted, used);
            let plain = |ids: &Vec<RevisionId>| ids.iter().map(|id| id.0).collect::<Vec<_>>();
            found.iter().map(plain).collect::<Vec<_>>()
        };
        assert_eq!(numbered(&[&[1, 3], &[2]], 0), [vec![1, 3], vec![2]]);
        // One that is in use takes the others of its catalog along.
        assert_eq!(numbered(&[&[1, 3], &[7]], 2), [vec![8, 9], vec![7]]);
        assert_eq!(numbered(&[&[5], &[5]], 2), [vec![5], vec![6]]);
        // Numbers for later are left.
        assert_eq!(numbered(&[&[LARGEST + 1]], 2), [vec![3]]);
        assert!(numbered(&[], 2).is_empty());
    }
}
