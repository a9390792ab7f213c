//! The moment of a change in the bucket, beside its row. If the database dies after some
//! replicas have read the row, the others find the moment here.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::objects::Put;
use crate::store::fleet::error::FleetError;
use crate::store::fleet::generations::Generation;
use crate::store::fleet::leases::TrackId;
use crate::store::fleet::pool::Fleet;

/// What begins the names of these objects. There is one for each track.
pub(super) const MOMENTS: &str = "moments/";

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
        let key = key(generation.id.track);
        let written = self.bucket.put(&key, Bytes::from(moment), Put::Replace);
        Ok(written.await.map(drop)?)
    }

    /// The moment of a generation, in microseconds of the database's clock. `None` when the
    /// bucket has none, or that of another generation.
    pub async fn told_moment(&self, generation: &Generation) -> Result<Option<i64>, FleetError> {
        let found = self.bucket.read(&key(generation.id.track)).await?;
        let moment = found.and_then(|bytes| serde_json::from_slice::<Moment>(&bytes).ok());
        let flips = moment.as_ref().map(|moment| moment.flips);
        Ok(flips.filter(|flips| moment == Some(Moment::of(generation, *flips))))
    }
}

fn key(track: TrackId) -> String {
    format!("{MOMENTS}{}", track.0)
}

/// The track of such an object.
pub(super) fn track_of(key: &str) -> Option<i64> {
    key.strip_prefix(MOMENTS)?.parse().ok()
}
