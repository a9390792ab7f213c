//! Compares the rows of revisions with their folders and records.

use sqlx::Row as _;

use crate::store::file_io::{DiskError, blocking};
use crate::store::files::sums::Stamps;
use crate::store::record::{self, IMAGE_RECORD, RECORD};
use crate::store::revision::RevisionId;
use crate::store::revisions::recorded::{insert_recorded, scan};
use crate::store::{Damage, Store, StoreError, sql};

impl Store {
    /// Uses the newest recorded revision of a catalog whose current one has no
    /// folder. An older database was restored, or lost its log: the revision that
    /// it names was replaced since, and the next one has no row.
    pub(crate) async fn adopt_newer(&self) -> Result<(), StoreError> {
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

    /// The records of a revision that are missing or damaged, by their names.
    pub async fn damaged_records(
        &self,
        id: RevisionId,
    ) -> Result<Vec<(&'static str, Damage)>, StoreError> {
        let query = sqlx::query("SELECT 1 FROM images WHERE revision = ?").bind(id.0);
        let image = sql::first(&self.pool, "look up an image", query).await?;
        let mut names = vec![RECORD];
        names.extend(image.map(|_| IMAGE_RECORD));
        let folder = self.revision_folder(id);
        let verified = blocking("read", folder, move |folder| {
            let damage = |name| {
                let path = folder.join(name);
                let reason = match record::is_whole(&path) {
                    Ok(true) => return None,
                    Ok(false) => "it is missing, or not what was written".to_owned(),
                    Err(error) => error.to_string(),
                };
                Some((name, Damage { path, reason }))
            };
            Ok(names.into_iter().filter_map(damage).collect())
        });
        Ok(verified.await?)
    }

    /// The stamps of a revision's records. This blocks.
    pub fn record_stamps(&self, id: RevisionId) -> Stamps {
        Stamps::from_files(&self.revision_folder(id), [RECORD, IMAGE_RECORD])
    }
}
