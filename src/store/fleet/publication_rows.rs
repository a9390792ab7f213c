//! The rows of a publication: a revision, its files, an image, and the objects of both.

use std::collections::BTreeSet;

use sqlx::PgConnection;

use crate::store::fleet::error::FleetError;
use crate::store::fleet::leases::{Lease, format};
use crate::store::fleet::upload::{Named, Shared};
use crate::store::{Image, Revision, RevisionId, StoreError};

pub(super) async fn insert_revision(
    connection: &mut PgConnection,
    lease: Lease,
    revision: &Revision,
    untold: bool,
) -> Result<(), FleetError> {
    let published = serde_json::to_string(&revision.published());
    let published = published.map_err(StoreError::encode("a revision"))?;
    let statement = sqlx::query(
        "INSERT INTO revisions (id, track, digest, content, modified, published, variant, untold)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    );
    let done = statement
        .bind(revision.id.0)
        .bind(lease.track.0)
        .bind(revision.digest.to_string())
        .bind(revision.content.to_string())
        .bind(crate::store::sql::seconds(revision.modified))
        .bind(published)
        .bind(revision.identity.variant.as_deref())
        .bind(untold)
        .execute(connection)
        .await;
    done.map(drop)
        .map_err(FleetError::sql("publish a revision"))
}

pub(super) async fn insert_files(
    connection: &mut PgConnection,
    revision: RevisionId,
    files: &Shared,
) -> Result<(), FleetError> {
    let names = files.0.iter().map(|file| file.name.clone());
    let statement = sqlx::query(
        "INSERT INTO files (revision, format, name, digest, incarnation)
         SELECT $1, $2, * FROM unnest($3::text[], $4::bytea[], $5::bigint[])
         ON CONFLICT DO NOTHING",
    );
    let done = statement
        .bind(revision.0)
        .bind(format())
        .bind(names.collect::<Vec<_>>())
        .bind(digests(&files.0))
        .bind(incarnations(&files.0))
        .execute(connection)
        .await;
    done.map(drop)
        .map_err(FleetError::sql("publish a revision"))
}

pub(super) async fn insert_image(
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

/// Marks objects as needed, so that no collection removes them before this transaction
/// names them. All are locked at once and in one order: publications share objects.
pub(super) async fn touch<'a>(
    connection: &mut PgConnection,
    objects: impl Iterator<Item = &'a Named>,
) -> Result<(), FleetError> {
    let distinct: BTreeSet<(Vec<u8>, i64)> = objects
        .map(|object| (object.digest.as_bytes().to_vec(), object.incarnation))
        .collect();
    let wanted = distinct.len() as u64;
    let (digests, incarnations): (Vec<Vec<u8>>, Vec<i64>) = distinct.into_iter().unzip();
    let statement = sqlx::query(
        "WITH locked AS (
           SELECT digest, incarnation FROM objects
           WHERE state = 'there' AND (digest, incarnation) IN (
             SELECT * FROM unnest($1::bytea[], $2::bigint[]))
           ORDER BY digest, incarnation FOR UPDATE)
         UPDATE objects o SET touched = clock_timestamp() FROM locked l
         WHERE o.digest = l.digest AND o.incarnation = l.incarnation",
    );
    let done = statement.bind(digests).bind(incarnations);
    let done = done.execute(connection).await;
    let done = done.map_err(FleetError::sql("keep objects"))?;
    if done.rows_affected() == wanted {
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
