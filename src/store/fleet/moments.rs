//! The moment of a change in the bucket, beside its row. If the database dies after some
//! replicas have read the row, the others find the moment here.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sqlx::Row as _;

use crate::store::fleet::error::FleetError;
use crate::store::fleet::generation::{Generation, GenerationId};
use crate::store::fleet::leases::TrackId;
use crate::store::fleet::pool::Fleet;

/// What begins the names of these objects: `moments/TRACK/NUMBER`.
const MOMENTS: &str = "moments/";

/// When all turn to a generation of a track.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Moment {
    /// The generation's number.
    number: i64,
    /// Its revision.
    revision: i64,
    /// The digest of its content.
    content: String,
    /// The row of its image.
    image: Option<i64>,
    /// In microseconds of the database's clock.
    flips: i64,
}

impl Moment {
    fn of(generation: &Generation, flips: i64) -> Self {
        Self {
            number: generation.id.number,
            revision: generation.revision.0,
            content: generation.content.clone(),
            image: generation.image,
            flips,
        }
    }
}

impl Fleet {
    /// Writes the moment of a generation, which its row has.
    pub async fn tell_moment(&self, generation: &Generation, flips: i64) -> Result<(), FleetError> {
        let moment = serde_json::to_vec(&Moment::of(generation, flips));
        let moment = moment.map_err(|_| FleetError::Row("moments"))?;
        let key = key(generation.id);
        Ok(self.bucket.put(&key, Bytes::from(moment)).await?)
    }

    /// The moment of a generation, in microseconds of the database's clock. `None` when the
    /// bucket has none, or that of another generation with its number.
    pub async fn told_moment(&self, generation: &Generation) -> Result<Option<i64>, FleetError> {
        let found = self.bucket.read(&key(generation.id)).await?;
        let moment = found.and_then(|bytes| serde_json::from_slice::<Moment>(&bytes).ok());
        let flips = moment.as_ref().map(|moment| moment.flips);
        Ok(flips.filter(|flips| moment == Some(Moment::of(generation, *flips))))
    }

    /// Removes the moments of generations that are replaced or forgotten.
    ///
    /// # Errors
    /// The first one, after all has been tried that can be.
    pub(super) async fn remove_moments(&self) -> Result<(), FleetError> {
        let mut keys = Vec::new();
        let mut pages = self.bucket.list(MOMENTS);
        while let Some(page) = pages.next().await? {
            keys.extend(page.into_iter().map(|object| object.name));
        }
        // After the list: a track that is newer than it has no moment in it.
        let query = sqlx::query(
            "SELECT t.id, coalesce(max(g.number) FILTER (WHERE g.flips IS NOT NULL), 0) AS turned
             FROM tracks t LEFT JOIN generations g ON g.track = t.id GROUP BY t.id",
        );
        let rows = self.rows("list current generations", query).await?;
        let turned: BTreeMap<i64, i64> = rows
            .iter()
            .map(|row| (row.get("id"), row.get("turned")))
            .collect();
        let mut failed = None;
        for key in keys {
            let Some(id) = parse(&key) else {
                continue;
            };
            // Replicas may still wait for the last one.
            let is_needed = turned
                .get(&id.track.0)
                .is_some_and(|last| id.number >= *last);
            if is_needed {
                continue;
            }
            if let Err(error) = self.bucket.delete(&key).await {
                let is_temporary = error.is_temporary();
                failed.get_or_insert(error);
                if is_temporary {
                    break;
                }
            }
        }
        failed.map_or(Ok(()), |error| Err(error.into()))
    }
}

fn key(id: GenerationId) -> String {
    format!("{MOMENTS}{}/{}", id.track.0, id.number)
}

/// The generation of such an object.
fn parse(key: &str) -> Option<GenerationId> {
    let (track, number) = key.strip_prefix(MOMENTS)?.split_once('/')?;
    let id = GenerationId {
        track: TrackId(track.parse().ok()?),
        number: number.parse().ok()?,
    };
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fleet::testing;

    #[test]
    fn the_name_of_a_moment_tells_its_generation() {
        let id = testing::generation_id(7);
        assert_eq!(key(id), "moments/1/7");
        assert_eq!(parse("moments/1/7"), Some(id));
        for other in ["moments/1", "moments/1/7/8", "moments/a/7", "objects/1/7"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
