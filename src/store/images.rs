//! Images of revisions: what can be pulled of each catalog, by tag and digest.
//!
//! An image is a document in a row that names blobs; these lie with the blobs
//! that are pulled. Blobs come first, the row last, so a crash leaves either
//! the whole image or none.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sqlx::Row as _;

use crate::store::{RevisionId, Store, StoreError};
use ::images::digest::Digest;

/// What can be pulled of a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// What it is.
    pub kind: ImageKind,
    /// Where it was pulled from, when it can be pulled under that name too.
    pub origin: Option<ImageOrigin>,
    /// The tags under the catalog's own name, and the manifests they lead to.
    pub tags: BTreeMap<String, Digest>,
    /// All manifests, those below an index and signatures too.
    pub manifests: Vec<ImageManifest>,
    /// All configurations and layers.
    pub blobs: Vec<ImageBlob>,
}

/// What an image of a revision is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ImageKind {
    /// One layer with the catalog's files, made here.
    Slim,
    /// All that the source's registry has of it.
    Full,
}

/// A repository somewhere else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageOrigin {
    /// The registry, `HOST[:PORT]`.
    pub registry: String,
    /// The repository in it.
    pub repository: String,
    /// The tags there.
    pub tags: BTreeMap<String, Digest>,
}

/// A manifest of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageManifest {
    /// Its digest.
    pub digest: Digest,
    /// Its media type.
    pub media_type: String,
    /// Its size in bytes.
    pub size: u64,
    /// What it says about another manifest, if it does.
    pub referrer: Option<Referrer>,
    /// Whether it is a signature or another attachment, and no part of what a
    /// tag of the source stands for.
    pub attached: bool,
}

/// That a manifest refers to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Referrer {
    /// The other manifest.
    pub subject: Digest,
    /// What kind of thing it says: its artifact type, else the media type of
    /// its configuration.
    pub artifact_type: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// A configuration or layer of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageBlob {
    /// Its digest.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
}

impl Image {
    /// The digests and sizes of all that it is made of.
    pub fn parts(&self) -> impl Iterator<Item = ImageBlob> + '_ {
        let manifests = self.manifests.iter().map(|manifest| ImageBlob {
            digest: manifest.digest,
            size: manifest.size,
        });
        manifests.chain(self.blobs.iter().cloned())
    }
}

impl Store {
    /// Names the image of a revision, in place of the one it had. Its blobs are
    /// in the store, and pinned. Nothing happens when the revision is gone:
    /// `false`.
    pub async fn record_image(&self, id: RevisionId, image: &Image) -> Result<bool, StoreError> {
        let sql = StoreError::sql;
        self.contents.sync()?;
        let mut transaction = self.begin().await?;
        let there = sqlx::query("SELECT id FROM revisions WHERE id = ?")
            .bind(id.0)
            .fetch_optional(&mut *transaction)
            .await
            .map_err(sql("look up a revision"))?;
        if there.is_none() {
            return Ok(false);
        }
        insert(&mut transaction, id, image).await?;
        transaction.commit().await.map_err(sql("commit"))?;
        Ok(true)
    }

    /// The image of a revision, when it was made.
    pub async fn image(&self, id: RevisionId) -> Result<Option<Image>, StoreError> {
        let row = sqlx::query("SELECT document FROM images WHERE revision = ?")
            .bind(id.0)
            .fetch_optional(&self.pool)
            .await
            .map_err(StoreError::sql("look up an image"))?;
        // One that another version wrote is made anew.
        Ok(row.and_then(|row| serde_json::from_str(row.get(0)).ok()))
    }
}

/// Writes the rows of an image.
pub(super) async fn insert(
    transaction: &mut sqlx::SqliteConnection,
    id: RevisionId,
    image: &Image,
) -> Result<(), StoreError> {
    let sql = StoreError::sql;
    for part in image.parts() {
        sqlx::query("INSERT OR IGNORE INTO revision_blobs (revision, digest) VALUES (?, ?)")
            .bind(id.0)
            .bind(part.digest.to_string())
            .execute(&mut *transaction)
            .await
            .map_err(sql("record a blob"))?;
    }
    sqlx::query("INSERT OR REPLACE INTO images (revision, document) VALUES (?, ?)")
        .bind(id.0)
        .bind(serde_json::to_string(image).unwrap_or_default())
        .execute(&mut *transaction)
        .await
        .map_err(sql("record an image"))?;
    Ok(())
}
