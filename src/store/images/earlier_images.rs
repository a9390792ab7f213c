//! Images that clients see while the current revisions of their catalogs have none.
//!
//! An image is made after its revision is published, and pulling one may fail for a long
//! time. Until then clients pull the previous one, also after a restart.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, Sqlite, SqliteConnection, Transaction};

use crate::name::CatalogName;
use crate::store::images::records::Image;
use crate::store::{Revision, RevisionId, SourceIdentity, Store, StoreError, sql};
use ::images::digest::Digest;

/// The table of these images.
const TABLE: &str = "earlier_images";

/// An image that clients of a catalog see while its current revision has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierImage {
    /// The revision that it was made of.
    pub revision: RevisionId,
    /// Its source. The current revision may have another tag or platform.
    pub identity: SourceIdentity,
    /// The image.
    pub image: Image,
}

impl Store {
    /// The image that clients of a catalog see while its current revision has none.
    pub async fn earlier_image(
        &self,
        catalog: &CatalogName,
    ) -> Result<Option<EarlierImage>, StoreError> {
        let query = sqlx::query(
            "SELECT revision, source, variant, document FROM earlier_images WHERE catalog = ?",
        );
        let query = query.bind(catalog.as_str());
        let row = sql::first(&self.pool, "look up an earlier image", query).await;
        let row = sql::unless_without_table(&self.pool, TABLE, row).await?;
        let Some(row) = row.flatten() else {
            return Ok(None);
        };
        let Some(image) = image(&row) else {
            return Ok(None);
        };
        Ok(Some(EarlierImage {
            revision: RevisionId(row.get("revision")),
            identity: SourceIdentity {
                source: row.get("source"),
                variant: row.get("variant"),
            },
            image,
        }))
    }

    /// The blobs of all earlier images, each with its catalog.
    pub(crate) async fn blobs_of_earlier_images(
        &self,
    ) -> Result<Vec<(CatalogName, Digest)>, StoreError> {
        let query = sqlx::query("SELECT catalog, document FROM earlier_images");
        let rows = sql::all(&self.pool, "list the earlier images", query).await;
        let rows = sql::unless_without_table(&self.pool, TABLE, rows).await?;
        let mut blobs = Vec::new();
        for row in rows.iter().flatten() {
            if let Ok(catalog) = row.get::<&str, _>("catalog").parse::<CatalogName>() {
                let digests = parts(row).into_iter();
                blobs.extend(digests.map(|digest| (catalog.clone(), digest)));
            }
        }
        Ok(blobs)
    }
}

/// Keeps the image of the current revision of a catalog for the next one, unless that has
/// its own.
pub(crate) async fn carry(
    transaction: &mut Transaction<'_, Sqlite>,
    catalog: &CatalogName,
    next: RevisionId,
) -> Result<(), StoreError> {
    let action = "keep the image of the previous revision";
    let statement = sqlx::query(
        "INSERT OR REPLACE INTO earlier_images (catalog, revision, source, variant, document)
         SELECT c.name, r.id, r.source, r.variant, i.document
         FROM catalogs c JOIN revisions r ON r.id = c.current JOIN images i ON i.revision = r.id
         WHERE c.name = ?1 AND r.id <> ?2
           AND NOT EXISTS (SELECT 1 FROM images WHERE revision = ?2)",
    );
    let statement = statement.bind(catalog.as_str()).bind(next.0);
    sql::execute(&mut **transaction, action, statement).await?;
    let statement = sqlx::query(
        "DELETE FROM earlier_images
         WHERE catalog = ?1 AND EXISTS (SELECT 1 FROM images WHERE revision = ?2)",
    );
    let statement = statement.bind(catalog.as_str()).bind(next.0);
    sql::execute(&mut **transaction, action, statement).await
}

/// Keeps an image that clients see of a catalog while its current revision has none. It was
/// made of another revision of the same source. Returns the blobs of the one before.
pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    current: &Revision,
    revision: RevisionId,
    image: &Image,
) -> Result<Vec<Digest>, StoreError> {
    let action = "keep an earlier image";
    let query = sqlx::query("SELECT document FROM earlier_images WHERE catalog = ?");
    let query = query.bind(current.catalog.as_str());
    let before = sql::first(&mut *connection, action, query).await?;
    let document = serde_json::to_string(image).map_err(StoreError::encode("an image"))?;
    let statement = sqlx::query(
        "INSERT OR REPLACE INTO earlier_images (catalog, revision, source, variant, document)
         SELECT catalog, ?2, source, variant, ?3 FROM revisions
         WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM images WHERE revision = ?1)",
    );
    let statement = statement.bind(current.id.0).bind(revision.0).bind(document);
    sql::execute(&mut *connection, action, statement).await?;
    Ok(before.as_ref().map(parts).unwrap_or_default())
}

/// Removes the earlier image of the catalog of a current revision, which has its own now.
/// Returns the blobs of the removed image.
pub(crate) async fn remove(
    connection: &mut SqliteConnection,
    current: RevisionId,
) -> Result<Vec<Digest>, StoreError> {
    let statement = sqlx::query(
        "DELETE FROM earlier_images WHERE catalog IN (SELECT name FROM catalogs WHERE current = ?)
         RETURNING document",
    );
    let action = "remove an earlier image";
    let removed = sql::first(connection, action, statement.bind(current.0)).await?;
    Ok(removed.as_ref().map(parts).unwrap_or_default())
}

/// The document of a row. That of another version cannot be read.
fn image(row: &SqliteRow) -> Option<Image> {
    serde_json::from_str(row.get("document")).ok()
}

/// The digests of the parts of a row's image.
pub(crate) fn parts(row: &SqliteRow) -> Vec<Digest> {
    let image = image(row);
    let parts = image.iter().flat_map(Image::parts);
    parts.map(|part| part.digest).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::answers::index::Index;
    use crate::store::record;
    use crate::store::{CacheLimits, Counts, ImageBlob, ImageKind, NewRevision};

    async fn open(folder: &Path) -> Store {
        Store::open_with(folder, CacheLimits::NOTHING)
            .await
            .unwrap()
    }

    fn new<'a>(catalog: &'a CatalogName, source: &str) -> NewRevision<'a> {
        NewRevision {
            catalog,
            identity: SourceIdentity::from_text(source),
            digest: Digest::of(b"a"),
            counts: Counts::default(),
            blobs: &[],
            problems: &[],
            search: &[],
        }
    }

    async fn commit(store: &Store, source: &str) -> Revision {
        let revision = commit_beside(store, source).await;
        store.retire(&revision).await.unwrap();
        revision
    }

    /// The one before is not removed yet.
    async fn commit_beside(store: &Store, source: &str) -> Revision {
        let finished = store.write_revision().unwrap().finish(Index::default());
        let committed = store.commit(finished.unwrap(), new(&name(), source)).await;
        committed.unwrap()
    }

    /// The first revision, which has this image.
    async fn commit_with(store: &Store, content: &str) -> (Revision, Image) {
        let (revision, image) = (commit(store, SOURCE).await, image(store, content));
        assert!(store.record_image(revision.id, &image).await.unwrap());
        (revision, image)
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
            left_out: Vec::new(),
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

    const SOURCE: &str = "quay.io/a/b:v1 linux/amd64";

    fn name() -> CatalogName {
        "a".parse().unwrap()
    }

    async fn earlier(store: &Store) -> Option<(RevisionId, Image)> {
        let found = store.earlier_image(&name()).await.unwrap()?;
        Some((found.revision, found.image))
    }

    #[tokio::test]
    async fn an_image_stays_until_a_later_revision_has_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).await;
        let (first, old) = commit_with(&store, "old").await;
        assert_eq!(earlier(&store).await, None);
        // Two revisions without an image.
        let kept = Some((first.id, old));
        commit(&store, SOURCE).await;
        assert_eq!(earlier(&store).await, kept);
        let third = commit(&store, SOURCE).await;
        store.close().await;
        drop(store);
        let store = open(folder.path()).await;
        assert_eq!(earlier(&store).await, kept);
        assert_eq!(blobs(&store), ["old"]);
        // It takes room that only this catalog needs.
        let footprints = store.footprints(&[name()]).await.unwrap();
        assert_eq!(footprints[0].blobs, 3);

        let new = image(&store, "new");
        assert!(store.record_image(third.id, &new).await.unwrap());
        assert_eq!(earlier(&store).await, None);
        assert_eq!(blobs(&store), ["new"]);
        // A catalog that is removed leaves nothing.
        commit(&store, SOURCE).await;
        assert_eq!(blobs(&store), ["new"]);
        store.forget(&name()).await.unwrap();
        assert!(blobs(&store).is_empty());
        store.close().await;
    }

    #[tokio::test]
    async fn an_earlier_image_has_the_source_that_it_was_made_of() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).await;
        commit_with(&store, "old").await;
        for other in ["quay.io/a/b:v2 linux/amd64", "quay.io/a/c:v2 linux/amd64"] {
            commit(&store, other).await;
            let kept = store.earlier_image(&name()).await.unwrap().unwrap();
            assert_eq!(kept.identity, SourceIdentity::from_text(SOURCE));
        }
        store.close().await;
    }

    /// It would go with its revision, while clients are told of it.
    #[tokio::test]
    async fn an_image_of_a_replaced_revision_comes_too_late() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).await;
        let (first, old) = commit_with(&store, "old").await;
        let second = commit(&store, SOURCE).await;
        let late = image(&store, "late");
        commit_beside(&store, SOURCE).await;
        assert!(!store.record_image(second.id, &late).await.unwrap());
        assert_eq!(earlier(&store).await, Some((first.id, old)));
        store.close().await;
    }

    /// A replica of a fleet gets both from others.
    #[tokio::test]
    async fn a_start_serves_the_image_that_clients_saw_beside_a_revision() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).await;
        let revision = commit(&store, SOURCE).await;
        let of: RevisionId = "77".parse().unwrap();
        let show = async |revision: &Revision, of, image: &Image| {
            let shown = store.make_current(revision, Some((of, image))).await;
            shown.unwrap();
        };
        for content in ["first", "second"] {
            let image = image(&store, content);
            show(&revision, of, &image).await;
            assert_eq!(earlier(&store).await, Some((of, image)));
            assert_eq!(blobs(&store), [content]);
        }
        let own = image(&store, "own");
        show(&revision, revision.id, &own).await;
        assert_eq!(earlier(&store).await, None);
        assert_eq!(store.image(revision.id).await.unwrap(), Some(own.clone()));
        assert_eq!(blobs(&store), ["own"]);
        // The next revision goes on with it before anything is told of its image.
        let next = commit_beside(&store, SOURCE).await;
        assert_eq!(earlier(&store).await, Some((revision.id, own)));
        store.make_current(&next, None).await.unwrap();
        assert_eq!(blobs(&store), ["own"]);
        store.close().await;
    }

    /// Fetched again, as they were damaged.
    #[tokio::test]
    async fn files_that_are_replaced_leave_the_image_of_the_revision() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).await;
        let (revision, own) = commit_with(&store, "own").await;
        let incoming = store.incoming().unwrap();
        for entry in std::fs::read_dir(store.revision_folder(revision.id)).unwrap() {
            let entry = entry.unwrap();
            let file = entry.file_name().into_string().unwrap();
            if file != record::IMAGE_RECORD {
                let mut content = std::fs::File::open(entry.path()).unwrap();
                incoming.write(&file, &mut content).unwrap();
            }
        }
        let name = name();
        store.adopt(&name, revision.id, incoming).await.unwrap();
        assert_eq!(store.image(revision.id).await.unwrap(), Some(own));
        assert!(store.damaged_records(revision.id).await.unwrap().is_empty());
        let current = store.current(&name).await.unwrap().unwrap();
        assert_eq!(current.id, revision.id);
        store.close().await;
    }

    #[tokio::test]
    async fn a_store_of_a_version_without_them_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).await;
        commit_with(&store, "own").await;
        let statement = sqlx::query("DROP TABLE earlier_images");
        statement.execute(&store.pool).await.unwrap();
        store.close().await;
        drop(store);
        let store = Store::open_beside(folder.path()).await.unwrap().unwrap();
        assert_eq!(earlier(&store).await, None);
        let footprints = store.footprints(&[name()]).await.unwrap();
        assert_eq!(footprints[0].blobs, 3);
        store.close().await;
    }
}
