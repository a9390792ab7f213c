//! Generations: what a track shows, one row after another. Replicas show the newest one.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection as _, Row as _};

use crate::fleet::error::FleetError;
use crate::fleet::fleet_metrics;
use crate::fleet::numbers::{GenerationNumber, TrackId, numbers};
use crate::fleet::object::{OUTLINE, Object};
use crate::fleet::session::{CHANNEL, SessionNumber, statements};
use crate::fleet::shared::Fleet;
use crate::fleet::statements::{execute, rows};
use crate::name::CatalogName;
use crate::store::{Image, PastRevision, RevisionId, StoreError};

/// The longest time of a publication: an import has many catalogs.
const PUBLISHING: Duration = Duration::from_secs(30);
/// What an object of an image has as its name: its digest.
const PARTS: &str = "sha256:%";

/// What replicas show of a track.
#[derive(Clone, Debug)]
pub struct Generation {
    /// Its number.
    pub number: GenerationNumber,
    /// Its track.
    pub track: TrackId,
    /// Its revision: the number of the generation that brought it.
    pub revision: RevisionId,
    /// The digest of the revision's content.
    pub content: String,
    /// The date of its content, in seconds since 1970 of the database's clock.
    pub modified: i64,
    /// Its image, and the revision that it was made of.
    pub image: Option<(RevisionId, Image)>,
    /// When the pass began that found it at its source.
    pub resolved: Option<Instant>,
    /// Whether webhooks have not been notified of its revision.
    pub is_unnotified: bool,
}

/// A revision to publish, whose objects are in the bucket.
#[derive(Clone, Debug)]
pub struct Publication {
    /// Its track.
    pub track: TrackId,
    /// Its catalog.
    pub catalog: CatalogName,
    /// Its number, which is that of the generation.
    pub revision: RevisionId,
    /// The digest of its content.
    pub content: String,
    /// What the history keeps of it, as JSON.
    pub published: String,
    /// Its files.
    pub files: Vec<Object>,
    /// Its image and the image's parts; without one, that of the generation before stays.
    pub image: Option<(Image, Vec<Object>)>,
    /// Revisions before it that only another store had, and their outlines.
    pub past: Vec<(PastRevision, Option<Object>)>,
    /// The time since the pass began that found it at its source.
    pub resolved: Option<Duration>,
}

impl Fleet {
    /// The number of a revision that is being made, which is above `last`.
    pub async fn next_revision(&self, last: RevisionId) -> Result<RevisionId, FleetError> {
        let work = statements(move |connection| {
            async move {
                pass_number(&mut *connection, last).await?;
                let query = sqlx::query_scalar("SELECT nextval('generation_numbers')");
                let number = query.fetch_one(connection).await;
                let number = number.map(RevisionId::from_number);
                number.map_err(FleetError::sql("number a revision"))
            }
            .boxed()
        });
        self.session().run(work).await
    }

    /// The newest generations of some tracks.
    pub async fn newest(&self, tracks: Vec<TrackId>) -> Result<Vec<Generation>, FleetError> {
        let work = statements(move |connection| newest(connection, tracks).boxed());
        self.session().run(work).await
    }

    /// The newest generation of each catalog, whichever track it is of.
    pub async fn served(&self) -> Result<Vec<(CatalogName, Generation)>, FleetError> {
        let query = sqlx::query(
            "SELECT DISTINCT ON (t.catalog) t.catalog, g.*,
               extract(epoch FROM clock_timestamp() - g.resolved)::float8 AS age
             FROM tracks t JOIN generations g ON g.number = t.newest
             ORDER BY t.catalog, g.number DESC",
        );
        let rows = self.session().rows(None, "list generations", query).await?;
        let named = rows.iter().filter_map(|row| {
            let name: CatalogName = row.get::<&str, _>("catalog").parse().ok()?;
            Some(generation(row).map(|generation| (name, generation)))
        });
        named.collect()
    }

    /// Publishes revisions, all or none, in a session that holds the locks of their tracks.
    ///
    /// # Errors
    /// With [`FleetError::Fenced`] when it does not hold them any more.
    pub async fn publish(
        &self,
        session: SessionNumber,
        publications: Vec<Publication>,
    ) -> Result<Vec<GenerationNumber>, FleetError> {
        let work = statements(move |connection| publish(connection, publications).boxed());
        self.session()
            .run_for(PUBLISHING, Some(session), work)
            .await
    }

    /// Publishes another image of the newest revision of a track. `None` when the track has
    /// another revision meanwhile.
    pub async fn publish_image(
        &self,
        session: SessionNumber,
        track: TrackId,
        revision: RevisionId,
        (image, parts): (Image, Vec<Object>),
    ) -> Result<Option<GenerationNumber>, FleetError> {
        let image = document(&image)?;
        let work = statements(move |connection| {
            publish_image(connection, track, revision, image, parts).boxed()
        });
        self.session().run_in(session, work).await
    }

    /// Records that webhooks were notified of a revision of a track.
    pub async fn record_notified(
        &self,
        track: TrackId,
        revision: RevisionId,
    ) -> Result<(), FleetError> {
        let statement = sqlx::query(
            "UPDATE generations SET unnotified = false WHERE track = $1 AND revision = $2",
        );
        let statement = statement.bind(track.0).bind(revision.number());
        let session = self.session();
        session.execute(None, "record an event", statement).await?;
        Ok(())
    }

    /// Asks all replicas to retry at once what fails.
    pub async fn ask_for_retries(&self) -> Result<(), FleetError> {
        let work = statements(|connection| notify(connection, super::session::RETRY).boxed());
        self.session().run(work).await
    }
}

/// Has later numbers given than this one: after a restore, the database would give again those
/// that replicas have.
pub(super) async fn pass_number(
    connection: &mut PgConnection,
    last: RevisionId,
) -> Result<(), FleetError> {
    let statement = sqlx::query(
        "SELECT setval('generation_numbers', $1) FROM generation_numbers WHERE last_value <= $1",
    );
    let statement = statement.bind(last.number());
    execute(connection, "number a revision", statement).await?;
    Ok(())
}

/// The newest generations of some tracks.
pub(super) async fn newest(
    connection: &mut PgConnection,
    tracks: Vec<TrackId>,
) -> Result<Vec<Generation>, FleetError> {
    let query = sqlx::query(
        "SELECT g.*, extract(epoch FROM clock_timestamp() - g.resolved)::float8 AS age
         FROM tracks t JOIN generations g ON g.number = t.newest WHERE t.id = ANY($1)",
    );
    let query = query.bind(numbers(&tracks));
    let rows = rows(connection, "list generations", query).await?;
    // One that cannot be used keeps no other catalog back: it counts as none, so that the
    // holder publishes another.
    let usable = rows.iter().filter_map(|row| {
        let found = generation(row).inspect_err(fleet_metrics::failed);
        found.ok()
    });
    Ok(usable.collect())
}

async fn publish(
    connection: &mut PgConnection,
    publications: Vec<Publication>,
) -> Result<Vec<GenerationNumber>, FleetError> {
    let action = "publish a revision";
    let begun = connection.begin().await;
    let mut transaction = begun.map_err(FleetError::sql(action))?;
    let mut published = Vec::with_capacity(publications.len());
    for publication in publications {
        fence(&mut transaction, publication.track).await?;
        published.push(insert(&mut transaction, publication).await?);
    }
    notify(&mut transaction, "").await?;
    let committed = transaction.commit().await;
    committed.map_err(FleetError::sql(action))?;
    Ok(published)
}

/// Refuses to go on without the lock of a track. The rows of all tracks of its catalog are
/// locked, so that dates are given one after another.
async fn fence(connection: &mut PgConnection, track: TrackId) -> Result<(), FleetError> {
    let query = sqlx::query_scalar(
        "SELECT EXISTS (
           SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = 2 AND objsubid = 2
             AND objid::bigint = $1 AND pid = pg_backend_pid() AND granted)
         FROM tracks WHERE catalog = (SELECT catalog FROM tracks WHERE id = $1)
         ORDER BY id FOR UPDATE",
    );
    let held = query.bind(track.0).fetch_all(connection).await;
    let held: Vec<bool> = held.map_err(FleetError::sql("look up the lock"))?;
    match held.first() {
        Some(true) => Ok(()),
        _ => Err(FleetError::Fenced),
    }
}

async fn insert(
    connection: &mut PgConnection,
    publication: Publication,
) -> Result<GenerationNumber, FleetError> {
    let Publication {
        track,
        catalog,
        revision,
        content,
        published,
        files,
        image,
        past,
        resolved,
    } = publication;
    let (image, parts) = match image {
        Some((image, parts)) => (Some(document(&image)?), Some(parts)),
        None => (None, None),
    };
    // The same content keeps its date, other content gets a later one: some clients compare
    // nothing but the date.
    let statement = sqlx::query(
        "WITH latest AS (
           SELECT g.modified, g.content FROM generations g JOIN tracks t ON t.id = g.track
           WHERE t.catalog = $3 ORDER BY g.modified DESC, g.number DESC LIMIT 1
         ), before AS (
           SELECT g.image, g.image_revision FROM tracks t JOIN generations g ON g.number = t.newest
           WHERE t.id = $2)
         INSERT INTO generations
           (number, track, revision, content, modified, published, image, image_revision,
            resolved, unnotified)
         SELECT $1, $2, $1, $4,
           CASE WHEN (SELECT content FROM latest) = $4 THEN (SELECT modified FROM latest)
             ELSE greatest(extract(epoch FROM clock_timestamp())::bigint,
               1 + coalesce((SELECT modified FROM latest), 0)) END,
           $5, coalesce($6, (SELECT image FROM before)),
           CASE WHEN $6 IS NULL THEN (SELECT image_revision FROM before) ELSE $1 END,
           clock_timestamp() - $7::float8 * interval '1 second', true",
    );
    let statement = statement
        .bind(revision.number())
        .bind(track.0)
        .bind(catalog.to_string())
        .bind(content)
        .bind(published.clone())
        .bind(image)
        .bind(resolved.map(|age| age.as_secs_f64()));
    execute(connection, "publish a revision", statement).await?;
    let outline = files.iter().find(|file| file.name == OUTLINE).cloned();
    insert_objects(connection, revision.number(), &files).await?;
    match parts {
        Some(parts) => insert_objects(connection, revision.number(), &parts).await?,
        None => copy_objects(connection, track, revision.number(), true).await?,
    }
    set_newest(connection, track, revision.number()).await?;
    let mut history = Vec::with_capacity(past.len() + 1);
    for (past, outline) in past {
        history.push((past.id, document(&past.published)?, outline));
    }
    history.push((revision, published, outline));
    insert_history(connection, &catalog, history).await?;
    Ok(GenerationNumber(revision.number()))
}

async fn publish_image(
    connection: &mut PgConnection,
    track: TrackId,
    revision: RevisionId,
    image: String,
    parts: Vec<Object>,
) -> Result<Option<GenerationNumber>, FleetError> {
    let action = "publish an image";
    let begun = connection.begin().await;
    let mut transaction = begun.map_err(FleetError::sql(action))?;
    fence(&mut transaction, track).await?;
    let query = sqlx::query_scalar(
        "INSERT INTO generations
           (number, track, revision, content, modified, published, image, image_revision,
            resolved, unnotified)
         SELECT nextval('generation_numbers'), g.track, g.revision, g.content, g.modified,
           g.published, $3, $2, g.resolved, g.unnotified
         FROM tracks t JOIN generations g ON g.number = t.newest
         WHERE t.id = $1 AND g.revision = $2 RETURNING number",
    );
    let query = query.bind(track.0).bind(revision.number()).bind(image);
    let number = query.fetch_optional(&mut *transaction).await;
    let number: Option<i64> = number.map_err(FleetError::sql(action))?;
    let Some(number) = number else {
        return Ok(None);
    };
    copy_objects(&mut transaction, track, number, false).await?;
    insert_objects(&mut transaction, number, &parts).await?;
    set_newest(&mut transaction, track, number).await?;
    notify(&mut transaction, "").await?;
    let committed = transaction.commit().await;
    committed.map_err(FleetError::sql(action))?;
    Ok(Some(GenerationNumber(number)))
}

/// Makes a generation the newest one of its track.
async fn set_newest(
    connection: &mut PgConnection,
    track: TrackId,
    number: i64,
) -> Result<(), FleetError> {
    let statement =
        sqlx::query("UPDATE tracks SET newest = $2 WHERE id = $1 AND coalesce(newest, 0) < $2");
    let statement = statement.bind(track.0).bind(number);
    match execute(connection, "publish a generation", statement).await? {
        1 => Ok(()),
        _ => Err(FleetError::Row("tracks")),
    }
}

async fn insert_objects(
    connection: &mut PgConnection,
    generation: i64,
    objects: &[Object],
) -> Result<(), FleetError> {
    let statement = sqlx::query(
        "INSERT INTO objects (generation, name, digest, size, coding)
         SELECT $1, * FROM unnest($2::text[], $3::bytea[], $4::bigint[], $5::text[])",
    );
    let names: Vec<String> = objects.iter().map(|one| one.name.clone()).collect();
    let digests = objects.iter().map(|one| one.digest.as_bytes().to_vec());
    let codings = objects.iter().map(|one| one.coding.as_str().to_owned());
    let statement = statement
        .bind(generation)
        .bind(names)
        .bind(digests.collect::<Vec<_>>())
        .bind(objects.iter().map(|one| one.size).collect::<Vec<_>>())
        .bind(codings.collect::<Vec<_>>());
    execute(connection, "record objects", statement).await?;
    Ok(())
}

/// Copies the list of files from the newest generation of a track, or that of `parts`.
async fn copy_objects(
    connection: &mut PgConnection,
    track: TrackId,
    generation: i64,
    parts: bool,
) -> Result<(), FleetError> {
    let statement = sqlx::query(
        "INSERT INTO objects (generation, name, digest, size, coding)
         SELECT $1, o.name, o.digest, o.size, o.coding
         FROM tracks t JOIN objects o ON o.generation = t.newest
         WHERE t.id = $2 AND (o.name LIKE $3) = $4",
    );
    let statement = statement
        .bind(generation)
        .bind(track.0)
        .bind(PARTS)
        .bind(parts);
    execute(connection, "record objects", statement).await?;
    Ok(())
}

/// Adds revisions of a catalog to the history, each with what is kept of it.
async fn insert_history(
    connection: &mut PgConnection,
    catalog: &CatalogName,
    revisions: Vec<(RevisionId, String, Option<Object>)>,
) -> Result<(), FleetError> {
    let statement = sqlx::query(
        "INSERT INTO history (catalog, revision, published, outline, size)
         SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::bytea[], $5::bigint[])
         ON CONFLICT DO NOTHING",
    );
    let (mut numbers, mut published) = (Vec::new(), Vec::new());
    let (mut outlines, mut sizes) = (Vec::new(), Vec::new());
    for (revision, text, outline) in revisions {
        numbers.push(revision.number());
        published.push(text);
        sizes.push(outline.as_ref().map(|one| one.size));
        outlines.push(outline.map(|one| one.digest.as_bytes().to_vec()));
    }
    let statement = statement
        .bind(catalog.to_string())
        .bind(numbers)
        .bind(published)
        .bind(outlines)
        .bind(sizes);
    execute(connection, "record the history", statement).await?;
    Ok(())
}

/// Only a hint that saves the wait for the next beat.
async fn notify(connection: &mut PgConnection, text: &'static str) -> Result<(), FleetError> {
    let statement = sqlx::query("SELECT pg_notify($1, $2)");
    let statement = statement.bind(CHANNEL).bind(text);
    execute(connection, "notify the replicas", statement).await?;
    Ok(())
}

/// The generation of a row, which may be forged.
fn generation(row: &PgRow) -> Result<Generation, FleetError> {
    let image: Option<&str> = row.get("image");
    let image = image.map(serde_json::from_str).transpose();
    let image = image.map_err(|_| FleetError::Row("generations"))?;
    let of: Option<i64> = row.get("image_revision");
    let age: Option<f64> = row.get("age");
    let age = age.and_then(|age| Duration::try_from_secs_f64(age.max(0.0)).ok());
    Ok(Generation {
        number: GenerationNumber(row.get("number")),
        track: TrackId(row.get("track")),
        revision: RevisionId::from_number(row.get("revision")),
        content: row.get("content"),
        modified: row.get("modified"),
        image: of.map(RevisionId::from_number).zip(image),
        resolved: age.and_then(|age| Instant::now().checked_sub(age)),
        is_unnotified: row.get("unnotified"),
    })
}

pub(super) fn document(value: &impl serde::Serialize) -> Result<String, FleetError> {
    let text = serde_json::to_string(value);
    Ok(text.map_err(StoreError::encode("a row of the fleet"))?)
}
