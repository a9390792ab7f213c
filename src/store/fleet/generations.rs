//! The revision and the image of a track that all replicas serve, and the moment of a change.
//!
//! A generation is prepared first: its files are in the bucket, and no client sees it.
//! Each replica fetches it and leaves a receipt. Once they have it, the holder of the
//! lease sets the moment at which all turn.

use std::time::Duration;

use sqlx::{Connection as _, PgConnection};

use crate::store::fleet::connect::CHANNEL;
use crate::store::fleet::error::FleetError;
use crate::store::fleet::generation::{Generation, GenerationId, generation};
use crate::store::fleet::history;
use crate::store::fleet::leases::{Lease, TrackId, fence, numbers};
use crate::store::fleet::pool::Fleet;
use crate::store::fleet::publication_rows::{insert_files, insert_image, insert_revision, touch};
use crate::store::fleet::receipts::{Prepared, Silences, prepared};
use crate::store::fleet::session::limited;
use crate::store::fleet::sources::{SourceRevision, check_sources};
use crate::store::fleet::upload::{Named, Shared};
use crate::store::{Image, PastRevision, Revision, RevisionId};

/// Whether a moment is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// More replicas have to have the generation before.
    Waits,
    /// This call has set it.
    Set {
        /// The moment, in microseconds of the database's clock.
        flips: i64,
        /// The time until then, from the statement that set it.
        after: Duration,
    },
    /// It was set before, or another generation replaces this one.
    Over,
}

/// A revision to announce, whose files are in the bucket.
pub struct Publication<'a> {
    /// The right to do so.
    pub lease: Lease,
    /// The revision, with its number in the fleet.
    pub revision: &'a Revision,
    /// The revisions that it is made of, if it is a curated one: none of them may have been
    /// replaced.
    pub sources: &'a [SourceRevision],
    /// Its files.
    pub files: &'a Shared,
    /// Its image; without one, it has that of the generation before.
    pub image: Option<(&'a Image, &'a Shared)>,
    /// Revisions before it that only another store had, and their outlines.
    pub past: Option<(&'a [PastRevision], &'a Shared)>,
    /// When the pass began that found it at its source, in microseconds of the database's
    /// clock.
    pub resolved: Option<i64>,
    /// Whether webhooks are to be told by the replica that follows the track afterwards.
    pub untold: bool,
}

impl Publication<'_> {
    /// All objects that it names.
    fn objects(&self) -> impl Iterator<Item = &Named> {
        let parts = self.image.iter().flat_map(|(_, parts)| &parts.0);
        let outlines = self.past.iter().flat_map(|(_, outlines)| &outlines.0);
        self.files.0.iter().chain(parts).chain(outlines)
    }
}

impl Fleet {
    /// The generations of some tracks: the last one with a moment, and those after it.
    pub async fn generations(&self, tracks: &[TrackId]) -> Result<Vec<Generation>, FleetError> {
        let query = sqlx::query(
            "SELECT g.track, g.number, g.revision, r.content, g.image, r.untold, r.modified,
               (SELECT not_before FROM tracks WHERE id = g.track) AS not_before,
               (extract(epoch FROM g.flips) * 1000000)::bigint AS flips,
               (extract(epoch FROM g.resolved) * 1000000)::bigint AS resolved
             FROM generations g JOIN revisions r ON r.id = g.revision
             WHERE g.track = ANY($1) AND g.number >= coalesce((
               SELECT max(t.number) FROM generations t
               WHERE t.track = g.track AND t.flips IS NOT NULL), 0)
             ORDER BY g.track, g.number",
        );
        let query = query.bind(numbers(tracks));
        let rows = self.rows("list generations", query).await?;
        Ok(rows.iter().map(generation).collect())
    }

    /// Announces revisions, all or none.
    pub async fn prepare_revisions(
        &self,
        publications: &[Publication<'_>],
    ) -> Result<Vec<GenerationId>, FleetError> {
        limited(self.insert_publications(publications)).await
    }

    async fn insert_publications(
        &self,
        publications: &[Publication<'_>],
    ) -> Result<Vec<GenerationId>, FleetError> {
        let action = "publish a revision";
        let mut session = self.session(action).await?;
        let begun = session.begin().await;
        let mut transaction = begun.map_err(FleetError::sql(action))?;
        // All locks first, in one order: leases, objects, then the row that numbers changes.
        for publication in publications {
            fence(&mut transaction, publication.lease).await?;
        }
        let objects = publications.iter().flat_map(Publication::objects);
        touch(&mut transaction, objects).await?;
        let mut ids = Vec::with_capacity(publications.len());
        for publication in publications {
            ids.push(insert_publication(&mut transaction, publication).await?);
        }
        // Last: the row that numbers changes is locked, so nobody turns until the end.
        for publication in publications {
            check_sources(&mut transaction, publication.sources).await?;
        }
        let committed = transaction.commit().await;
        committed.map_err(FleetError::sql(action))?;
        session.release();
        Ok(ids)
    }

    /// Announces another image of the revision that was announced last. Its parts are in
    /// the bucket. `None` when another revision was announced meanwhile.
    pub async fn prepare_image(
        &self,
        lease: Lease,
        revision: RevisionId,
        image: &Image,
        parts: &Shared,
    ) -> Result<Option<GenerationId>, FleetError> {
        limited(self.replace_image(lease, revision, image, parts)).await
    }

    async fn replace_image(
        &self,
        lease: Lease,
        revision: RevisionId,
        image: &Image,
        parts: &Shared,
    ) -> Result<Option<GenerationId>, FleetError> {
        let action = "publish an image";
        let mut session = self.session(action).await?;
        let begun = session.begin().await;
        let mut transaction = begun.map_err(FleetError::sql(action))?;
        fence(&mut transaction, lease).await?;
        let query = sqlx::query_scalar(
            "SELECT revision FROM generations WHERE track = $1 ORDER BY number DESC LIMIT 1",
        );
        let last = query.bind(lease.track.0).fetch_optional(&mut *transaction);
        let last: Option<i64> = last.await.map_err(FleetError::sql(action))?;
        if last != Some(revision.0) {
            return Ok(None);
        }
        touch(&mut transaction, parts.0.iter()).await?;
        let number = insert_image(&mut transaction, revision, image, parts).await?;
        let announced = (revision, Some(number), None);
        let id = announce(&mut transaction, lease, announced).await?;
        let committed = transaction.commit().await;
        committed.map_err(FleetError::sql(action))?;
        session.release();
        Ok(Some(id))
    }

    /// Whether webhooks are to be told of a revision by the caller, who has the lease: one
    /// replica gets this answer, once.
    pub async fn claim_event(
        &self,
        lease: Lease,
        revision: RevisionId,
    ) -> Result<bool, FleetError> {
        let statement = sqlx::query(
            "UPDATE revisions SET untold = false WHERE id = $1 AND untold AND EXISTS (
               SELECT 1 FROM leases WHERE track = $2 AND holder = $3 AND epoch = $4)",
        );
        let statement = statement
            .bind(revision.0)
            .bind(lease.track.0)
            .bind(lease.holder.0)
            .bind(lease.epoch);
        let done = self.execute("claim an event", statement).await?;
        Ok(done > 0)
    }

    /// Lets a track begin with what another track serves. It may have an outdated generation, if
    /// that is of another track itself, or if it `has_same_source` and the other one is later.
    /// Whether it did.
    pub async fn begin_with(
        &self,
        lease: Lease,
        other: GenerationId,
        has_same_source: bool,
    ) -> Result<bool, FleetError> {
        let action = "begin a catalog";
        let mut session = self.session(action).await?;
        let begun = session.begin().await;
        let mut transaction = begun.map_err(FleetError::sql(action))?;
        fence(&mut transaction, lease).await?;
        let query = sqlx::query_scalar(
            "WITH last AS (
               SELECT g.flips, r.track, r.modified
               FROM generations g JOIN revisions r ON r.id = g.revision
               WHERE g.track = $1 ORDER BY g.number DESC LIMIT 1)
             SELECT NOT EXISTS (
               SELECT 1 FROM last WHERE flips IS NULL OR (track = $1 AND NOT $4)
                 OR modified >= coalesce((SELECT not_before FROM tracks WHERE id = $1), 0)
                 OR modified >= (
                   SELECT r.modified FROM generations g JOIN revisions r ON r.id = g.revision
                   WHERE g.track = $2 AND g.number = $3))",
        );
        let may_begin = query
            .bind(lease.track.0)
            .bind(other.track.0)
            .bind(other.number)
            .bind(has_same_source)
            .fetch_one(&mut *transaction)
            .await;
        // Nothing changes, and nobody is told.
        if !may_begin.map_err(FleetError::sql(action))? {
            let ended = transaction.rollback().await;
            ended.map_err(FleetError::sql(action))?;
            session.release();
            return Ok(false);
        }
        let change = next_change(&mut transaction).await?;
        // Replicas that serve the track already fetch it first.
        let statement = sqlx::query(
            "WITH last AS (
               SELECT number FROM generations WHERE track = $1 ORDER BY number DESC LIMIT 1)
             INSERT INTO generations
               (track, number, revision, image, epoch, change, flips, resolved)
             SELECT $1, coalesce((SELECT number FROM last), 0) + 1, revision, image, $2, $3,
               CASE WHEN NOT EXISTS (SELECT 1 FROM last) THEN clock_timestamp() END, resolved
             FROM generations WHERE track = $4 AND number = $5",
        );
        let done = statement
            .bind(lease.track.0)
            .bind(lease.epoch)
            .bind(change)
            .bind(other.track.0)
            .bind(other.number)
            .execute(&mut *transaction)
            .await;
        let begun = done.map_err(FleetError::sql(action))?.rows_affected() > 0;
        notify(&mut transaction).await?;
        let committed = transaction.commit().await;
        committed.map_err(FleetError::sql(action))?;
        session.release();
        Ok(begun)
    }

    /// Sets the moment at which all turn to a generation, if enough replicas have it.
    /// `notice` tells the time until then, and whether that is so: another replica may
    /// have become ready meanwhile. `silences` is as for [`Fleet::prepared`].
    pub async fn turn(
        &self,
        lease: Lease,
        id: GenerationId,
        silences: Silences,
        notice: impl Fn(Prepared) -> Option<Duration> + Send + Sync,
    ) -> Result<Turn, FleetError> {
        limited(self.set_moment(lease, id, silences, notice)).await
    }

    async fn set_moment(
        &self,
        lease: Lease,
        id: GenerationId,
        silences: Silences,
        notice: impl Fn(Prepared) -> Option<Duration> + Send + Sync,
    ) -> Result<Turn, FleetError> {
        let action = "turn to a generation";
        let mut session = self.session(action).await?;
        let begun = session.begin().await;
        let mut transaction = begun.map_err(FleetError::sql(action))?;
        fence(&mut transaction, lease).await?;
        // This locks the row of the fleet, for which a replica waits to become ready.
        let change = next_change(&mut transaction).await?;
        let found = prepared(&mut transaction, lease.holder, id, silences).await?;
        let Some(after) = notice(found) else {
            return Ok(Turn::Waits);
        };
        let statement = sqlx::query_scalar(
            "UPDATE generations SET change = $4,
               flips = clock_timestamp() + $3 * interval '1 millisecond'
             WHERE track = $1 AND number = $2 AND flips IS NULL
               AND number = (SELECT max(number) FROM generations WHERE track = $1)
             RETURNING (extract(epoch FROM flips) * 1000000)::bigint",
        );
        let set = statement
            .bind(id.track.0)
            .bind(id.number)
            .bind(i64::try_from(after.as_millis()).unwrap_or(0))
            .bind(change)
            .fetch_optional(&mut *transaction)
            .await;
        let flips = set.map_err(FleetError::sql(action))?;
        // Of one that another has replaced, nobody ever sees anything.
        if flips.is_some() {
            history::record(&mut transaction, (id.track, id.number)).await?;
        }
        notify(&mut transaction).await?;
        let committed = transaction.commit().await;
        committed.map_err(FleetError::sql(action))?;
        session.release();
        Ok(flips.map_or(Turn::Over, |flips| Turn::Set { flips, after }))
    }
}

async fn insert_publication(
    connection: &mut PgConnection,
    publication: &Publication<'_>,
) -> Result<GenerationId, FleetError> {
    let Publication {
        lease,
        revision,
        sources: _,
        files,
        image,
        past,
        resolved,
        untold,
    } = publication;
    insert_revision(connection, *lease, revision, *untold).await?;
    insert_files(connection, revision.id, files).await?;
    let number = match image {
        Some((image, parts)) => Some(insert_image(connection, revision.id, image, parts).await?),
        None => None,
    };
    if let Some((past, outlines)) = past {
        history::record_past(connection, &revision.catalog, past, outlines).await?;
    }
    announce(connection, *lease, (revision.id, number, *resolved)).await
}

/// Makes the next generation of a track: its revision, its image and when it was resolved.
/// The last two stay as they were unless they are given.
async fn announce(
    connection: &mut PgConnection,
    lease: Lease,
    (revision, image, resolved): (RevisionId, Option<i64>, Option<i64>),
) -> Result<GenerationId, FleetError> {
    let change = next_change(connection).await?;
    let query = sqlx::query_scalar(
        "WITH last AS (
           SELECT * FROM generations WHERE track = $1 ORDER BY number DESC LIMIT 1)
         INSERT INTO generations (track, number, revision, image, epoch, change, resolved)
         SELECT $1, coalesce((SELECT number FROM last), 0) + 1, $2,
           coalesce($3, (SELECT image FROM last)), $4, $5,
           coalesce(to_timestamp($6::double precision / 1000000),
             (SELECT resolved FROM last WHERE revision = $2))
         RETURNING number",
    );
    let row = query
        .bind(lease.track.0)
        .bind(revision.0)
        .bind(image)
        .bind(lease.epoch)
        .bind(change)
        .bind(resolved)
        .fetch_one(&mut *connection);
    let number = row.await;
    let number = number.map_err(FleetError::sql("record a generation"))?;
    notify(connection).await?;
    Ok(GenerationId {
        track: lease.track,
        number,
    })
}

async fn next_change(connection: &mut PgConnection) -> Result<i64, FleetError> {
    let query = sqlx::query_scalar("UPDATE fleet SET change = change + 1 RETURNING change");
    let change = query.fetch_one(connection).await;
    change.map_err(FleetError::sql("number a change"))
}

/// Only a hint that saves the wait for the next beat.
async fn notify(connection: &mut PgConnection) -> Result<(), FleetError> {
    let query = sqlx::query("SELECT pg_notify($1, '')").bind(CHANNEL);
    let done = query.execute(connection).await;
    done.map(drop).map_err(FleetError::sql("notify"))
}
