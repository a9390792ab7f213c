//! Dates of catalogs that several configurations show: clients that compare nothing but dates
//! keep stale content if a date goes back.

use crate::store::RevisionId;
use crate::store::fleet::connect::CHANNEL;
use crate::store::fleet::error::FleetError;
use crate::store::fleet::leases::TrackId;
use crate::store::fleet::pool::Fleet;

impl Fleet {
    /// Notes the latest date of other tracks of the same catalog for each track that a replica
    /// begins to follow: its clients, or those of the replica that it replaces, may have seen
    /// it. Nothing is noted for a track whose current revision its clients see already, which
    /// is the second value.
    pub async fn raise_dates(
        &self,
        tracks: &[(TrackId, Option<RevisionId>)],
    ) -> Result<(), FleetError> {
        // Rows are locked in one order, before that of the fleet.
        let query = sqlx::query(
            "WITH mine AS (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS mine (id, seen)
             ), shown AS (
               SELECT t.id, t.catalog, max(r.modified) AS modified
               FROM tracks t JOIN generations g ON g.track = t.id
               JOIN revisions r ON r.id = g.revision
               WHERE g.flips IS NOT NULL AND t.catalog IN (
                 SELECT catalog FROM tracks JOIN mine USING (id))
               GROUP BY t.id
             ), older AS (
               SELECT id, latest.modified
               FROM mine JOIN tracks USING (id) LEFT JOIN shown USING (id) JOIN (
                 SELECT catalog, max(modified) AS modified FROM shown GROUP BY catalog
               ) latest ON latest.catalog = tracks.catalog
               WHERE coalesce(shown.modified, 0) < latest.modified
                 AND (mine.seen IS NULL OR mine.seen IS DISTINCT FROM (
                   SELECT revision FROM generations WHERE track = id AND flips IS NOT NULL
                   ORDER BY number DESC LIMIT 1))
             ), locked AS MATERIALIZED (
               SELECT id FROM tracks WHERE id IN (SELECT id FROM older)
               ORDER BY catalog, origin FOR NO KEY UPDATE
             ), raised AS (
               UPDATE tracks t SET not_before = older.modified
               FROM older JOIN locked USING (id)
               WHERE t.id = older.id AND coalesce(t.not_before, 0) < older.modified
               RETURNING t.id
             ), changed AS (
               UPDATE fleet SET change = change + 1 WHERE (SELECT count(*) FROM raised) > 0
               RETURNING pg_notify($3, '') AS told
             ) SELECT count(told) FROM changed",
        );
        let (tracks, seen): (Vec<i64>, Vec<Option<i64>>) = tracks
            .iter()
            .map(|(track, seen)| (track.0, seen.map(|seen| seen.0)))
            .unzip();
        let query = query.bind(tracks).bind(seen).bind(CHANNEL);
        let row = self.row("compare the dates of catalogs", query);
        row.await.map(drop)
    }
}
