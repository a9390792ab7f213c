//! Images that clients see while the current revisions of their catalogs have none.
//!
//! An image is made after its revision is published, and pulling one may fail for a long
//! time. Until then clients pull the one before, also after a restart.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, Sqlite, Transaction};

use crate::name::CatalogName;
use crate::store::images::Image;
use crate::store::sql::whole;
use crate::store::{Revision, RevisionId, Store, StoreError, sql};
use ::images::digest::Digest;

impl Store {
    /// The image that clients of a catalog see while its current revision has none, and
    /// the revision that it was made of.
    pub async fn earlier_image(
        &self,
        catalog: &CatalogName,
    ) -> Result<Option<(RevisionId, Image)>, StoreError> {
        let query = sqlx::query("SELECT revision, document FROM earlier_images WHERE catalog = ?");
        let query = query.bind(catalog.as_str());
        let found = sql::first(&self.pool, "look up an earlier image", query).await;
        match found {
            Ok(row) => Ok(row.and_then(|row| Some((RevisionId(row.get(0)), image(&row)?)))),
            // A store that is only read may be of a version without them.
            Err(error) if error.to_string().contains("no such table") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps the image that clients see of a catalog while its current revision, which is
    /// this one, has none. It was made of the revision `of`. Its blobs are in the store, and
    /// pinned.
    pub async fn keep_earlier_image(
        &self,
        current: &Revision,
        of: RevisionId,
        image: &Image,
    ) -> Result<(), StoreError> {
        let before = self.earlier_image(&current.catalog).await?;
        if before
            .as_ref()
            .is_some_and(|(id, kept)| (*id, kept) == (of, image))
        {
            return Ok(());
        }
        self.sync_contents().await?;
        let document = serde_json::to_string(image).map_err(StoreError::encode("an image"))?;
        let parts: Vec<Digest> = image.parts().map(|part| part.digest).collect();
        let (store, pins) = (self.clone(), self.pins(&parts));
        let (catalog, id) = (current.catalog.clone(), current.id);
        whole(async move {
            let statement = sqlx::query(
                "INSERT OR REPLACE INTO earlier_images (catalog, revision, document)
                 SELECT name, ?3, ?4 FROM catalogs WHERE name = ?1 AND current = ?2
                   AND NOT EXISTS (SELECT 1 FROM images WHERE revision = ?2)",
            );
            let statement = statement.bind(catalog.as_str()).bind(id.0);
            let statement = statement.bind(of.0).bind(document);
            sql::execute(&store.pool, "keep an earlier image", statement).await?;
            drop(pins);
            let before = before.iter().flat_map(|(_, image)| image.parts());
            let blobs: Vec<_> = before.map(|part| part.digest).collect();
            store.release_blobs(&blobs).await
        })
        .await
    }

    /// The blobs of all earlier images, each with its catalog.
    pub(super) async fn blobs_of_earlier_images(
        &self,
    ) -> Result<Vec<(CatalogName, Digest)>, StoreError> {
        let query = sqlx::query("SELECT catalog, document FROM earlier_images");
        let rows = sql::all(&self.pool, "list the earlier images", query).await?;
        let mut blobs = Vec::new();
        for row in &rows {
            let Ok(catalog) = row.get::<&str, _>("catalog").parse::<CatalogName>() else {
                continue;
            };
            let image = image(row);
            let parts = image.iter().flat_map(Image::parts);
            blobs.extend(parts.map(|part| (catalog.clone(), part.digest)));
        }
        Ok(blobs)
    }
}

/// Keeps the image of the current revision of a catalog for the next one, unless that has
/// its own or is of another source.
pub(super) async fn carry(
    transaction: &mut Transaction<'_, Sqlite>,
    catalog: &CatalogName,
    next: RevisionId,
) -> Result<(), StoreError> {
    let action = "keep the image of the revision before";
    let statement = sqlx::query(
        "INSERT OR REPLACE INTO earlier_images (catalog, revision, document)
         SELECT c.name, i.revision, i.document
         FROM catalogs c JOIN images i ON i.revision = c.current WHERE c.name = ?1",
    );
    let statement = statement.bind(catalog.as_str());
    sql::execute(&mut **transaction, action, statement).await?;
    let statement = sqlx::query(
        "DELETE FROM earlier_images WHERE catalog = ?1 AND (
           EXISTS (SELECT 1 FROM images WHERE revision = ?2)
           OR EXISTS (
             SELECT 1 FROM catalogs c JOIN revisions old ON old.id = c.current
             JOIN revisions new ON new.id = ?2
             WHERE c.name = ?1 AND (old.source, old.variant) IS NOT (new.source, new.variant)))",
    );
    let statement = statement.bind(catalog.as_str()).bind(next.0);
    sql::execute(&mut **transaction, action, statement).await
}

/// Removes the earlier image of the catalog of a revision that has its own now, if it is the
/// current one. Returns the blobs of the removed image.
pub(super) async fn remove(
    transaction: &mut Transaction<'_, Sqlite>,
    current: RevisionId,
) -> Result<Vec<Digest>, StoreError> {
    let statement = sqlx::query(
        "DELETE FROM earlier_images WHERE catalog IN (SELECT name FROM catalogs WHERE current = ?)
         RETURNING document",
    );
    let action = "remove an earlier image";
    let row = sql::first(&mut **transaction, action, statement.bind(current.0)).await?;
    let removed = row.as_ref().and_then(image);
    Ok(removed
        .iter()
        .flat_map(Image::parts)
        .map(|part| part.digest)
        .collect())
}

/// The document of a row. That of another version cannot be read.
fn image(row: &SqliteRow) -> Option<Image> {
    serde_json::from_str(row.get("document")).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::answers::index::Index;
    use crate::store::{CacheLimits, Counts, ImageBlob, ImageKind, NewRevision, SourceIdentity};

    async fn open(folder: &Path) -> Store {
        Store::open_with(folder, CacheLimits::NOTHING)
            .await
            .unwrap()
    }

    async fn commit(store: &Store, source: &str) -> Revision {
        let finished = store.write_revision().unwrap().finish(Index::default());
        let new = NewRevision {
            catalog: &"a".parse().unwrap(),
            identity: SourceIdentity::from_text(source),
            digest: Digest::of(b"a"),
            counts: Counts::default(),
            blobs: &[],
            problems: &[],
            search: &[],
        };
        let revision = store.commit(finished.unwrap(), new).await.unwrap();
        store.retire(&revision).await.unwrap();
        revision
    }

    /// An image with one blob, which is in the store.
    fn image(store: &Store, content: &str) -> Image {
        let digest = Digest::of(content.as_bytes());
        let path = store.contents().folder().join(digest.hex());
        fs::write(path, content).unwrap();
        Image {
            kind: ImageKind::Full,
            origin: None,
            tags: BTreeMap::new(),
            manifests: Vec::new(),
            blobs: vec![ImageBlob {
                digest,
                size: content.len() as u64,
            }],
            signed: None,
        }
    }

    /// The contents of all blobs.
    fn blobs(store: &Store) -> Vec<String> {
        let files = fs::read_dir(store.contents().folder()).unwrap();
        let mut contents: Vec<String> = files
            .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
            .collect();
        contents.sort();
        contents
    }

    #[tokio::test]
    async fn an_image_stays_until_a_later_revision_has_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).await;
        let name: CatalogName = "a".parse().unwrap();
        let first = commit(&store, "quay.io/a/b:v1 linux/amd64").await;
        assert_eq!(store.earlier_image(&name).await.unwrap(), None);
        let old = image(&store, "old");
        store.record_image(first.id, &old).await.unwrap();
        assert_eq!(store.earlier_image(&name).await.unwrap(), None);
        // Two revisions without an image.
        let kept = Some((first.id, old.clone()));
        commit(&store, "quay.io/a/b:v1 linux/amd64").await;
        assert_eq!(store.earlier_image(&name).await.unwrap(), kept);
        let third = commit(&store, "quay.io/a/b:v1 linux/amd64").await;
        store.close().await;
        drop(store);
        let store = open(folder.path()).await;
        assert_eq!(store.earlier_image(&name).await.unwrap(), kept);
        assert_eq!(blobs(&store), ["old"]);
        // It takes room that only this catalog needs.
        let footprints = store.footprints(std::slice::from_ref(&name)).await.unwrap();
        assert_eq!(footprints[0].blobs, 3);

        let new = image(&store, "new");
        store.record_image(third.id, &new).await.unwrap();
        assert_eq!(store.earlier_image(&name).await.unwrap(), None);
        assert_eq!(blobs(&store), ["new"]);
        // A catalog that is removed leaves nothing.
        commit(&store, "quay.io/a/b:v1 linux/amd64").await;
        assert_eq!(blobs(&store), ["new"]);
        store.forget(&name).await.unwrap();
        assert!(blobs(&store).is_empty());
        store.close().await;
    }

    #[tokio::test]
    async fn the_image_of_another_source_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).await;
        let name: CatalogName = "a".parse().unwrap();
        let first = commit(&store, "quay.io/a/b:v1 linux/amd64").await;
        let old = image(&store, "old");
        store.record_image(first.id, &old).await.unwrap();
        commit(&store, "quay.io/a/b:v1 linux/amd64").await;
        commit(&store, "quay.io/a/c:v1 linux/amd64").await;
        assert_eq!(store.earlier_image(&name).await.unwrap(), None);
        store.close().await;
        drop(store);
        let store = open(folder.path()).await;
        assert!(blobs(&store).is_empty());
        store.close().await;
    }

    /// A replica of a fleet gets both from others.
    #[tokio::test]
    async fn an_image_of_a_revision_that_was_never_here_is_kept_for_the_current_one_only() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).await;
        let name: CatalogName = "a".parse().unwrap();
        let revision = commit(&store, "quay.io/a/b:v1 linux/amd64").await;
        let of: RevisionId = "77".parse().unwrap();
        let (first, second) = (image(&store, "first"), image(&store, "second"));
        for image in [&first, &second] {
            let kept = store.keep_earlier_image(&revision, of, image).await;
            kept.unwrap();
            let kept = store.earlier_image(&name).await.unwrap();
            assert_eq!(kept, Some((of, image.clone())));
        }
        assert_eq!(blobs(&store), ["second"]);
        let own = image(&store, "own");
        store.record_image(revision.id, &own).await.unwrap();
        assert_eq!(blobs(&store), ["own"]);
        // Too late: it has its own, or is not the current one any more.
        let kept = store.keep_earlier_image(&revision, of, &first).await;
        kept.unwrap();
        assert_eq!(store.earlier_image(&name).await.unwrap(), None);
        commit(&store, "quay.io/a/b:v1 linux/amd64").await;
        let kept = store.keep_earlier_image(&revision, of, &first).await;
        kept.unwrap();
        let kept = store.earlier_image(&name).await.unwrap();
        assert_eq!(kept, Some((revision.id, own)));
        store.close().await;
    }
}
