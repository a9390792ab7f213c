//! Dates of catalogs that several configurations show: clients that compare nothing but dates
//! would keep what they have if one went back.

use crate::store::fleet::connect::CHANNEL;
use crate::store::fleet::error::FleetError;
use crate::store::fleet::leases::{ReplicaId, TrackId, numbers};
use crate::store::fleet::pool::Fleet;

impl Fleet {
    /// Notes that a replica begins to follow some tracks: they may show nothing from now on
    /// that is older than what other tracks of their catalogs have shown. Its clients, or
    /// those of the replica that it replaces, have seen that.
    pub async fn raise_dates(&self, me: ReplicaId, tracks: &[TrackId]) -> Result<(), FleetError> {
        let query = sqlx::query(
            "WITH shown AS (
               SELECT t.id, t.catalog, max(r.modified) AS modified
               FROM tracks t JOIN generations g ON g.track = t.id
               JOIN revisions r ON r.id = g.revision
               WHERE g.flips IS NOT NULL
                 AND t.catalog IN (SELECT catalog FROM tracks WHERE id = ANY($1))
               GROUP BY t.id
             ), raised AS (
               UPDATE tracks t SET not_before = latest.modified, abandoned = NOT EXISTS (
                 SELECT 1 FROM replicas
                 WHERE id <> $3 AND expires > clock_timestamp() AND t.id = ANY(wants))
               FROM shown s JOIN (
                 SELECT catalog, max(modified) AS modified FROM shown GROUP BY catalog
               ) latest USING (catalog)
               WHERE t.id = s.id AND t.id = ANY($1) AND s.modified < latest.modified
                 AND coalesce(t.not_before, 0) < latest.modified
               RETURNING t.id
             ), changed AS (
               UPDATE fleet SET change = change + 1 WHERE EXISTS (SELECT 1 FROM raised)
               RETURNING pg_notify($2, '') AS told
             ) SELECT count(told) FROM changed",
        );
        let query = query.bind(numbers(tracks)).bind(CHANNEL).bind(me.0);
        let row = self.row("compare the dates of catalogs", query);
        row.await.map(drop)
    }
}
