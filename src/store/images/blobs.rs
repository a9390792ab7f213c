//! Which blobs stay: those that a revision was made from stay as long as the
//! revision, and those of an earlier image as long as clients see it. The others
//! are spare; [`CacheLimits`](crate::store::CacheLimits) bound them by age and
//! size, so that broken images cannot fill the disk.

use std::collections::HashSet;

use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use crate::store::content::Contents;
use crate::store::file_io::{blocking, sync_folder};
use crate::store::images::earlier_images;
use crate::store::{BlobPin, Store, StoreError, sql};
use ::images::digest::Digest;

impl Store {
    /// The blobs, without SQL.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Removes spare blobs that are too old or too many. Blobs that a revision
    /// was made from, or that a pass needs, stay.
    pub async fn tidy_blobs(&self) -> Result<(), StoreError> {
        let needed = self.needed_blobs().await?;
        let (contents, cache) = (self.contents.clone(), self.cache);
        let removing = blocking("remove", self.contents.folder().to_owned(), move |_| {
            contents.remove_spare(&needed, cache)
        });
        let kept = removing.await?;
        metrics::gauge!("almanac_spare_blob_bytes").set(kept as f64);
        Ok(())
    }

    /// Removes those of the blobs that no revision was made from and no pass
    /// needs any more.
    pub async fn release_blobs(&self, blobs: &[Digest]) -> Result<(), StoreError> {
        let needed = self.needed_blobs().await?;
        let mut spare = blobs.to_vec();
        spare.retain(|digest| !needed.contains(digest));
        let contents = self.contents.clone();
        let removing = blocking("remove", self.contents.folder().to_owned(), move |_| {
            spare
                .iter()
                .try_for_each(|digest| contents.remove_unpinned(digest))
        });
        Ok(removing.await?)
    }

    /// Keeps blobs in the store until the rows that name them are committed, also
    /// when the caller is gone by then.
    pub(crate) fn pins(&self, blobs: &[Digest]) -> Vec<BlobPin> {
        let pins = blobs.iter().map(|digest| self.contents.pin(*digest));
        pins.collect()
    }

    /// As [`Self::sync_contents`], if there are such blobs.
    pub(crate) async fn sync_blobs(&self, blobs: &[Digest]) -> Result<(), StoreError> {
        match blobs {
            [] => Ok(()),
            _ => self.sync_contents().await,
        }
    }

    /// Makes the names of all blobs survive a power cut.
    pub(crate) async fn sync_contents(&self) -> Result<(), StoreError> {
        let folder = self.contents.folder().to_owned();
        Ok(blocking("sync", folder, sync_folder).await?)
    }

    /// The blobs of revisions that are not their catalog's current one: of all
    /// catalogs, or of one.
    pub(crate) async fn blobs_of_replaced(
        &self,
        catalog: Option<&str>,
    ) -> Result<Vec<Digest>, StoreError> {
        let query = sqlx::query(
            "SELECT DISTINCT digest FROM revision_blobs WHERE revision IN
               (SELECT id FROM revisions WHERE (?1 IS NULL OR catalog = ?1) AND id NOT IN
                 (SELECT current FROM catalogs WHERE current IS NOT NULL))",
        );
        let action = "list the blobs of old revisions";
        let rows = sql::all(&self.pool, action, query.bind(catalog)).await?;
        Ok(digests(&rows).collect())
    }

    async fn needed_blobs(&self) -> Result<HashSet<Digest>, StoreError> {
        // Before the rows: a pass that unpins a blob in between has committed a
        // row by then, or does not need it any more.
        let mut needed = self.contents.pinned();
        // At once: an image may become an earlier one in between.
        let query = sqlx::query(
            "SELECT DISTINCT digest, NULL AS document FROM revision_blobs
             UNION ALL SELECT NULL, document FROM earlier_images",
        );
        let rows = sql::all(&self.pool, "list the blobs", query).await?;
        for row in &rows {
            match row.get::<Option<&str>, _>("digest") {
                Some(digest) => needed.extend(digest.parse::<Digest>().ok()),
                None => needed.extend(earlier_images::parts(row)),
            }
        }
        Ok(needed)
    }
}

/// The digests in the first column. One that does not parse names no blob.
fn digests(rows: &[SqliteRow]) -> impl Iterator<Item = Digest> {
    rows.iter()
        .filter_map(|row| row.get::<&str, _>(0).parse().ok())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::store::CacheLimits;

    #[tokio::test]
    async fn a_start_keeps_spare_blobs_that_were_used_lately() {
        let folder = tempfile::tempdir().unwrap();
        let limits = CacheLimits {
            max_age: Duration::from_secs(1000),
            max_bytes: 100,
        };
        let store = Store::open_with(folder.path(), limits).await.unwrap();
        let put = |content: &str| {
            let digest = Digest::of(content.as_bytes());
            let path = store.contents().folder().join(digest.hex());
            fs::write(&path, content).unwrap();
            let time = SystemTime::now() - Duration::from_secs(2000);
            let file = File::options().append(true).open(path).unwrap();
            file.set_modified(time).unwrap();
            digest
        };
        let (used, other) = (put("used"), put("other"));
        assert!(store.contents().blob(&used).is_some());
        store.close().await;
        drop(store);
        let store = Store::open_with(folder.path(), limits).await.unwrap();
        assert!(store.contents().blob(&used).is_some());
        assert!(store.contents().blob(&other).is_none());
    }
}
