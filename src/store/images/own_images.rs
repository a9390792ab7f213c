//! Records the images of current revisions, which take the place of earlier ones.

use sqlx::{Sqlite, Transaction};

use crate::store::images::earlier_images;
use crate::store::images::records::{Image, insert};
use crate::store::sql::whole;
use crate::store::{RevisionId, Store, StoreError, sql};
use ::images::digest::Digest;

impl Store {
    /// Records the image of a revision, in place of the one it had. Its blobs
    /// are in the store, and pinned. `false` when the revision is not the current
    /// one of its catalog any more.
    pub async fn record_image(&self, id: RevisionId, image: &Image) -> Result<bool, StoreError> {
        self.sync_contents().await?;
        let parts: Vec<Digest> = image.parts().map(|part| part.digest).collect();
        let (store, pins, image) = (self.clone(), self.pins(&parts), image.clone());
        whole(async move {
            let mut transaction = store.begin().await?;
            if !is_current(&mut transaction, id).await? {
                return Ok(false);
            }
            let earlier = store.insert_own_image(&mut transaction, id, &image).await?;
            let committed = transaction.commit().await;
            committed.map_err(StoreError::sql("commit"))?;
            drop(pins);
            store.release_earlier(&earlier).await?;
            Ok(true)
        })
        .await
    }

    /// Records the image of a current revision in a transaction. Returns the blobs of the one
    /// before, which clients saw until now.
    pub(crate) async fn insert_own_image(
        &self,
        transaction: &mut Transaction<'_, Sqlite>,
        id: RevisionId,
        image: &Image,
    ) -> Result<Vec<Digest>, StoreError> {
        insert(transaction, id, image).await?;
        let earlier = earlier_images::remove(transaction, id).await?;
        self.write_image_record(id, image).await?;
        Ok(earlier)
    }

    /// As [`Store::release_blobs`], if there are any.
    pub(crate) async fn release_earlier(&self, blobs: &[Digest]) -> Result<(), StoreError> {
        match blobs {
            [] => Ok(()),
            _ => self.release_blobs(blobs).await,
        }
    }
}

/// Whether a revision is the current one of its catalog.
async fn is_current(
    transaction: &mut Transaction<'_, Sqlite>,
    id: RevisionId,
) -> Result<bool, StoreError> {
    let query = sqlx::query("SELECT 1 FROM catalogs WHERE current = ?").bind(id.0);
    let row = sql::first(&mut **transaction, "look up the current revision", query).await?;
    Ok(row.is_some())
}
