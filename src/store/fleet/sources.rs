//! The revisions that curated catalogs are made of.

use sqlx::PgConnection;

use crate::store::RevisionId;
use crate::store::fleet::error::FleetError;
use crate::store::fleet::leases::TrackId;

/// A revision of another track that a curated one is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRevision {
    /// The other track.
    pub track: TrackId,
    /// Its revision.
    pub revision: RevisionId,
    /// The digest of the revision's content: after a failover that lost commits, a
    /// number may be assigned a second time.
    pub content: String,
}

/// Refuses revisions that are not the current ones of their tracks. The caller has locked
/// the row that numbers changes.
pub(super) async fn check_sources(
    connection: &mut PgConnection,
    sources: &[SourceRevision],
) -> Result<(), FleetError> {
    if sources.is_empty() {
        return Ok(());
    }
    let query = sqlx::query_scalar(
        "SELECT EXISTS (
           SELECT 1 FROM unnest($1::bigint[], $2::bigint[], $3::text[])
             AS source (track, revision, content)
           WHERE NOT EXISTS (
             SELECT 1 FROM generations g JOIN revisions r ON r.id = g.revision
             WHERE g.track = source.track AND r.id = source.revision
               AND r.content = source.content AND g.number = (
                 SELECT max(number) FROM generations
                 WHERE track = source.track AND flips IS NOT NULL)))",
    );
    let tracks = sources.iter().map(|source| source.track.0);
    let revisions = sources.iter().map(|source| source.revision.0);
    let contents = sources.iter().map(|source| source.content.clone());
    let query = query
        .bind(tracks.collect::<Vec<_>>())
        .bind(revisions.collect::<Vec<_>>())
        .bind(contents.collect::<Vec<_>>());
    let found = query.fetch_one(connection).await;
    let is_replaced: bool = found.map_err(FleetError::sql("compare with the sources"))?;
    if is_replaced {
        Err(FleetError::Replaced)
    } else {
        Ok(())
    }
}
