//! Who lives and who follows what.
//!
//! A lease lives as long as its holder's row. Its end only allows another replica to
//! take it; what keeps the former holder from publishing is the epoch, which a
//! publication compares in its own transaction.

use sqlx::{PgConnection, Row as _};

use crate::answers::index::FORMAT;
use crate::name::CatalogName;
use crate::store::fleet::error::FleetError;
use crate::store::fleet::pool::Fleet;

/// One start of one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaId(pub(super) i64);

/// A catalog as one configuration has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackId(pub(super) i64);

/// The right to follow a track and to publish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The track.
    pub track: TrackId,
    /// Who has it.
    pub holder: ReplicaId,
    /// Grows whenever somebody takes it.
    pub epoch: i64,
}

/// The state of the fleet, as of one beat.
#[derive(Clone, Debug)]
pub struct Beat {
    /// The time of the database, in microseconds since 1970.
    pub now: i64,
    /// Counts what was published.
    pub change: i64,
    /// The replicas that live and want any of the same tracks.
    pub live: usize,
    /// How many of its tracks this replica should follow: one of so many as live replicas
    /// want it, of each track. Rounded up, so that no track waits for another beat.
    pub share: usize,
    /// Those of them that serve every current generation, without this one.
    pub ready: usize,
    /// The wanted tracks that nobody follows.
    pub free: usize,
    /// The wanted tracks that the database has.
    pub known: usize,
    /// How many others serve all that is current, and have passes that do not fail for reasons
    /// of their own.
    pub fit: usize,
    /// How many tracks that one of these follows that follows the fewest.
    pub least: Option<usize>,
    /// How many objects the bucket has lost, also such as nobody needs.
    pub lost: i64,
    /// The wanted tracks that a replica has given up since their last pass that succeeded.
    pub given_up: Vec<TrackId>,
    /// The leases of this replica.
    pub leases: Vec<Lease>,
}

impl Fleet {
    /// Joins the fleet.
    pub async fn join(&self) -> Result<ReplicaId, FleetError> {
        let row = sqlx::query(
            "INSERT INTO replicas (name, version, format, expires)
             SELECT $1, $2, $3, clock_timestamp() + interval '6 seconds'
             WHERE $4::text IS NULL OR EXISTS (SELECT 1 FROM fleet WHERE id = $4) RETURNING id",
        );
        let row = row
            .bind(&*self.name)
            .bind(env!("CARGO_PKG_VERSION"))
            .bind(format())
            .bind(self.expected.get());
        let row = self.find("join the fleet", row).await?;
        match row {
            Some(row) => Ok(ReplicaId(row.get(0))),
            None => Err(self.other_fleet().await),
        }
    }

    /// Why the database is not of the expected fleet.
    async fn other_fleet(&self) -> FleetError {
        let query = sqlx::query("SELECT id FROM fleet");
        match self.find("look up the fleet", query).await {
            Ok(None) => FleetError::NoFleet,
            Ok(Some(_)) => FleetError::OtherFleet,
            Err(error) => error,
        }
    }

    /// Gives all leases back and leaves the fleet.
    pub async fn leave(&self, me: ReplicaId) -> Result<(), FleetError> {
        let statement = sqlx::query(
            "WITH freed AS (UPDATE leases SET holder = NULL WHERE holder = $1)
             DELETE FROM replicas WHERE id = $1",
        );
        let statement = statement.bind(me.0);
        self.execute("leave the fleet", statement).await.map(drop)
    }

    /// The track of a catalog, which is made if it is new.
    pub async fn track(&self, catalog: &CatalogName, origin: &str) -> Result<TrackId, FleetError> {
        let tracks = self.tracks(&[(catalog.as_str(), origin)]).await?;
        tracks.first().copied().ok_or(FleetError::NoFleet)
    }

    /// The tracks of some catalogs, each with what makes its configuration differ from others,
    /// in the same order. New ones are made.
    pub async fn tracks(&self, named: &[(&str, &str)]) -> Result<Vec<TrackId>, FleetError> {
        // In one order, so that two replicas do not wait for each other.
        let query = sqlx::query(
            "WITH named AS (
               SELECT * FROM unnest($1::text[], $2::text[])
                 WITH ORDINALITY AS named (catalog, origin, place)
               WHERE $3::text IS NULL OR EXISTS (SELECT 1 FROM fleet WHERE id = $3)
             ), made AS (
               INSERT INTO tracks (catalog, origin)
               SELECT catalog, origin FROM named ORDER BY catalog, origin
               ON CONFLICT (catalog, origin) DO UPDATE SET origin = excluded.origin
               RETURNING id, catalog, origin
             ), leased AS (
               INSERT INTO leases (track) SELECT id FROM made ON CONFLICT DO NOTHING
             ) SELECT id FROM named JOIN made USING (catalog, origin) ORDER BY place",
        );
        let (catalogs, origins): (Vec<&str>, Vec<&str>) = named.iter().copied().unzip();
        let query = query.bind(catalogs).bind(origins).bind(self.expected.get());
        let rows = self.rows("record the catalogs", query).await?;
        if rows.len() < named.len() {
            return Err(self.other_fleet().await);
        }
        Ok(rows.iter().map(|row| TrackId(row.get(0))).collect())
    }

    /// Lives for six seconds more, and tells of this replica: whether it serves every
    /// current generation, whether its passes fail for reasons of its own, and which
    /// tracks it wants to serve. `None` when the fleet does not know it any more: it joins
    /// again.
    ///
    /// # Errors
    /// With [`FleetError::OtherFleet`] when the database has become another fleet's.
    pub async fn beat(
        &self,
        me: ReplicaId,
        ready: bool,
        troubled: bool,
        wanted: &[TrackId],
    ) -> Result<Option<Beat>, FleetError> {
        // Whoever becomes ready waits for a replica that sets a moment: either that one
        // counts this replica, or this beat sees the change. Three thirds may be a little more
        // than one.
        let query = sqlx::query(
            "WITH locked AS (
               SELECT change FROM fleet WHERE $2 AND EXISTS (
                 SELECT 1 FROM replicas WHERE id = $1 AND NOT ready) FOR SHARE
             ), me AS (
               UPDATE replicas SET expires = clock_timestamp() + interval '6 seconds',
                 ready = $2, wants = $3, troubled = $4
               WHERE id = $1
                 AND ($5::text IS NULL OR EXISTS (SELECT 1 FROM fleet WHERE id = $5))
               RETURNING id
             ), mine AS (SELECT track, epoch FROM leases WHERE holder = $1
             ), fit AS (
               SELECT (SELECT count(*) FROM leases WHERE holder = replicas.id) AS followed
               FROM replicas
               WHERE id <> $1 AND expires > clock_timestamp() AND ready AND NOT troubled
                 AND wants && $3)
             SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
               coalesce((SELECT change FROM locked), (SELECT change FROM fleet)) AS change,
               (SELECT id FROM fleet) AS fleet, EXISTS (SELECT 1 FROM me) AS is_known,
               (SELECT count(*) FROM tracks WHERE id = ANY($3)) AS known,
               (SELECT count(*) FROM replicas
                WHERE id = $1 OR (expires > clock_timestamp() AND wants && $3)) AS live,
               (SELECT count(*) FROM replicas
                WHERE id <> $1 AND expires > clock_timestamp() AND ready AND wants && $3) AS ready,
               (SELECT ceil(coalesce(sum(1.0 / (1 + coalesce(others.count, 0))), 0) - 0.000001)
                FROM unnest($3) AS mine (track) LEFT JOIN (
                  SELECT wanted.track, count(*) FROM replicas, unnest(wants) AS wanted (track)
                  WHERE id <> $1 AND expires > clock_timestamp() GROUP BY wanted.track
                ) others USING (track))::bigint AS share,
               (SELECT count(*) FROM fit) AS fit, (SELECT min(followed) FROM fit) AS least,
               (SELECT count(*) FROM leases l
                WHERE l.track = ANY($3) AND l.holder IS DISTINCT FROM $1 AND NOT EXISTS (
                  SELECT 1 FROM replicas r WHERE r.id = l.holder AND r.expires > clock_timestamp()
                )) AS free,
               (SELECT count(*) FROM objects WHERE state = 'lost') AS lost,
               (SELECT coalesce(array_agg(track), '{}') FROM leases
                WHERE track = ANY($3) AND given_up > 0) AS given_up,
               (SELECT coalesce(array_agg(track ORDER BY track), '{}') FROM mine) AS tracks,
               (SELECT coalesce(array_agg(epoch ORDER BY track), '{}') FROM mine) AS epochs",
        );
        let query = query.bind(me.0).bind(ready).bind(numbers(wanted));
        let query = query.bind(troubled).bind(self.expected.get());
        let row = self.row("beat", query).await?;
        let fleet: Option<String> = row.get("fleet");
        let fleet = fleet.ok_or(FleetError::NoFleet)?;
        if self
            .expected
            .get()
            .is_some_and(|expected| *expected != fleet)
        {
            return Err(FleetError::OtherFleet);
        }
        if !row.get::<bool, _>("is_known") {
            return Ok(None);
        }
        let change: Option<i64> = row.get("change");
        let change = change.ok_or(FleetError::NoFleet)?;
        let tracks: Vec<i64> = row.get("tracks");
        let epochs: Vec<i64> = row.get("epochs");
        let leases = tracks.iter().zip(epochs).map(|(track, epoch)| Lease {
            track: TrackId(*track),
            holder: me,
            epoch,
        });
        let given_up: Vec<i64> = row.get("given_up");
        let least: Option<i64> = row.get("least");
        let count = |name| usize::try_from(row.get::<i64, _>(name)).unwrap_or(0);
        Ok(Some(Beat {
            now: row.get("now"),
            change,
            live: count("live"),
            share: count("share"),
            ready: count("ready"),
            fit: count("fit"),
            least: least.and_then(|least| usize::try_from(least).ok()),
            free: count("free"),
            known: count("known"),
            lost: row.get("lost"),
            given_up: given_up.into_iter().map(TrackId).collect(),
            leases: leases.collect(),
        }))
    }

    /// Takes up to `most` of the tracks that nobody follows.
    pub async fn take(
        &self,
        me: ReplicaId,
        wanted: &[TrackId],
        most: usize,
    ) -> Result<Vec<Lease>, FleetError> {
        let query = sqlx::query(
            "UPDATE leases SET holder = $1, epoch = epoch + 1 WHERE track IN (
               SELECT track FROM leases l
               WHERE track = ANY($2) AND l.holder IS DISTINCT FROM $1 AND NOT EXISTS (
                 SELECT 1 FROM replicas r WHERE r.id = l.holder AND r.expires > clock_timestamp())
               LIMIT $3 FOR UPDATE SKIP LOCKED) RETURNING track, epoch",
        );
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let query = query.bind(me.0).bind(numbers(wanted)).bind(most);
        let rows = self.rows("take leases", query).await?;
        let taken = rows.iter().map(|row| Lease {
            track: TrackId(row.get(0)),
            holder: me,
            epoch: row.get(1),
        });
        Ok(taken.collect())
    }

    /// Takes tracks from whoever follows them, for a publication from outside. What the
    /// others publish of them is refused then.
    pub async fn seize(&self, me: ReplicaId, tracks: &[TrackId]) -> Result<Vec<Lease>, FleetError> {
        // In one order, so that two of these do not wait for each other.
        let query = sqlx::query(
            "WITH locked AS (
               SELECT track FROM leases WHERE track = ANY($2) ORDER BY track FOR UPDATE)
             UPDATE leases l SET holder = $1, epoch = epoch + 1 FROM locked
             WHERE l.track = locked.track RETURNING l.track, l.epoch",
        );
        let query = query.bind(me.0).bind(numbers(tracks));
        let rows = self.rows("take leases", query).await?;
        let taken = rows.iter().map(|row| Lease {
            track: TrackId(row.get(0)),
            holder: me,
            epoch: row.get(1),
        });
        Ok(taken.collect())
    }

    /// One of the tracks that this replica follows, and another replica that would follow it
    /// instead: it wants the track, serves all that is current, its passes do not fail for
    /// reasons of its own, and even then it follows fewer than this one, which has `mine`. A
    /// track that was given up stays until a pass of it has succeeded.
    pub async fn find_taker(
        &self,
        me: ReplicaId,
        tracks: &[TrackId],
        mine: usize,
    ) -> Result<Option<(Lease, ReplicaId)>, FleetError> {
        let query = sqlx::query(
            "WITH takers AS (
               SELECT id, wants, (SELECT count(*) FROM leases WHERE holder = replicas.id) AS followed
               FROM replicas
               WHERE id <> $1 AND expires > clock_timestamp() AND ready AND NOT troubled)
             SELECT l.track, l.epoch, t.id FROM leases l JOIN takers t ON l.track = ANY(t.wants)
             WHERE l.holder = $1 AND l.track = ANY($2) AND l.given_up = 0 AND t.followed + 1 < $3
             ORDER BY t.followed, t.id, l.track LIMIT 1",
        );
        let mine = i64::try_from(mine).unwrap_or(i64::MAX);
        let query = query.bind(me.0).bind(numbers(tracks)).bind(mine);
        let row = self.find("look for another holder", query).await?;
        Ok(row.map(|row| {
            let lease = Lease {
                track: TrackId(row.get(0)),
                holder: me,
                epoch: row.get(1),
            };
            (lease, ReplicaId(row.get(2)))
        }))
    }

    /// Gives a lease to another replica, which learns of it with its next beat.
    pub async fn hand_over(&self, lease: Lease, to: ReplicaId) -> Result<(), FleetError> {
        let statement = sqlx::query(
            "UPDATE leases SET holder = $4, epoch = epoch + 1
             WHERE track = $1 AND holder = $2 AND epoch = $3",
        );
        let statement = statement
            .bind(lease.track.0)
            .bind(lease.holder.0)
            .bind(lease.epoch)
            .bind(to.0);
        let done = self.execute("hand a lease over", statement);
        done.await.map(drop)
    }

    /// Whether another replica would follow a track that this one gives up: it wants the
    /// track, serves all that is current, and its passes do not fail for reasons of its own.
    /// Once all have given it up, they try only now and then: the cause is common to them, and
    /// a holder that keeps the track shows it.
    pub async fn has_better(&self, lease: Lease) -> Result<bool, FleetError> {
        let query = sqlx::query(
            "WITH others AS (
               SELECT ready, troubled FROM replicas
               WHERE id <> $1 AND expires > clock_timestamp() AND $2 = ANY(wants))
             SELECT EXISTS (SELECT 1 FROM others WHERE ready AND NOT troubled) AND EXISTS (
               SELECT 1 FROM leases WHERE track = $2 AND (
                 given_up < (SELECT count(*) FROM others)
                 OR gave_up < clock_timestamp() - interval '30 minutes'))",
        );
        let query = query.bind(lease.holder.0).bind(lease.track.0);
        let row = self.row("look for another holder", query).await?;
        Ok(row.get(0))
    }

    /// Gives a lease back because passes fail here.
    pub async fn give_up(&self, lease: Lease) -> Result<(), FleetError> {
        let statement = sqlx::query(
            "UPDATE leases SET holder = NULL, given_up = given_up + 1, gave_up = clock_timestamp()
             WHERE track = $1 AND holder = $2 AND epoch = $3",
        );
        let statement = statement
            .bind(lease.track.0)
            .bind(lease.holder.0)
            .bind(lease.epoch);
        let done = self.execute("give a lease back", statement);
        done.await.map(drop)
    }

    /// Tells those that gave a track up that a pass has succeeded.
    pub async fn succeed(&self, lease: Lease) -> Result<(), FleetError> {
        let statement = sqlx::query(
            "UPDATE leases SET given_up = 0
             WHERE track = $1 AND holder = $2 AND epoch = $3 AND given_up > 0",
        );
        let statement = statement
            .bind(lease.track.0)
            .bind(lease.holder.0)
            .bind(lease.epoch);
        let done = self.execute("record that a pass succeeded", statement);
        done.await.map(drop)
    }

    /// Gives a lease back.
    pub async fn give_back(&self, lease: Lease) -> Result<(), FleetError> {
        let statement = sqlx::query(
            "UPDATE leases SET holder = NULL WHERE track = $1 AND holder = $2 AND epoch = $3",
        );
        let statement = statement
            .bind(lease.track.0)
            .bind(lease.holder.0)
            .bind(lease.epoch);
        let done = self.execute("give a lease back", statement);
        done.await.map(drop)
    }
}

/// Locks the lease until the end of the transaction.
///
/// # Errors
/// With [`FleetError::Fenced`] when it is another's.
pub(super) async fn fence(connection: &mut PgConnection, lease: Lease) -> Result<(), FleetError> {
    let query = sqlx::query(
        "SELECT 1 FROM leases WHERE track = $1 AND holder = $2 AND epoch = $3 FOR UPDATE",
    );
    let query = query
        .bind(lease.track.0)
        .bind(lease.holder.0)
        .bind(lease.epoch);
    let row = query.fetch_optional(connection).await;
    match row.map_err(FleetError::sql("look up the lease"))? {
        Some(_) => Ok(()),
        None => Err(FleetError::Fenced),
    }
}

pub(super) fn numbers(tracks: &[TrackId]) -> Vec<i64> {
    tracks.iter().map(|track| track.0).collect()
}

/// The format of the files that this version opens, as the database has it.
pub(super) fn format() -> i32 {
    // A small number that grows by one.
    i32::try_from(FORMAT).unwrap_or(i32::MAX)
}
