//! Revisions that come from another store, with the dates they had there.

use std::time::SystemTime;

use sqlx::Row as _;

use crate::name::CatalogName;
use crate::store::file_error::sync_folder;
use crate::store::revisions::{Dates, seconds};
use crate::store::{Finished, Image, NewRevision, Revision, RevisionId, Store, StoreError, images};

/// A revision to take over.
pub struct Import<'a> {
    /// Its files.
    pub finished: Finished,
    /// What it is made of.
    pub new: NewRevision<'a>,
    /// The number that it had, which it keeps if nothing else has it here.
    pub id: RevisionId,
    /// When its content first became a revision.
    pub modified: SystemTime,
    /// When it was committed.
    pub committed: SystemTime,
    /// What can be pulled of it. Its blobs are in the store, and pinned.
    pub image: &'a Image,
}

impl Store {
    /// Takes revisions over, all of them or, when anything fails, none. From
    /// here on they are their catalogs' current ones.
    pub async fn import(&self, imports: Vec<Import<'_>>) -> Result<Vec<Revision>, StoreError> {
        let sql = StoreError::sql;
        self.contents.sync()?;
        let mut revisions = Vec::with_capacity(imports.len());
        let mut transaction = self.begin().await?;
        for import in imports {
            let dates = Dates {
                modified: seconds(import.modified),
                committed: seconds(import.committed),
            };
            let wanted = Some(import.id);
            let revision = self
                .name(&mut transaction, import.finished, import.new, dates, wanted)
                .await?;
            images::insert(&mut transaction, revision.id, import.image).await?;
            revisions.push(revision);
        }
        sync_folder(&self.revisions_folder())?;
        transaction.commit().await.map_err(sql("commit"))?;
        Ok(revisions)
    }

    /// The names of all catalogs that have a revision, sorted.
    pub async fn catalogs(&self) -> Result<Vec<CatalogName>, StoreError> {
        let rows = sqlx::query("SELECT name FROM catalogs WHERE current IS NOT NULL ORDER BY name")
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::sql("list the catalogs"))?;
        let names = rows.iter().map(|row| row.get::<&str, _>(0).parse());
        Ok(names.filter_map(Result::ok).collect())
    }
}
