//! The history that all replicas of a fleet share: each keeps its own as a node alone does,
//! and learns here of revisions that were published in its absence.

use sqlx::PgConnection;

use crate::name::CatalogName;
use crate::store::fleet::error::FleetError;
use crate::store::fleet::leases::TrackId;
use crate::store::fleet::upload::{Named, OUTLINE, Shared};
use crate::store::{PastRevision, StoreError};

/// Records that all turn to a generation, for the history.
pub(super) async fn record(
    connection: &mut PgConnection,
    (track, number): (TrackId, i64),
) -> Result<(), FleetError> {
    let statement = sqlx::query(
        "INSERT INTO history (catalog, revision, published, digest, incarnation)
         SELECT t.catalog, r.id, r.published, f.digest, f.incarnation
         FROM generations g JOIN revisions r ON r.id = g.revision JOIN tracks t ON t.id = g.track
         LEFT JOIN LATERAL (
           SELECT digest, incarnation FROM files WHERE revision = r.id AND name = $3 LIMIT 1
         ) f ON true
         WHERE g.track = $1 AND g.number = $2 AND r.published IS NOT NULL
         ON CONFLICT DO NOTHING",
    );
    let statement = statement.bind(track.0).bind(number).bind(OUTLINE);
    let done = statement.execute(connection).await;
    done.map(drop)
        .map_err(FleetError::sql("record the history"))
}

/// Records revisions of another store, with their outlines, which are in the bucket.
pub(super) async fn record_past(
    connection: &mut PgConnection,
    catalog: &CatalogName,
    past: &[PastRevision],
    outlines: &Shared,
) -> Result<(), FleetError> {
    for one in past {
        let published = serde_json::to_string(&one.published);
        let published = published.map_err(StoreError::encode("a revision"))?;
        let name = one.published.outline().to_string();
        let outline: Option<&Named> = outlines.0.iter().find(|named| named.name == name);
        let statement = sqlx::query(
            "INSERT INTO history (catalog, revision, published, digest, incarnation)
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
        );
        let done = statement
            .bind(catalog.as_str())
            .bind(one.id.0)
            .bind(published)
            .bind(outline.map(|named| named.digest.as_bytes().to_vec()))
            .bind(outline.map(|named| named.incarnation))
            .execute(&mut *connection)
            .await;
        done.map_err(FleetError::sql("record the history"))?;
    }
    Ok(())
}
