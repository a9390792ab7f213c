//! What the store keeps of an image, and its row.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sqlx::{Row as _, Sqlite, Transaction};

use crate::store::file_io::blocking;
use crate::store::record::{self, IMAGE_RECORD};
use crate::store::revisions::insert_blobs;
use crate::store::{RevisionId, Store, StoreError, sql};
use ::images::digest::Digest;

/// The image of a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// Its kind.
    pub kind: ImageKind,
    /// The repository it was pulled from, if clients may pull it by that name
    /// too.
    pub origin: Option<ImageOrigin>,
    /// The tags under the catalog's own name, and their manifests.
    pub tags: BTreeMap<String, Digest>,
    /// All manifests, including those of an index and of signatures.
    pub manifests: Vec<ImageManifest>,
    /// All configurations and layers.
    pub blobs: Vec<ImageBlob>,
    /// Who signed it here, if it was signed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<ImageSigner>,
    /// Attestations and signatures that the image names and its source does not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<Digest>,
}

/// The signer of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageSigner {
    /// The digest of the public key.
    pub key: Digest,
    /// The signed names.
    pub names: Vec<String>,
}

/// The kind of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ImageKind {
    /// One layer with the catalog's files, made here.
    Slim,
    /// A full copy of the source's image.
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
    /// Its subject, if it has one.
    pub referrer: Option<Referrer>,
    /// Whether it is attached to the image, such as a signature, and not part of
    /// it.
    pub attached: bool,
}

/// The reference of a manifest to its subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Referrer {
    /// The subject.
    pub subject: Digest,
    /// Its artifact type, else the media type of its configuration.
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
    /// The most manifests and blobs of an image with its attachments.
    pub const MAX_PARTS: usize = 10_000;
    /// The size of all of it, as a multiple of the limit for one image.
    pub const IMAGES: u64 = 16;
    /// A tag of each image.
    pub const LATEST: &str = "latest";

    /// The digest of its top-level document.
    pub fn digest(&self) -> Option<Digest> {
        self.tags.get(Self::LATEST).copied()
    }

    /// The digests and sizes of all its parts.
    pub fn parts(&self) -> impl Iterator<Item = ImageBlob> + '_ {
        let manifests = self.manifests.iter().map(|manifest| ImageBlob {
            digest: manifest.digest,
            size: manifest.size,
        });
        manifests.chain(self.blobs.iter().cloned())
    }
}

impl Store {
    /// Writes the record of an image beside the files of its revision.
    pub(crate) async fn write_image_record(
        &self,
        id: RevisionId,
        image: &Image,
    ) -> Result<(), StoreError> {
        let content = record::encode(image)?;
        let (store, folder) = (self.clone(), self.revision_folder(id));
        let written = blocking("write in", folder, move |folder| {
            let _alone = store.folders.lock();
            record::write(folder, IMAGE_RECORD, &content)
        });
        Ok(written.await?)
    }

    /// The image of a revision, if it was recorded.
    pub async fn image(&self, id: RevisionId) -> Result<Option<Image>, StoreError> {
        let query = sqlx::query("SELECT document FROM images WHERE revision = ?");
        let row = sql::first(&self.pool, "look up an image", query.bind(id.0)).await?;
        // The image of another version cannot be read, and is rebuilt.
        Ok(row.and_then(|row| serde_json::from_str(row.get(0)).ok()))
    }
}

/// Writes the rows of an image.
pub(crate) async fn insert(
    transaction: &mut Transaction<'_, Sqlite>,
    id: RevisionId,
    image: &Image,
) -> Result<(), StoreError> {
    let blobs: Vec<Digest> = image.parts().map(|part| part.digest).collect();
    insert_blobs(transaction, id, &blobs).await?;
    let document = serde_json::to_string(image).map_err(StoreError::encode("an image"))?;
    let statement = sqlx::query("INSERT OR REPLACE INTO images (revision, document) VALUES (?, ?)")
        .bind(id.0)
        .bind(document);
    sql::execute(&mut **transaction, "record an image", statement).await
}
