//! Uploads again what the bucket has lost.

use std::collections::BTreeSet;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Connection as _, Postgres, Row as _};

use crate::name::CatalogName;
use crate::store::fleet::error::FleetError;
use crate::store::fleet::leases::{TrackId, format};
use crate::store::fleet::pool::Fleet;
use crate::store::fleet::publication_rows::touch;
use crate::store::fleet::session::limited;
use crate::store::fleet::upload::{Shared, key};
use crate::store::revision::{OutlineName, Published};
use crate::store::{Image, RevisionId, Store, StoreError};
use ::images::digest::Digest;

/// The revisions and images of a track that name lost objects, the newest first: the current
/// one, and the last one announced after it. Replicas have no copies of older ones.
const WITH_LOST: &str = "SELECT g.revision, g.image, i.document,
    EXISTS (SELECT 1 FROM files f JOIN objects o USING (digest, incarnation)
      WHERE f.revision = g.revision AND f.format = $2 AND o.state = 'lost') AS of_revision,
    EXISTS (SELECT 1 FROM image_parts p JOIN objects o USING (digest, incarnation)
      WHERE p.image = g.image AND o.state = 'lost') AS of_image
  FROM generations g LEFT JOIN images i ON i.id = g.image
  WHERE g.track = $1 AND g.number IN (
    SELECT max(number) FROM generations WHERE track = $1
    UNION SELECT max(number) FROM generations WHERE track = $1 AND flips IS NOT NULL)
  ORDER BY g.number DESC";

/// The objects that these generations of a track name.
const NAMED: &str = "WITH last AS (
    SELECT revision, image FROM generations WHERE track = $1 AND number IN (
      SELECT max(number) FROM generations WHERE track = $1
      UNION SELECT max(number) FROM generations WHERE track = $1 AND flips IS NOT NULL))
  SELECT digest, incarnation FROM objects WHERE state = 'there' AND (digest, incarnation) IN (
    SELECT digest, incarnation FROM files
    WHERE format = $2 AND revision IN (SELECT revision FROM last)
    UNION SELECT digest, incarnation FROM image_parts WHERE image IN (SELECT image FROM last))";

/// How many lost objects are needed: those of these generations, and of the history.
const COUNT_LOST: &str = "WITH needed AS (
    SELECT revision, image FROM generations g
    WHERE number >= coalesce((SELECT max(number) FROM generations c
      WHERE c.track = g.track AND c.flips IS NOT NULL), 0))
  SELECT count(*) FROM objects o WHERE state = 'lost' AND (
    EXISTS (SELECT 1 FROM history h WHERE h.digest = o.digest AND h.incarnation = o.incarnation)
    OR EXISTS (SELECT 1 FROM files f JOIN needed g ON g.revision = f.revision
      WHERE f.digest = o.digest AND f.incarnation = o.incarnation AND f.format = $1)
    OR EXISTS (SELECT 1 FROM image_parts p JOIN needed g ON g.image = p.image
      WHERE p.digest = o.digest AND p.incarnation = o.incarnation))";

/// The history names outlines, too.
const RENAME_OUTLINE: &str = "UPDATE history h SET incarnation = $1 WHERE digest = $2
  AND EXISTS (SELECT 1 FROM objects o
    WHERE o.digest = h.digest AND o.incarnation = h.incarnation AND o.state = 'lost')";
/// The same for one revision of the history.
const RENAME_OUTLINE_OF: &str = "UPDATE history h SET digest = $1, incarnation = $2
  WHERE catalog = $3 AND revision = $4 AND EXISTS (SELECT 1 FROM objects o
    WHERE o.digest = h.digest AND o.incarnation = h.incarnation AND o.state = 'lost')";
/// Lost outlines of the history. Replicas keep outlines for long, also of revisions that are
/// gone.
const LOST_OUTLINES: &str = "SELECT h.revision, h.published, h.digest
  FROM history h JOIN objects o USING (digest, incarnation)
  WHERE h.catalog = $1 AND o.state = 'lost' ORDER BY h.revision DESC LIMIT 100";
/// Marks lost objects that nothing names any more.
const FORGET_LOST: &str = "UPDATE objects o SET state = 'going', touched = clock_timestamp()
  WHERE state = 'lost' AND digest = ANY($1)
    AND NOT EXISTS (SELECT 1 FROM files f
      WHERE f.digest = o.digest AND f.incarnation = o.incarnation)
    AND NOT EXISTS (SELECT 1 FROM image_parts p
      WHERE p.digest = o.digest AND p.incarnation = o.incarnation)
    AND NOT EXISTS (SELECT 1 FROM history h
      WHERE h.digest = o.digest AND h.incarnation = o.incarnation)";

type Statement<'a> = Query<'a, Postgres, PgArguments>;

/// What became of lost objects.
#[derive(Debug, Default)]
pub struct Restored {
    /// Whether any was uploaded.
    pub any: bool,
    /// The revisions of the history whose outlines this replica lacks too.
    pub without_outline: Vec<RevisionId>,
    /// The revisions that have lost objects whose bytes this replica lacks too.
    pub without_copy: Vec<RevisionId>,
}

impl Fleet {
    /// Uploads again what the last generations and the history of a track name and the bucket
    /// has lost, from the copies of this replica. Names of objects are those of their bytes,
    /// so that any replica may do so, also several at a time.
    ///
    /// # Errors
    /// When this replica lacks the bytes of a generation too.
    pub async fn restore(
        &self,
        store: &Store,
        catalog: &CatalogName,
        track: TrackId,
    ) -> Result<Restored, FleetError> {
        let action = "look for lost objects";
        let query = || sqlx::query(WITH_LOST).bind(track.0).bind(format());
        let mut restored = self.restore_outlines(store, catalog).await?;
        let mut rows = self.rows(action, query()).await?;
        let is_lost = |row: &PgRow| row.get::<bool, _>("of_revision") || row.get("of_image");
        if rows.iter().any(is_lost) {
            self.find_lost(track).await?;
            rows = self.rows(action, query()).await?;
        }
        for row in &rows {
            let id = RevisionId(row.get("revision"));
            if row.get::<bool, _>("of_revision") {
                if let Some(kept) = store.kept(catalog, id).await? {
                    let files = self.share_revision(store, None, &kept).await?;
                    let named = of_revision(id.0, &files);
                    limited(self.rename(&files, named, digests(&files))).await?;
                    restored.any = true;
                } else {
                    restored.without_copy.push(id);
                }
            }
            if let (true, Some(number)) = (row.get("of_image"), row.get("image")) {
                let image: Image = serde_json::from_str(row.get("document"))
                    .map_err(StoreError::encode("an image"))?;
                let contents = store.contents();
                if image
                    .parts()
                    .all(|part| contents.blob(&part.digest).is_some())
                {
                    let parts = self.share_image(store, None, (id, &image)).await?;
                    let named = of_image(number, &parts);
                    limited(self.rename(&parts, named, digests(&parts))).await?;
                    restored.any = true;
                } else if !restored.without_copy.contains(&id) {
                    restored.without_copy.push(id);
                }
            }
        }
        Ok(restored)
    }

    /// Uploads lost outlines of the history again. Those that this replica lacks stay lost.
    async fn restore_outlines(
        &self,
        store: &Store,
        catalog: &CatalogName,
    ) -> Result<Restored, FleetError> {
        let query = sqlx::query(LOST_OUTLINES).bind(catalog.as_str());
        let rows = self.rows("look for lost outlines", query).await?;
        let rows = rows.iter().filter_map(|row| {
            let published: Published = serde_json::from_str(row.get("published")).ok()?;
            let digest: &[u8] = row.get("digest");
            Some((row.get("revision"), published.outline(), digest.to_vec()))
        });
        let rows: Vec<(i64, OutlineName, Vec<u8>)> = rows.collect();
        let names: BTreeSet<OutlineName> = rows.iter().map(|(_, name, _)| *name).collect();
        let outlines = self.share_outlines(store, names.into_iter().collect());
        let outlines = outlines.await?;
        let find = |name: &OutlineName| {
            let name = name.to_string();
            outlines.0.iter().find(|one| one.name == name)
        };
        let missing = rows.iter().filter(|(_, name, _)| find(name).is_none());
        let restored = Restored {
            any: !outlines.0.is_empty(),
            without_outline: missing.map(|(id, ..)| RevisionId(*id)).collect(),
            without_copy: Vec::new(),
        };
        if outlines.0.is_empty() {
            return Ok(restored);
        }
        let renamed = rows.iter().filter_map(|(revision, name, _)| {
            let outline = find(name)?;
            let statement = sqlx::query(RENAME_OUTLINE_OF)
                .bind(&outline.digest.as_bytes()[..])
                .bind(outline.incarnation)
                .bind(catalog.as_str());
            Some(statement.bind(revision))
        });
        let lost = rows.iter().map(|(_, _, digest)| &digest[..]).collect();
        limited(self.rename(&outlines, renamed.collect(), lost)).await?;
        Ok(restored)
    }

    /// How many objects that are needed the bucket has lost.
    pub async fn count_lost(&self) -> Result<i64, FleetError> {
        let query = sqlx::query(COUNT_LOST).bind(format());
        Ok(self.row("count lost objects", query).await?.get(0))
    }

    /// Looks for the objects of a track in the bucket: where one is lost, others are.
    async fn find_lost(&self, track: TrackId) -> Result<(), FleetError> {
        let query = sqlx::query(NAMED).bind(track.0).bind(format());
        for row in &self.rows("list the objects of a catalog", query).await? {
            let bytes: &[u8] = row.get("digest");
            if let Ok(digest) = <[u8; 32]>::try_from(bytes) {
                let digest = Digest::from_bytes(digest);
                self.look_for(&digest, row.get("incarnation")).await?;
            }
        }
        Ok(())
    }

    /// Looks in the bucket for objects that were not sent, since the database told that they are
    /// there. Returns whether any is lost, which is uploaded when it is shared again.
    pub async fn note_lost(&self, objects: &Shared) -> Result<bool, FleetError> {
        let mut is_any_lost = false;
        for object in objects.0.iter().filter(|object| object.is_found) {
            is_any_lost |= !self.look_for(&object.digest, object.incarnation).await?;
        }
        Ok(is_any_lost)
    }

    /// Whether the bucket has an object. It is noted otherwise.
    async fn look_for(&self, digest: &Digest, incarnation: i64) -> Result<bool, FleetError> {
        let found = self.bucket.head(&key(digest, incarnation)).await?;
        let is_there = found.is_some();
        if !is_there {
            let statement = "UPDATE objects SET state = 'lost'
                WHERE digest = $1 AND incarnation = $2 AND state = 'there'";
            let statement = sqlx::query(statement).bind(&digest.as_bytes()[..]);
            let statement = statement.bind(incarnation);
            self.execute("note a lost object", statement).await?;
        }
        Ok(is_there)
    }

    /// Names the objects that have the bytes now, and marks lost ones that nothing names any more.
    async fn rename(
        &self,
        objects: &Shared,
        statements: Vec<Statement<'_>>,
        lost: Vec<&[u8]>,
    ) -> Result<(), FleetError> {
        let action = "name objects that were uploaded again";
        let mut session = self.session(action).await?;
        let begun = session.begin().await;
        let mut transaction = begun.map_err(FleetError::sql(action))?;
        touch(&mut transaction, objects.0.iter()).await?;
        for statement in statements
            .into_iter()
            .chain([sqlx::query(FORGET_LOST).bind(lost)])
        {
            let done = statement.execute(&mut *transaction).await;
            done.map_err(FleetError::sql(action))?;
        }
        let committed = transaction.commit().await;
        committed.map_err(FleetError::sql(action))?;
        session.release();
        Ok(())
    }
}

/// What names objects of a revision by their new names.
fn of_revision(id: i64, objects: &Shared) -> Vec<Statement<'_>> {
    let of_files = "UPDATE files f SET incarnation = $1 WHERE digest = $2 AND revision = $3
        AND format = $4 AND EXISTS (SELECT 1 FROM objects o
          WHERE o.digest = f.digest AND o.incarnation = f.incarnation AND o.state = 'lost')";
    let statements = objects.0.iter().flat_map(|object| {
        let digest = &object.digest.as_bytes()[..];
        let files = sqlx::query(of_files).bind(object.incarnation).bind(digest);
        let outline = sqlx::query(RENAME_OUTLINE);
        [
            files.bind(id).bind(format()),
            outline.bind(object.incarnation).bind(digest),
        ]
    });
    statements.collect()
}

/// What names parts of an image by their new names.
fn of_image(number: i64, objects: &Shared) -> Vec<Statement<'_>> {
    let statements = objects.0.iter().map(|object| {
        let of_parts = "UPDATE image_parts p SET incarnation = $1 WHERE digest = $2 AND image = $3
            AND EXISTS (SELECT 1 FROM objects o
              WHERE o.digest = p.digest AND o.incarnation = p.incarnation AND o.state = 'lost')";
        sqlx::query(of_parts)
            .bind(object.incarnation)
            .bind(&object.digest.as_bytes()[..])
            .bind(number)
    });
    statements.collect()
}

fn digests(objects: &Shared) -> Vec<&[u8]> {
    let digests = objects.0.iter();
    digests
        .map(|object| &object.digest.as_bytes()[..])
        .collect()
}
