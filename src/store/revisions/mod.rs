//! Revisions in the database: named by rows, complete on disk, never changed.

pub(crate) mod commit;
pub(crate) mod forget;
pub(crate) mod import;
pub(crate) mod keep;
pub(crate) mod output;
pub(crate) mod passes;
pub(crate) mod recorded;
pub(crate) mod search;
pub(crate) mod writer;

use std::collections::HashSet;
use std::fs;
use std::sync::Arc;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, Sqlite, SqliteExecutor, Transaction};

use crate::answers::index::FORMAT;
use crate::name::CatalogName;
use crate::store::file_io::{DiskError, blocking};
use crate::store::revision::{Counts, Revision, RevisionId, SourceIdentity};
use crate::store::sql::{self, time};
use crate::store::{Store, StoreError};
use ::images::digest::Digest;
use fbc::problem::Problem;

impl Store {
    /// The catalog's current revision, unless its files have another version's
    /// format.
    pub async fn current(&self, catalog: &CatalogName) -> Result<Option<Revision>, StoreError> {
        let query = sqlx::query(
            "SELECT revisions.* FROM catalogs JOIN revisions ON revisions.id = catalogs.current
             WHERE catalogs.name = ? AND revisions.format = ?",
        );
        let query = query.bind(catalog.as_str()).bind(FORMAT);
        let row = sql::first(&self.pool, "look up the current revision", query).await?;
        let Some(mut revision) = row.and_then(|row| revision(&row, catalog)) else {
            return Ok(None);
        };
        let sums = self.sums(revision.id).await;
        let sums = sql::unless_without_table(&self.pool, "revision_files", sums).await?;
        revision.files = Arc::new(sums.unwrap_or_default());
        Ok(Some(revision))
    }

    /// A revision that is on the disk, whether it is its catalog's current one or not.
    pub async fn kept(
        &self,
        catalog: &CatalogName,
        id: RevisionId,
    ) -> Result<Option<Revision>, StoreError> {
        let query = sqlx::query(
            "SELECT * FROM revisions WHERE id = ? AND catalog = ? AND format = ? AND damaged = 0",
        );
        let query = query.bind(id.0).bind(catalog.as_str()).bind(FORMAT);
        let row = sql::first(&self.pool, "look up a revision", query).await?;
        let Some(mut revision) = row.and_then(|row| revision(&row, catalog)) else {
            return Ok(None);
        };
        revision.files = Arc::new(self.sums(id).await?);
        Ok(Some(revision))
    }

    /// The blobs that a revision and its image need.
    pub async fn blobs_of(&self, id: RevisionId) -> Result<Vec<Digest>, StoreError> {
        let query = sqlx::query("SELECT digest FROM revision_blobs WHERE revision = ?");
        let rows = sql::all(&self.pool, "list the blobs", query.bind(id.0)).await?;
        let digests = rows.iter().map(|row| row.get::<&str, _>(0).parse());
        Ok(digests.filter_map(Result::ok).collect())
    }

    /// The names of all catalogs that have a revision, sorted.
    pub async fn catalogs(&self) -> Result<Vec<CatalogName>, StoreError> {
        let query =
            sqlx::query("SELECT name FROM catalogs WHERE current IS NOT NULL ORDER BY name");
        let rows = sql::all(&self.pool, "list the catalogs", query).await?;
        // A name that does not parse is none that this program wrote.
        let names = rows.iter().map(|row| row.get::<&str, _>(0).parse());
        Ok(names.filter_map(Result::ok).collect())
    }

    /// The problems of a revision.
    pub async fn problems(&self, id: RevisionId) -> Result<Vec<Problem>, StoreError> {
        let query = sqlx::query("SELECT problem FROM problems WHERE revision = ? ORDER BY number");
        let rows = sql::all(&self.pool, "list the problems", query.bind(id.0)).await?;
        let mut problems = Vec::with_capacity(rows.len());
        for row in &rows {
            match serde_json::from_str(row.get(0)) {
                Ok(problem) => problems.push(problem),
                Err(error) => {
                    tracing::warn!(revision = %id, %error, "cannot read a stored problem");
                }
            }
        }
        Ok(problems)
    }

    /// Removes all revisions of a catalog but the given one, and the blobs that
    /// nobody needs any more. Open files stay readable.
    pub async fn retire(&self, kept: &Revision) -> Result<(), StoreError> {
        let others = self.others(kept).await?;
        self.remove_replaced(&kept.catalog, others).await
    }

    /// As [`Store::retire`], of those that `is_spare` says. It is asked once the revisions
    /// are listed, so one that is made meanwhile stays.
    pub async fn retire_spare(
        &self,
        kept: &Revision,
        is_spare: impl Fn(RevisionId) -> bool,
    ) -> Result<(), StoreError> {
        let mut others = self.others(kept).await?;
        others.retain(|id| is_spare(*id));
        if others.is_empty() {
            return Ok(());
        }
        self.remove_replaced(&kept.catalog, others).await
    }

    /// Removes a kept revision that was not published.
    pub async fn discard(&self, revision: &Revision) -> Result<(), StoreError> {
        self.remove_replaced(&revision.catalog, vec![revision.id])
            .await
    }

    async fn others(&self, kept: &Revision) -> Result<Vec<RevisionId>, StoreError> {
        let query = sqlx::query("SELECT id FROM revisions WHERE catalog = ? AND id <> ?");
        let query = query.bind(kept.catalog.as_str()).bind(kept.id.0);
        let rows = sql::all(&self.pool, "list old revisions", query).await?;
        Ok(rows.iter().map(|row| RevisionId(row.get(0))).collect())
    }

    async fn remove_replaced(
        &self,
        catalog: &CatalogName,
        revisions: Vec<RevisionId>,
    ) -> Result<(), StoreError> {
        let blobs = self.blobs_of_replaced(Some(catalog.as_str())).await?;
        for id in revisions {
            self.remove_revision(id).await?;
        }
        self.release_blobs(&blobs).await?;
        self.tidy_blobs().await
    }

    /// The largest number of a revision that was ever kept here.
    pub async fn last_number(&self) -> Result<RevisionId, StoreError> {
        let query = sqlx::query(
            "SELECT max(coalesce((SELECT max(id) FROM revisions), 0),
               coalesce((SELECT max(revision) FROM history), 0))",
        );
        let row = sql::first(&self.pool, "look up the last number", query).await?;
        Ok(RevisionId(row.map_or(0, |row| row.get(0))))
    }

    async fn remove_revision(&self, id: RevisionId) -> Result<(), StoreError> {
        let statement = sqlx::query("DELETE FROM revisions WHERE id = ?").bind(id.0);
        sql::execute(&self.pool, "remove a revision", statement).await?;
        let (store, folder) = (self.clone(), self.revision_folder(id));
        let removed = blocking("remove", folder, move |folder| {
            let _alone = store.folders.lock();
            fs::remove_dir_all(folder).map_err(DiskError::at("remove", folder))
        });
        Ok(removed.await?)
    }

    pub(super) async fn revision_ids(&self) -> Result<HashSet<RevisionId>, StoreError> {
        let query = sqlx::query("SELECT id FROM revisions");
        let rows = sql::all(&self.pool, "list the revisions", query).await?;
        Ok(rows.iter().map(|row| RevisionId(row.get(0))).collect())
    }
}

/// Whether a revision has a row.
pub(super) async fn revision_exists(
    database: impl SqliteExecutor<'_>,
    id: RevisionId,
) -> Result<bool, StoreError> {
    let query = sqlx::query("SELECT id FROM revisions WHERE id = ?").bind(id.0);
    let row = sql::first(database, "look up a revision", query).await?;
    Ok(row.is_some())
}

/// Gives a catalog a row.
pub(super) async fn record_catalog(
    database: impl SqliteExecutor<'_>,
    catalog: &CatalogName,
) -> Result<(), StoreError> {
    let statement = sqlx::query("INSERT OR IGNORE INTO catalogs (name) VALUES (?)");
    let statement = statement.bind(catalog.as_str());
    sql::execute(database, "record the catalog", statement).await
}

/// Records that a revision needs these blobs.
pub(super) async fn insert_blobs(
    transaction: &mut Transaction<'_, Sqlite>,
    id: RevisionId,
    blobs: &[Digest],
) -> Result<(), StoreError> {
    for digest in blobs {
        let statement =
            sqlx::query("INSERT OR IGNORE INTO revision_blobs (revision, digest) VALUES (?, ?)")
                .bind(id.0)
                .bind(digest.to_string());
        sql::execute(&mut **transaction, "record a blob", statement).await?;
    }
    Ok(())
}

/// Reads a row. A digest that does not parse means that another program wrote
/// the row: the catalog then has no revision and is read again.
fn revision(row: &SqliteRow, catalog: &CatalogName) -> Option<Revision> {
    // No count that was written is negative.
    let count = |column| u64::try_from(row.get::<i64, _>(column)).unwrap_or(0);
    Some(Revision {
        id: RevisionId(row.get("id")),
        catalog: catalog.clone(),
        identity: SourceIdentity {
            source: row.get("source"),
            variant: row.get("variant"),
        },
        digest: row.get::<&str, _>("digest").parse().ok()?,
        content: row.get::<&str, _>("content").parse().ok()?,
        modified: time(row.get("modified")),
        committed: time(row.get("committed")),
        counts: Counts {
            metas: count("metas"),
            packages: count("packages"),
            channels: count("channels"),
            entries: count("entries"),
            bundles: count("bundles"),
            quarantined: count("quarantined"),
        },
        files: Arc::default(),
        // A store that is only read may be of an older version.
        damaged: row.try_get("damaged").unwrap_or(false),
    })
}
