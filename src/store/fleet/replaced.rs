//! Images that other replicas have shown lately: clients may have been told of them there,
//! and ask a replica for them that has just started.

use std::time::Duration;

use sqlx::Row as _;

use crate::store::Store;
use crate::store::fleet::error::FleetError;
use crate::store::fleet::fetch::FetchedImage;
use crate::store::fleet::file_limit::FileLimit;
use crate::store::fleet::generations::Generation;
use crate::store::fleet::pool::Fleet;

/// An image that another one has replaced, on the disk of a replica.
pub struct ReplacedImage {
    /// The image.
    pub image: FetchedImage,
    /// The moment of the generation that replaced it, in microseconds of the database's
    /// clock.
    pub replaced: i64,
}

impl Fleet {
    /// Brings images to the disk that replicas have shown before a generation: so many at
    /// `most`, replaced within this time, the last one of each revision.
    ///
    /// # Errors
    /// When an object is missing, damaged or beyond the limit, or the disk has no room.
    pub async fn fetch_replaced(
        &self,
        store: &Store,
        limit: FileLimit,
        current: &Generation,
        (within, most): (Duration, usize),
    ) -> Result<Vec<ReplacedImage>, FleetError> {
        let query = sqlx::query(
            "SELECT image, (extract(epoch FROM replaced) * 1000000)::bigint AS replaced FROM (
               SELECT DISTINCT ON (i.revision) g.number, g.image, (
                 SELECT min(n.flips) FROM generations n
                 WHERE n.track = g.track AND n.number > g.number) AS replaced
               FROM generations g JOIN images i ON i.id = g.image
               WHERE g.track = $1 AND g.number < $2 AND g.flips IS NOT NULL
                 AND i.revision IS DISTINCT FROM (SELECT revision FROM images WHERE id = $3)
               ORDER BY i.revision, g.number DESC) shown
             WHERE replaced > clock_timestamp() - $4 * interval '1 millisecond'
             ORDER BY number DESC LIMIT $5",
        );
        let query = query
            .bind(current.id.track.0)
            .bind(current.id.number)
            .bind(current.image)
            .bind(i64::try_from(within.as_millis()).unwrap_or(i64::MAX))
            .bind(i64::try_from(most).unwrap_or(i64::MAX));
        let mut images = Vec::new();
        for row in self.rows("list replaced images", query).await? {
            images.push(ReplacedImage {
                image: self.fetch_image(store, limit, row.get("image")).await?,
                replaced: row.get("replaced"),
            });
        }
        Ok(images)
    }
}
