//! Removes what no replica needs any more.
//!
//! Rows go first: generations that were replaced a day ago, tracks that nobody has had in its
//! configuration for a day. Then, once a day, objects that no row lists and that are older than
//! a day. No object is removed while a replica uploads.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Row as _};
use tokio_util::sync::CancellationToken;

use crate::fleet::error::FleetError;
use crate::fleet::fleet_metrics;
use crate::fleet::mark::PROBE;
use crate::fleet::object::{OBJECTS, parse_key};
use crate::fleet::replica::Replica;
use crate::fleet::session::{SessionNumber, statements};
use crate::fleet::shared::Fleet;
use crate::fleet::statements::{execute, rows};
use crate::fleet::upload::PAUSE;
use ::images::digest::Digest;

/// The time between two collections of a replica, half as much more or less.
const INTERVAL: Duration = Duration::from_mins(10);
/// An object that is younger may be listed soon.
const AGE: Duration = Duration::from_hours(24);
/// The most objects that are removed while uploads wait.
const MOST: usize = 100;
/// The longest time of the removal of rows.
const LONGEST: Duration = Duration::from_secs(30);

/// Each with what it does, in this order.
const STEPS: [(&str, &str); 5] = [
    (
        "forget replicas that are gone",
        "DELETE FROM replicas WHERE id NOT IN (
           SELECT objid::bigint FROM pg_locks
           WHERE locktype = 'advisory' AND classid = 1 AND objsubid = 2 AND database = (
             SELECT oid FROM pg_database WHERE datname = current_database()))",
    ),
    (
        "record wanted catalogs",
        "UPDATE tracks SET wanted = clock_timestamp() WHERE id IN (
           SELECT unnest(tracks) FROM replicas)",
    ),
    (
        "forget catalogs that nobody wants",
        "DELETE FROM tracks WHERE wanted < clock_timestamp() - interval '1 day'",
    ),
    // A pull that began before may still go on.
    (
        "forget replaced generations",
        "DELETE FROM generations g USING tracks t
         WHERE t.id = g.track AND g.number < t.newest AND EXISTS (
           SELECT 1 FROM generations n WHERE n.track = g.track AND n.number > g.number
             AND n.made < clock_timestamp() - interval '1 day')",
    ),
    // Replicas keep what `[history]` says.
    (
        "trim the history",
        "DELETE FROM history h WHERE h.catalog NOT IN (SELECT catalog FROM tracks)
           OR h.revision < (
             SELECT revision FROM history n WHERE n.catalog = h.catalog
             ORDER BY revision DESC OFFSET 999 LIMIT 1)",
    ),
];

/// Collects now and then, until it is stopped.
pub(super) async fn collect(replica: Replica, stop: CancellationToken) {
    let collecting = async {
        loop {
            // Not all at the same time.
            tokio::time::sleep(INTERVAL.mul_f64(0.5 + fastrand::f64())).await;
            if !replica.fleet().owns_bucket() {
                continue;
            }
            match replica.fleet().collect().await {
                Ok(removed) => tracing::debug!(removed, "collected"),
                Err(error) => {
                    fleet_metrics::failed(&error);
                    tracing::warn!(%error, "cannot remove what the fleet does not need");
                }
            }
        }
    };
    stop.run_until_cancelled(collecting).await;
}

impl Fleet {
    /// Removes what no replica needs. Returns how many objects that were.
    ///
    /// # Errors
    /// The first one.
    pub async fn collect(&self) -> Result<usize, FleetError> {
        let work = statements(|connection| forget(connection).boxed());
        let Some(id) = self.session().run_for(LONGEST, None, work).await? else {
            return Ok(0);
        };
        // Whatever another database does not know would go from the bucket.
        if !self.has_mark(&id).await? {
            return Err(FleetError::Unmarked);
        }
        let (removed, is_complete) = self.remove_unlisted().await?;
        if !is_complete {
            // The next collection looks again.
            return Ok(removed);
        }
        let statement = sqlx::query("UPDATE fleet SET listed = clock_timestamp()");
        let session = self.session();
        session
            .execute(None, "record the collection", statement)
            .await?;
        Ok(removed)
    }

    /// Returns how many objects were removed, and whether no upload was in the way.
    async fn remove_unlisted(&self) -> Result<(usize, bool), FleetError> {
        let (mut removed, mut is_complete) = (0, true);
        let mut pages = self.bucket().list(OBJECTS);
        while let Some(page) = pages.next().await? {
            let old = page.into_iter().filter(|one| is_old(one.modified));
            let named = old.filter_map(|one| Some((parse_key(&one.name)?, one.name)));
            let named: Vec<(Digest, String)> = named.collect();
            for some in named.chunks(MOST) {
                match self.remove_some(some.to_vec()).await? {
                    Some(0) => {}
                    // Uploads that wait begin meanwhile.
                    Some(some) => {
                        removed += some;
                        tokio::time::sleep(PAUSE * 2).await;
                    }
                    None => is_complete = false,
                }
            }
        }
        // Those of checks that were killed.
        let mut pages = self.bucket().list(PROBE);
        while let Some(page) = pages.next().await? {
            for probe in page.iter().filter(|one| is_old(one.modified)) {
                self.bucket().delete(&probe.name).await?;
            }
        }
        Ok((removed, is_complete))
    }

    /// Removes those of some objects that no row lists. Nobody begins an upload meanwhile, here
    /// or at another replica. Returns how many that were; `None` while a replica uploads.
    async fn remove_some(&self, named: Vec<(Digest, String)>) -> Result<Option<usize>, FleetError> {
        let uploads = self.uploads();
        let Ok(_of_process) = uploads.try_write() else {
            return Ok(None);
        };
        let session = self.session().number().ok_or(FleetError::Fenced)?;
        let lock = sqlx::query("SELECT pg_try_advisory_lock(3, 2)");
        let sessions = self.session();
        let locked = sessions.rows(Some(session), "begin a collection", lock);
        if !locked.await?.first().is_some_and(|row| row.get(0)) {
            return Ok(None);
        }
        let removed = self.remove_locked(session, named).await;
        let unlock = sqlx::query("SELECT pg_advisory_unlock(3, 2)");
        let unlocked = sessions.execute(Some(session), "end a collection", unlock);
        if unlocked.await.is_err() {
            // The lock ends with the session at the latest: others wait for it.
            self.close().await;
        }
        removed.map(Some)
    }

    /// The same, while the lock is held.
    async fn remove_locked(
        &self,
        session: SessionNumber,
        named: Vec<(Digest, String)>,
    ) -> Result<usize, FleetError> {
        let digests = named.iter().map(|(digest, _)| digest.as_bytes().to_vec());
        let digests: Vec<Vec<u8>> = digests.collect();
        let work = statements(move |connection| unlisted(connection, digests).boxed());
        let unlisted = self.session().run_in(session, work).await?;
        let mut removed = 0;
        for (_, name) in named.iter().filter(|(digest, _)| unlisted.contains(digest)) {
            // The server may have ended the session of a process that was stopped: others
            // upload then.
            self.session().keep(session).await?;
            self.bucket().delete(name).await?;
            removed += 1;
        }
        Ok(removed)
    }
}

/// Whether an object is so old that a publication that needs it has listed it.
fn is_old(modified: SystemTime) -> bool {
    SystemTime::now()
        .duration_since(modified)
        .is_ok_and(|age| age > AGE)
}

/// Removes rows. The fleet, if it is time to look for objects; `None` also when another replica
/// collects now.
async fn forget(connection: &mut PgConnection) -> Result<Option<String>, FleetError> {
    let action = "collect";
    let begun = connection.begin().await;
    let mut transaction = begun.map_err(FleetError::sql(action))?;
    let alone = sqlx::query_scalar("SELECT pg_try_advisory_xact_lock(3, 1)");
    let alone = alone.fetch_one(&mut *transaction).await;
    if !alone.map_err(FleetError::sql(action))? {
        return Ok(None);
    }
    for (action, statement) in STEPS {
        execute(&mut transaction, action, sqlx::query(statement)).await?;
    }
    let query = "SELECT id, listed < clock_timestamp() - interval '1 day' FROM fleet";
    let found = sqlx::query_as(query)
        .fetch_optional(&mut *transaction)
        .await;
    let found: Option<(String, bool)> = found.map_err(FleetError::sql(action))?;
    let committed = transaction.commit().await;
    committed.map_err(FleetError::sql(action))?;
    let (id, is_due) = found.ok_or(FleetError::NoFleet)?;
    Ok(is_due.then_some(id))
}

/// Those of some objects that no row lists.
async fn unlisted(
    connection: &mut PgConnection,
    digests: Vec<Vec<u8>>,
) -> Result<BTreeSet<Digest>, FleetError> {
    let query = sqlx::query(
        "SELECT digest FROM unnest($1::bytea[]) found (digest)
         WHERE NOT EXISTS (SELECT 1 FROM objects o WHERE o.digest = found.digest)
           AND NOT EXISTS (SELECT 1 FROM history h WHERE h.outline = found.digest)",
    );
    let action = "look for objects that nobody needs";
    let rows = rows(connection, action, query.bind(digests)).await?;
    let found = rows.iter().filter_map(|row| {
        let bytes: &[u8] = row.get(0);
        Some(Digest::from_bytes(bytes.try_into().ok()?))
    });
    Ok(found.collect())
}
