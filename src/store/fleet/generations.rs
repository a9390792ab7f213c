//! What all replicas serve of a track, and when they turn to it.
//!
//! A generation is prepared first: its files are in the bucket, and no client sees it.
//! Each replica fetches it and leaves a receipt. Once they have it, the holder of the
//! lease sets the moment at which all turn.

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use crate::store::fleet::connect::{CHANNEL, Fleet};
use crate::store::fleet::error::FleetError;
use crate::store::fleet::leases::{Lease, ReplicaId, TrackId, fence, format, numbers};
use crate::store::fleet::upload::{Named, Shared};
use crate::store::{Image, Revision, RevisionId, StoreError};

/// What clients see of a track at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its name.
    pub id: GenerationId,
    /// Its revision.
    pub revision: RevisionId,
    /// The digest of the revision's content: after a failover that lost commits, a
    /// number may be assigned a second time.
    pub content: String,
    /// The row of its image.
    pub image: Option<i64>,
    /// When all turn to it, in microseconds of the database's clock; `None` while they
    /// fetch it.
    pub flips: Option<i64>,
}

/// A generation of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationId {
    /// The track.
    pub track: TrackId,
    /// Its number, from 1.
    pub number: i64,
}

/// How far the replicas are with a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The replicas that live, are ready and want the track.
    pub replicas: i64,
    /// Those of them that have it.
    pub having: i64,
    /// Whether the holder has it itself.
    pub mine: bool,
    /// Whether others live and want the track, ready or not.
    pub has_others: bool,
}

impl Fleet {
    /// The next number of a revision.
    pub async fn next_revision(&self) -> Result<RevisionId, FleetError> {
        let query = "SELECT nextval(pg_get_serial_sequence('revisions', 'id'))";
        let number = sqlx::query_scalar(query).fetch_one(&self.pool).await;
        number
            .map(RevisionId)
            .map_err(FleetError::sql("number a revision"))
    }

    /// The generations of some tracks: the last one with a moment, and those after it.
    pub async fn generations(&self, tracks: &[TrackId]) -> Result<Vec<Generation>, FleetError> {
        let query = sqlx::query(
            "SELECT g.track, g.number, g.revision, r.content, g.image,
               (extract(epoch FROM g.flips) * 1000000)::bigint AS flips
             FROM generations g JOIN revisions r ON r.id = g.revision
             WHERE g.track = ANY($1) AND g.number >= coalesce((
               SELECT max(t.number) FROM generations t
               WHERE t.track = g.track AND t.flips IS NOT NULL), 0)
             ORDER BY g.track, g.number",
        );
        let rows = query.bind(numbers(tracks)).fetch_all(&self.pool).await;
        let rows = rows.map_err(FleetError::sql("list generations"))?;
        Ok(rows.iter().map(generation).collect())
    }

    /// Announces a revision whose files are in the bucket, with its image; without one, it
    /// has that of the generation before.
    pub async fn prepare_revision(
        &self,
        lease: Lease,
        revision: &Revision,
        files: &Shared,
        image: Option<(&Image, &Shared)>,
    ) -> Result<GenerationId, FleetError> {
        let action = "publish a revision";
        let begun = self.pool.begin().await;
        let mut transaction = begun.map_err(FleetError::sql(action))?;
        fence(&mut transaction, lease).await?;
        touch(&mut transaction, &files.0).await?;
        let statement = sqlx::query(
            "INSERT INTO revisions (id, track, digest, content, modified)
             VALUES ($1, $2, $3, $4, $5)",
        );
        let done = statement
            .bind(revision.id.0)
            .bind(lease.track.0)
            .bind(revision.digest.to_string())
            .bind(revision.content.to_string())
            .bind(crate::store::sql::seconds(revision.modified))
            .execute(&mut *transaction)
            .await;
        done.map_err(FleetError::sql(action))?;
        let statement = sqlx::query(
            "INSERT INTO files (revision, format, name, digest, incarnation)
             SELECT $1, $2, * FROM unnest($3::text[], $4::bytea[], $5::bigint[])",
        );
        let done = statement
            .bind(revision.id.0)
            .bind(format())
            .bind(
                files
                    .0
                    .iter()
                    .map(|file| file.name.clone())
                    .collect::<Vec<_>>(),
            )
            .bind(digests(&files.0))
            .bind(incarnations(&files.0))
            .execute(&mut *transaction)
            .await;
        done.map_err(FleetError::sql(action))?;
        let number = match image {
            Some((image, parts)) => {
                touch(&mut transaction, &parts.0).await?;
                Some(insert_image(&mut transaction, revision.id, image, parts).await?)
            }
            None => None,
        };
        let id = announce(&mut transaction, lease, revision.id, number).await?;
        let committed = transaction.commit().await;
        committed.map_err(FleetError::sql(action))?;
        Ok(id)
    }

    /// Announces another image of the revision that all serve. Its parts are in the
    /// bucket.
    pub async fn prepare_image(
        &self,
        lease: Lease,
        revision: RevisionId,
        image: &Image,
        parts: &Shared,
    ) -> Result<GenerationId, FleetError> {
        let action = "publish an image";
        let begun = self.pool.begin().await;
        let mut transaction = begun.map_err(FleetError::sql(action))?;
        fence(&mut transaction, lease).await?;
        touch(&mut transaction, &parts.0).await?;
        let number = insert_image(&mut transaction, revision, image, parts).await?;
        let id = announce(&mut transaction, lease, revision, Some(number)).await?;
        let committed = transaction.commit().await;
        committed.map_err(FleetError::sql(action))?;
        Ok(id)
    }

    /// Leaves a receipt: this replica has the generation on its disk, and open.
    pub async fn leave_receipt(&self, me: ReplicaId, id: GenerationId) -> Result<(), FleetError> {
        let statement = sqlx::query(
            "INSERT INTO receipts (track, number, replica)
             SELECT track, number, $3 FROM generations WHERE track = $1 AND number = $2
             ON CONFLICT DO NOTHING",
        );
        let statement = statement.bind(id.track.0).bind(id.number).bind(me.0);
        let done = statement.execute(&self.pool).await;
        done.map(drop).map_err(FleetError::sql("leave a receipt"))
    }

    /// How far the replicas are with a generation.
    pub async fn prepared(&self, me: ReplicaId, id: GenerationId) -> Result<Prepared, FleetError> {
        let query = sqlx::query(
            "WITH wanting AS (
               SELECT id FROM replicas
               WHERE expires > clock_timestamp() AND ready AND $1 = ANY(wants)
             ), got AS (SELECT replica FROM receipts WHERE track = $1 AND number = $2)
             SELECT (SELECT count(*) FROM wanting),
               (SELECT count(*) FROM wanting WHERE id IN (SELECT replica FROM got)),
               EXISTS (SELECT 1 FROM got WHERE replica = $3),
               EXISTS (SELECT 1 FROM replicas
                 WHERE expires > clock_timestamp() AND $1 = ANY(wants) AND id <> $3)",
        );
        let query = query.bind(id.track.0).bind(id.number).bind(me.0);
        let row = query.fetch_one(&self.pool).await;
        let row = row.map_err(FleetError::sql("count receipts"))?;
        Ok(Prepared {
            replicas: row.get(0),
            having: row.get(1),
            mine: row.get(2),
            has_others: row.get(3),
        })
    }

    /// Sets the moment at which all turn to a generation.
    pub async fn turn(
        &self,
        lease: Lease,
        id: GenerationId,
        after: Duration,
    ) -> Result<(), FleetError> {
        let action = "turn to a generation";
        let begun = self.pool.begin().await;
        let mut transaction = begun.map_err(FleetError::sql(action))?;
        fence(&mut transaction, lease).await?;
        let change = next_change(&mut transaction).await?;
        let statement = sqlx::query(
            "UPDATE generations SET change = $4,
               flips = clock_timestamp() + $3 * interval '1 millisecond'
             WHERE track = $1 AND number = $2 AND flips IS NULL
               AND number = (SELECT max(number) FROM generations WHERE track = $1)",
        );
        let done = statement
            .bind(id.track.0)
            .bind(id.number)
            .bind(i64::try_from(after.as_millis()).unwrap_or(0))
            .bind(change)
            .execute(&mut *transaction)
            .await;
        done.map_err(FleetError::sql(action))?;
        notify(&mut transaction).await?;
        let committed = transaction.commit().await;
        committed.map_err(FleetError::sql(action))
    }
}

async fn insert_image(
    connection: &mut PgConnection,
    revision: RevisionId,
    image: &Image,
    parts: &Shared,
) -> Result<i64, FleetError> {
    let action = "record an image";
    let document = serde_json::to_string(image);
    let document = document.map_err(StoreError::encode("an image"))?;
    let query =
        sqlx::query_scalar("INSERT INTO images (revision, document) VALUES ($1, $2) RETURNING id");
    let row = query.bind(revision.0).bind(document);
    let row = row.fetch_one(&mut *connection).await;
    let number: i64 = row.map_err(FleetError::sql(action))?;
    let statement = sqlx::query(
        "INSERT INTO image_parts (image, digest, incarnation)
         SELECT $1, * FROM unnest($2::bytea[], $3::bigint[])",
    );
    let done = statement
        .bind(number)
        .bind(digests(&parts.0))
        .bind(incarnations(&parts.0))
        .execute(connection)
        .await;
    done.map_err(FleetError::sql(action))?;
    Ok(number)
}

/// Makes the next generation of a track.
async fn announce(
    connection: &mut PgConnection,
    lease: Lease,
    revision: RevisionId,
    image: Option<i64>,
) -> Result<GenerationId, FleetError> {
    let change = next_change(connection).await?;
    let query = sqlx::query_scalar(
        "WITH last AS (
           SELECT number, image FROM generations WHERE track = $1 ORDER BY number DESC LIMIT 1)
         INSERT INTO generations (track, number, revision, image, epoch, change)
         SELECT $1, coalesce((SELECT number FROM last), 0) + 1, $2,
           coalesce($3, (SELECT image FROM last)), $4, $5
         RETURNING number",
    );
    let row = query
        .bind(lease.track.0)
        .bind(revision.0)
        .bind(image)
        .bind(lease.epoch)
        .bind(change)
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

/// Marks objects as needed, so that no collection removes them before this transaction
/// names them.
async fn touch(connection: &mut PgConnection, objects: &[Named]) -> Result<(), FleetError> {
    let statement = sqlx::query(
        "UPDATE objects SET touched = clock_timestamp()
         WHERE state = 'there' AND (digest, incarnation) IN (
           SELECT * FROM unnest($1::bytea[], $2::bigint[]))",
    );
    let done = statement
        .bind(digests(objects))
        .bind(incarnations(objects))
        .execute(connection)
        .await;
    let done = done.map_err(FleetError::sql("keep objects"))?;
    let mut distinct = digests(objects);
    distinct.sort_unstable();
    distinct.dedup();
    if done.rows_affected() == distinct.len() as u64 {
        Ok(())
    } else {
        Err(FleetError::Gone)
    }
}

fn digests(objects: &[Named]) -> Vec<Vec<u8>> {
    let digests = objects
        .iter()
        .map(|object| object.digest.as_bytes().to_vec());
    digests.collect()
}

fn incarnations(objects: &[Named]) -> Vec<i64> {
    objects.iter().map(|object| object.incarnation).collect()
}

fn generation(row: &PgRow) -> Generation {
    Generation {
        id: GenerationId {
            track: TrackId(row.get("track")),
            number: row.get("number"),
        },
        revision: RevisionId(row.get("revision")),
        content: row.get("content"),
        image: row.get("image"),
        flips: row.get("flips"),
    }
}
