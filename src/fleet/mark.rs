//! The mark of a bucket: the object that names its fleet. The database names the place of
//! the bucket in turn, so that an empty place is not taken for it.

use bytes::Bytes;
use sqlx::Row as _;

use crate::fleet::error::FleetError;
use crate::fleet::shared::Fleet;

/// The object that names the fleet of a bucket.
const MARK: &str = "fleet";
/// What begins the names of objects that checks write and remove.
pub(super) const PROBE: &str = "probe-";

impl Fleet {
    /// Checks that the bucket is of this fleet and can be used. The first replica writes
    /// the mark.
    ///
    /// # Errors
    /// When it does not answer, is another fleet's, or lacks what replicas need of it.
    pub async fn check_bucket(&self, id: &str) -> Result<(), FleetError> {
        if !self.has_mark(id).await? {
            self.record_place(true).await?;
            // Two fleets may begin with one prefix at the same time.
            self.bucket().put_if_absent(MARK, mark(id)).await?;
            tracing::info!(bucket = %self.bucket().location(), "the bucket belongs to this fleet now");
            if !self.has_mark(id).await? {
                return Err(FleetError::Refused(format!(
                    "{} does not show the object {MARK}, which was written into it: use a store \
                     that shows new objects at once",
                    self.bucket().location()
                )));
            }
        }
        self.probe().await?;
        self.record_place(false).await?;
        self.found_bucket();
        Ok(())
    }

    /// Checks that the bucket still is of this fleet. One that was emptied gets the mark again,
    /// before another fleet may take it.
    ///
    /// # Errors
    /// When it does not answer, or is another fleet's now: then it counts as not found.
    pub async fn keep_bucket(&self, id: &str) -> Result<(), FleetError> {
        match self.has_mark(id).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                tracing::warn!(
                    bucket = %self.bucket().location(),
                    "the bucket has lost the mark of this fleet: it is written again"
                );
                self.check_bucket(id).await
            }
            Err(error) => {
                if matches!(error, FleetError::Refused(_)) {
                    self.lost_bucket();
                }
                Err(error)
            }
        }
    }

    /// As [`Fleet::check_bucket`], without the mark: nothing is left in the bucket, and the
    /// database does not change. If the fleet is not known, whose the bucket is stays open.
    ///
    /// # Errors
    /// Likewise.
    pub async fn try_bucket(&self, id: Option<&str>) -> Result<(), FleetError> {
        if let Some(id) = id {
            self.compare_bucket(id).await?;
        }
        self.probe().await
    }

    /// Checks that an object is written, listed and removed.
    async fn probe(&self) -> Result<(), FleetError> {
        // Several checks may run at a time, so each has its own.
        let name = format!("{PROBE}{:016x}", fastrand::u64(..));
        self.bucket()
            .put(&name, Bytes::from_static(b"almanac"))
            .await?;
        let listed = async {
            let mut pages = self.bucket().list(&name);
            let page = pages.next().await?;
            Ok::<_, FleetError>(page.is_some_and(|page| page.iter().any(|one| one.name == name)))
        };
        let is_listed = listed.await;
        // It is removed in any case, and its own problem comes first.
        let removed = self.bucket().delete(&name).await;
        if !is_listed? {
            return Err(FleetError::Refused(format!(
                "the list of {} lacks an object that is there: allow the key to list the prefix",
                self.bucket().location()
            )));
        }
        Ok(removed?)
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
            Some(place) if place != self.bucket().location().place() => Err(self.no_mark(&place)),
            // The mark is lost, or nobody has used the fleet yet.
            _ => Ok(()),
        }
    }

    /// Whether the bucket has the mark of this fleet.
    ///
    /// # Errors
    /// When it has that of another one.
    pub(super) async fn has_mark(&self, id: &str) -> Result<bool, FleetError> {
        let location = self.bucket().location();
        match self.bucket().read(MARK).await? {
            None => Ok(false),
            Some(found) if found == *mark(id) => Ok(true),
            Some(found) if !is_mark(&found) => Err(FleetError::Refused(format!(
                "the object {location}/{MARK} names no fleet: something before the store may have \
                 answered, so check endpoint in objects; if it was overwritten, write the name of \
                 the fleet into it, which the table fleet of the database has"
            ))),
            Some(_) => Err(FleetError::Refused(format!(
                "{location} belongs to another fleet: its object {location}/{MARK} names a fleet \
                 whose database this is not. If that fleet is in use, give this one another prefix \
                 in objects. If its database was lost for good and made anew, remove that object"
            ))),
        }
    }

    /// Records the place of the bucket: of a new fleet, or of one whose bucket was moved.
    async fn record_place(&self, is_new: bool) -> Result<(), FleetError> {
        let own = self.bucket().location().place();
        let statement = if is_new {
            "UPDATE fleet SET bucket = $1 WHERE bucket IS NULL"
        } else {
            "UPDATE fleet SET bucket = $1 WHERE bucket IS DISTINCT FROM $1"
        };
        let statement = sqlx::query(statement).bind(own);
        let session = self.session();
        session
            .execute(None, "record the bucket", statement)
            .await?;
        match self.place().await? {
            Some(place) if place != self.bucket().location().place() => Err(self.no_mark(&place)),
            _ => Ok(()),
        }
    }

    /// Where the bucket of the fleet is.
    async fn place(&self) -> Result<Option<String>, FleetError> {
        let query = sqlx::query("SELECT bucket FROM fleet");
        let rows = self
            .session()
            .rows(None, "look up the bucket", query)
            .await?;
        rows.first()
            .map(|row| row.get(0))
            .ok_or(FleetError::NoFleet)
    }

    fn no_mark(&self, place: &str) -> FleetError {
        FleetError::Refused(format!(
            "{} has no object {MARK}, so it is not the bucket of this fleet, which is {place}: write \
             that one into objects. To move the bucket, stop all replicas and copy all of its \
             objects first",
            self.bucket().location().place()
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
}
