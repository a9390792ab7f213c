//! Imports revisions of another store, with their dates.

use std::time::SystemTime;

use crate::store::columns::seconds;
use crate::store::commit::Dates;
use crate::store::{Finished, Image, NewRevision, Revision, RevisionId, Store, StoreError, images};

/// A revision to import.
pub struct Import<'a> {
    /// Its files.
    pub finished: Finished,
    /// Its description.
    pub new: NewRevision<'a>,
    /// The number that it had. It keeps it unless another revision has it here.
    pub id: RevisionId,
    /// When its content first became a revision.
    pub modified: SystemTime,
    /// When it was committed.
    pub committed: SystemTime,
    /// Its image. The blobs are in the store, and pinned.
    pub image: &'a Image,
}

impl Store {
    /// Imports all revisions, or none if anything fails. They become the current
    /// revisions of their catalogs.
    pub async fn import(&self, imports: Vec<Import<'_>>) -> Result<Vec<Revision>, StoreError> {
        let sql = StoreError::sql;
        self.sync_contents().await?;
        let mut revisions = Vec::with_capacity(imports.len());
        let mut transaction = self.begin().await?;
        for import in imports {
            let dates = Dates {
                modified: seconds(import.modified),
                committed: seconds(import.committed),
            };
            let wanted = Some(import.id);
            let revision = self
                .insert_revision(&mut transaction, import.finished, import.new, dates, wanted)
                .await?;
            images::insert(&mut transaction, revision.id, import.image).await?;
            revisions.push(revision);
        }
        transaction.commit().await.map_err(sql("commit"))?;
        Ok(revisions)
    }
}
