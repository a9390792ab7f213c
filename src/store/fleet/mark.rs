//! The mark of a bucket: the object that names its fleet. The database names the place of
//! the bucket in turn, so that an empty place is not taken for it.

use std::sync::atomic::Ordering;
use std::time::SystemTime;

use bytes::Bytes;
use sqlx::Row as _;

use crate::store::fleet::error::FleetError;
use crate::store::fleet::pool::Fleet;
use crate::store::sql::seconds;

/// The object that names the fleet of a bucket.
const MARK: &str = "fleet";
/// The object that a start writes and removes to see whether that is allowed. The names of
/// objects of checks begin with it.
const PROBE: &str = "probe";
/// The seconds after which a check is over for certain.
const CHECK_IS_OVER: i64 = 24 * 60 * 60;

impl Fleet {
    /// Checks that the bucket is of this fleet and can be used. The first replica writes
    /// the mark.
    ///
    /// # Errors
    /// When it does not answer, is another fleet's, or lacks what replicas need of it.
    pub async fn check_bucket(&self, id: &str) -> Result<(), FleetError> {
        if !self.has_mark(id).await? {
            self.claim_place().await?;
            self.bucket.put_if_absent(MARK, mark(id)).await?;
            tracing::info!(bucket = %self.bucket.location(), "the bucket belongs to this fleet now");
            if !self.has_mark(id).await? {
                return Err(FleetError::Refused(format!(
                    "{} does not show the object {MARK}, which was written into it: use a store \
                     that shows new objects at once",
                    self.bucket.location()
                )));
            }
        }
        // A store without conditions would let two fleets share a prefix.
        if self.bucket.put_if_absent(MARK, mark(id)).await? {
            return Err(self.no_conditions());
        }
        // An object that nobody removes fails a collection, a day later.
        self.bucket.put(PROBE, Bytes::new()).await?;
        self.bucket.delete(PROBE).await?;
        if self.bucket.head(MARK).await?.is_none() {
            return Err(self.no_lists());
        }
        self.note_place().await?;
        self.owns_bucket.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether [`Fleet::check_bucket`] has found the bucket to be the fleet's. Until then,
    /// what it lacks is not lost, and nothing is removed from it.
    pub fn owns_bucket(&self) -> bool {
        self.owns_bucket.load(Ordering::Relaxed)
    }

    /// As [`Fleet::check_bucket`], without the mark: nothing is left in the bucket, and the
    /// database does not change. If the fleet is not known, whose the bucket is stays open.
    ///
    /// # Errors
    /// Likewise.
    pub async fn try_bucket(&self, id: Option<&str>) -> Result<(), FleetError> {
        let now = if let Some(id) = id {
            self.compare_bucket(id).await?;
            self.now().await?
        } else {
            self.bucket.read(MARK).await?;
            seconds(SystemTime::now())
        };
        let key = probe_key(now);
        self.bucket.put(&key, Bytes::new()).await?;
        let tried = self.try_object(&key).await;
        // It is removed in any case, and its own problem comes first.
        let removed = self.bucket.delete(&key).await;
        tried?;
        Ok(removed?)
    }

    /// Removes the objects of checks that were killed.
    ///
    /// # Errors
    /// The first one.
    pub(super) async fn remove_probes(&self) -> Result<(), FleetError> {
        let now = self.now().await?;
        let mut pages = self.bucket.list(PROBE);
        while let Some(page) = pages.next().await? {
            for object in page.iter().filter(|object| is_abandoned(&object.name, now)) {
                self.bucket.delete(&object.name).await?;
            }
        }
        Ok(())
    }

    /// The time of the database, in seconds since 1970: clocks of replicas may differ.
    async fn now(&self) -> Result<i64, FleetError> {
        let query = sqlx::query("SELECT extract(epoch FROM clock_timestamp())::bigint AS now");
        let row = self.find("ask for the time", query).await?;
        Ok(row.ok_or(FleetError::NoFleet)?.get("now"))
    }

    /// Checks that an object that is there is kept and listed.
    async fn try_object(&self, key: &str) -> Result<(), FleetError> {
        if self.bucket.put_if_absent(key, Bytes::new()).await? {
            return Err(self.no_conditions());
        }
        if self.bucket.head(key).await?.is_some() {
            Ok(())
        } else {
            Err(self.no_lists())
        }
    }

    /// Checks that the bucket has the mark of this fleet, or its place, and writes nothing.
    ///
    /// # Errors
    /// When it does not answer, or is another fleet's.
    pub async fn compare_bucket(&self, id: &str) -> Result<(), FleetError> {
        if self.has_mark(id).await? {
            return Ok(());
        }
        match self.place().await? {
            Some(place) if place != self.bucket.location().place() => Err(self.no_mark(&place)),
            // The mark is lost, or nobody has used the fleet yet.
            _ => Ok(()),
        }
    }

    /// Whether the bucket has the mark of this fleet.
    ///
    /// # Errors
    /// When it has that of another one.
    pub(super) async fn has_mark(&self, id: &str) -> Result<bool, FleetError> {
        match self.bucket.read(MARK).await? {
            None => Ok(false),
            Some(found) if found == *mark(id) => Ok(true),
            Some(found) if !is_mark(&found) => Err(FleetError::Refused(format!(
                "the object {} names no fleet: something before the store may have answered, so \
                 check endpoint in objects; if it was overwritten, write the name of the fleet into \
                 it, which the table fleet of the database has",
                format_args!("{}/{MARK}", self.bucket.location())
            ))),
            Some(_) => Err(FleetError::Refused(format!(
                "{} belongs to another fleet: its object {} names a fleet whose database this is \
                 not. If that fleet is in use, give this one another prefix in objects. If its \
                 database was lost for good and made anew, remove that object",
                self.bucket.location(),
                format_args!("{}/{MARK}", self.bucket.location())
            ))),
        }
    }

    /// Makes the place of the bucket that of the fleet, unless it has another.
    async fn claim_place(&self) -> Result<(), FleetError> {
        let statement = sqlx::query("UPDATE fleet SET bucket = $1 WHERE bucket IS NULL");
        let own = self.bucket.location().place();
        self.execute("record the bucket", statement.bind(&own))
            .await?;
        match self.place().await? {
            Some(place) if place != own => Err(self.no_mark(&place)),
            _ => Ok(()),
        }
    }

    /// Notes the place of the bucket, which the mark shows to be the fleet's: it may have
    /// been moved.
    async fn note_place(&self) -> Result<(), FleetError> {
        let statement =
            sqlx::query("UPDATE fleet SET bucket = $1 WHERE bucket IS DISTINCT FROM $1");
        let statement = statement.bind(self.bucket.location().place());
        self.execute("record the bucket", statement).await.map(drop)
    }

    /// Where the bucket of the fleet is.
    async fn place(&self) -> Result<Option<String>, FleetError> {
        let row = self.find(
            "look up the bucket",
            sqlx::query("SELECT bucket FROM fleet"),
        );
        let row = row.await?.ok_or(FleetError::NoFleet)?;
        Ok(row.get("bucket"))
    }

    fn no_conditions(&self) -> FleetError {
        FleetError::Refused(format!(
            "{} replaces objects that exist although it is asked not to (If-None-Match): use a \
             store with conditional writes",
            self.bucket.location()
        ))
    }

    fn no_lists(&self) -> FleetError {
        FleetError::Refused(format!(
            "the list of {} lacks an object that is there: allow the key to list objects of the \
             prefix (s3:ListBucket)",
            self.bucket.location()
        ))
    }

    fn no_mark(&self, place: &str) -> FleetError {
        FleetError::Refused(format!(
            "{} has no object {MARK}, so it is not the bucket of this fleet, which is {place}: write \
             that one into objects. To move the bucket, stop all replicas and copy all of its \
             objects first",
            self.bucket.location().place()
        ))
    }
}

fn mark(id: &str) -> Bytes {
    Bytes::from(format!("{id}\n"))
}

/// Whether the content of the object is the name of a fleet: 32 hexadecimal digits.
fn is_mark(found: &[u8]) -> bool {
    let name = found.trim_ascii();
    name.len() == 32 && name.iter().all(u8::is_ascii_hexdigit)
}

/// The object of a check that begins now. Several checks may run at a time, so each has its own.
fn probe_key(now: i64) -> String {
    format!("{PROBE}-{now}-{:016x}", fastrand::u64(..))
}

/// Whether a check has left this object.
fn is_abandoned(key: &str, now: i64) -> bool {
    let begun = key.strip_prefix(PROBE).and_then(|key| {
        let (begun, _) = key.strip_prefix('-')?.split_once('-')?;
        begun.parse::<i64>().ok()
    });
    begun.is_some_and(|begun| now.saturating_sub(begun) > CHECK_IS_OVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_a_fleet_is_a_mark() {
        assert!(is_mark(b"0123456789abcdef0123456789abcdef\n"));
        for other in [&b""[..], b"\n", b"<html></html>", b"0123456789abcdef"] {
            assert!(!is_mark(other), "{other:?}");
        }
    }

    #[test]
    fn an_object_of_a_check_is_removed_once_the_check_cannot_run_any_more() {
        let now = 1_800_000_000;
        let key = probe_key(now);
        for (later, expected) in [
            (0, false),
            (CHECK_IS_OVER, false),
            (CHECK_IS_OVER + 1, true),
        ] {
            assert_eq!(is_abandoned(&key, now + later), expected, "{later}");
        }
        for other in [MARK, PROBE, "probe-", "probe-1", "probe-x-1", "probes-1-1"] {
            assert!(!is_abandoned(other, now), "{other}");
        }
    }
}
