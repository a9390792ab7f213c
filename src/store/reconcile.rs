//! Compares the rows of revisions with their folders, at a start.

use sqlx::Row as _;

use crate::answers::index::FORMAT;
use crate::store::disk::DiskError;
use crate::store::record::{self, IMAGE_RECORD, RECORD};
use crate::store::recorded::{insert_recorded, scan};
use crate::store::revision::RevisionId;
use crate::store::{Store, StoreError, sql};

impl Store {
    /// Uses the newest recorded revision of a catalog whose current one has no
    /// folder. An older database was restored, or lost its log: the revision that
    /// it names was replaced since, and the next one has no row.
    pub(super) async fn adopt_newer(&self) -> Result<(), StoreError> {
        let query = sqlx::query("SELECT name, current FROM catalogs WHERE current IS NOT NULL");
        let mut gone = Vec::new();
        for row in sql::all(&self.pool, "list the catalogs", query).await? {
            let folder = self.revision_folder(RevisionId(row.get("current")));
            let exists = folder.try_exists();
            if !exists.map_err(DiskError::at("look up", &folder))? {
                gone.push(row.get::<String, _>("name"));
            }
        }
        if gone.is_empty() {
            return Ok(());
        }
        let known = self.revision_ids().await?;
        let found = scan(&self.revisions_folder())?;
        let mut transaction = self.begin().await?;
        for catalog in &gone {
            let newest = found.recorded.iter().rev().find(|(id, (record, _))| {
                record.catalog.as_str() == catalog && !known.contains(*id)
            });
            let Some((id, (record, image))) = newest else {
                continue;
            };
            insert_recorded(&mut transaction, *id, record, image.as_ref()).await?;
            tracing::warn!(
                catalog, revision = %id,
                "the database is older than the stored files: the newest revision is used"
            );
        }
        let committed = transaction.commit().await;
        committed.map_err(StoreError::sql("commit"))
    }

    /// Has current revisions without a whole record rebuilt, which writes one: the
    /// sums of their files are forgotten, as if a version without sums had written
    /// them.
    pub(super) async fn have_records_written(&self) -> Result<(), StoreError> {
        let query = sqlx::query(
            "SELECT id, EXISTS (SELECT 1 FROM images WHERE revision = revisions.id) AS has_image
             FROM revisions WHERE format = ? AND id IN (SELECT revision FROM revision_files)",
        );
        let query = query.bind(FORMAT);
        for row in sql::all(&self.pool, "list the revisions", query).await? {
            let id = RevisionId(row.get("id"));
            let folder = self.revision_folder(id);
            let mut is_recorded = record::is_whole(&folder.join(RECORD))?;
            if row.get::<bool, _>("has_image") {
                is_recorded &= record::is_whole(&folder.join(IMAGE_RECORD))?;
            }
            if !is_recorded {
                tracing::warn!(
                    path = %folder.display(),
                    "a stored revision has no whole record: its files are rebuilt"
                );
                let statement = sqlx::query("DELETE FROM revision_files WHERE revision = ?");
                let statement = statement.bind(id.0);
                sql::execute(&self.pool, "forget the sums of files", statement).await?;
            }
        }
        Ok(())
    }
}
