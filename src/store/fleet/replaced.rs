//! Images that other replicas have shown lately: clients may have been told of them there,
//! and ask a replica for them that has just started.

use std::time::Duration;

use sqlx::Row as _;

use crate::store::Store;
use crate::store::fleet::error::FleetError;
use crate::store::fleet::fetch::FetchedImage;
use crate::store::fleet::file_limit::FileLimit;
use crate::store::fleet::generation::Generation;
use crate::store::fleet::pool::Fleet;

/// An image that another one has replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplacedImage {
    /// Its row.
    pub row: i64,
    /// The moment of the generation that replaced it, in microseconds of the database's
    /// clock.
    pub replaced: i64,
}

impl Fleet {
    /// The images that replicas have shown before a generation, those that were replaced last
    /// first: at most so many, replaced within this time, each digest once. Those of other
    /// configurations of the catalog count, too, also if a replica may still show them.
    pub async fn replaced_images(
        &self,
        current: &Generation,
        (within, most): (Duration, usize),
    ) -> Result<Vec<ReplacedImage>, FleetError> {
        let query = sqlx::query(
            "WITH shown AS (
               SELECT g.image, i.document::jsonb #>> '{tags,latest}' AS digest, coalesce((
                 SELECT min(n.flips) FROM generations n
                 WHERE n.track = g.track AND n.number > g.number), CASE WHEN EXISTS (
                 SELECT 1 FROM replicas WHERE expires > clock_timestamp() AND t.id = ANY(wants))
                 THEN clock_timestamp() ELSE t.wanted END) AS replaced
               FROM tracks t JOIN generations g ON g.track = t.id JOIN images i ON i.id = g.image
               WHERE t.catalog = (SELECT catalog FROM tracks WHERE id = $1)
                 AND (g.track <> $1 OR g.number < $2) AND g.flips IS NOT NULL)
             SELECT image, (extract(epoch FROM replaced) * 1000000)::bigint AS replaced FROM (
               SELECT DISTINCT ON (digest) * FROM shown
               WHERE digest IS DISTINCT FROM (
                 SELECT document::jsonb #>> '{tags,latest}' FROM images WHERE id = $3)
               ORDER BY digest, replaced DESC) last
             WHERE replaced > clock_timestamp() - $4 * interval '1 millisecond'
             ORDER BY replaced DESC LIMIT $5",
        );
        let query = query
            .bind(current.id.track.0)
            .bind(current.id.number)
            .bind(current.image)
            .bind(i64::try_from(within.as_millis()).unwrap_or(i64::MAX))
            .bind(i64::try_from(most).unwrap_or(i64::MAX));
        let rows = self.rows("list replaced images", query).await?;
        let image = |row: &sqlx::postgres::PgRow| ReplacedImage {
            row: row.get("image"),
            replaced: row.get("replaced"),
        };
        Ok(rows.iter().map(image).collect())
    }

    /// Brings one of them to the disk.
    ///
    /// # Errors
    /// When an object is missing, damaged or beyond the limit, or the disk has no room.
    pub async fn fetch_replaced(
        &self,
        store: &Store,
        limit: FileLimit,
        image: ReplacedImage,
    ) -> Result<FetchedImage, FleetError> {
        self.fetch_image(store, limit, image.row).await
    }
}
