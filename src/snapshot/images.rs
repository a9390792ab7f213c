//! Images of catalogs, opened for pulling, and the slots between ingest, which
//! makes them, and serve.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use tokio::sync::{Notify, watch};

use crate::name::CatalogName;
use crate::store::content::OpenBlob;
use crate::store::{self, ImageManifest, RevisionId, Store};
use ::images::digest::Digest;

/// An image whose bytes are mapped. It never changes.
pub struct Image {
    /// Its revision.
    pub revision: RevisionId,
    /// Its parts.
    pub record: store::Image,
    manifests: BTreeMap<Digest, (usize, Arc<OpenBlob>)>,
    blobs: BTreeMap<Digest, Arc<OpenBlob>>,
}

impl Image {
    /// Opens the image of a revision.
    ///
    /// # Errors
    /// When a part of it is missing, or not as long as it was.
    pub fn open(store: &Store, revision: RevisionId, record: store::Image) -> io::Result<Self> {
        let open = |digest: &Digest, size: u64| {
            let blob = store.contents().open_blob(digest)?;
            if blob.length() == size {
                return Ok(Arc::new(blob));
            }
            let problem = format!("{digest} has {} bytes instead of {size}", blob.length());
            Err(io::Error::new(io::ErrorKind::InvalidData, problem))
        };
        let mut manifests = BTreeMap::new();
        for (number, manifest) in record.manifests.iter().enumerate() {
            let bytes = open(&manifest.digest, manifest.size)?;
            manifests.insert(manifest.digest, (number, bytes));
        }
        let mut blobs = BTreeMap::new();
        for blob in &record.blobs {
            blobs.insert(blob.digest, open(&blob.digest, blob.size)?);
        }
        Ok(Self {
            revision,
            record,
            manifests,
            blobs,
        })
    }

    /// Whether both are the same for clients. Signatures that came later make no other image of
    /// it, nor does another revision with the same content.
    fn is_same(&self, other: &Self) -> bool {
        match (self.record.digest(), other.record.digest()) {
            (Some(own), Some(other)) => own == other,
            _ => self.revision == other.revision,
        }
    }

    /// A manifest and its blob.
    pub fn manifest(&self, digest: &Digest) -> Option<(&ImageManifest, &Arc<OpenBlob>)> {
        let (number, blob) = self.manifests.get(digest)?;
        Some((self.record.manifests.get(*number)?, blob))
    }

    /// All manifests, configurations and layers.
    pub fn parts(&self) -> impl Iterator<Item = &Arc<OpenBlob>> {
        let manifests = self.manifests.values().map(|(_, blob)| blob);
        manifests.chain(self.blobs.values())
    }

    /// The manifests that refer to another.
    pub fn referrers(&self, subject: Digest) -> impl Iterator<Item = &ImageManifest> {
        let refers = move |manifest: &&ImageManifest| {
            let referrer = manifest.referrer.as_ref();
            referrer.is_some_and(|referrer| referrer.subject == subject)
        };
        self.record.manifests.iter().filter(refers)
    }

    /// A configuration or layer.
    pub fn blob(&self, digest: &Digest) -> Option<&Arc<OpenBlob>> {
        self.blobs.get(digest)
    }
}

/// The images of all catalogs. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Images {
    slots: Arc<watch::Sender<Arc<Slots>>>,
    /// Where parts are that this process lacks.
    elsewhere: Option<Arc<dyn ReadThrough>>,
}

type Slots = BTreeMap<CatalogName, (ImageSlot, Option<Mirrored>)>;

/// The repository that a catalog mirrors, known before its first pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    /// The registry, `HOST[:PORT]`.
    pub registry: String,
    /// The repository in it.
    pub repository: String,
}

/// The reading end of one catalog's image. Cheap to clone.
#[derive(Clone)]
pub struct ImageSlot(watch::Receiver<PublishedImages>);

/// The images of a catalog that clients can pull.
#[derive(Clone, Default)]
pub struct PublishedImages {
    /// The current image.
    pub current: Option<Arc<Image>>,
    /// The one before it, by digest only: for pulls that began before.
    pub previous: Option<Arc<Image>>,
    /// The repository that it mirrors, if it is a mirror.
    pub mirrored: Option<Mirrored>,
    /// Tells that a damaged blob was found.
    pub damaged: Arc<Notify>,
}

/// Parts of images that are elsewhere: a replica of a fleet sends what another one has shown.
pub trait ReadThrough: Send + Sync {
    /// A part of an image of a catalog that was shown within the last day; `None` when there is
    /// none with this digest.
    fn part<'a>(
        &'a self,
        catalog: &'a CatalogName,
        digest: Digest,
    ) -> BoxFuture<'a, Result<Option<RemotePart>, RemoteError>>;
}

/// A part of an image that is elsewhere.
pub struct RemotePart {
    /// The media type of a manifest; `None` for a configuration or layer.
    pub media_type: Option<String>,
    /// Its size in bytes.
    pub size: u64,
    /// Its bytes. It ends with an error before the last one unless they have the digest.
    pub body: BoxStream<'static, Result<Bytes, RemoteError>>,
}

/// A part of an image that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RemoteError(pub String);

/// The writing end of one catalog's image. Cheap to clone.
#[derive(Clone)]
pub struct ImagePublisher {
    published: watch::Sender<PublishedImages>,
    /// Asks to rebuild the image.
    pub rebuild: Arc<Notify>,
}

impl Images {
    /// The images of a process that reads parts that it lacks from elsewhere.
    pub fn read_through(elsewhere: Option<Arc<dyn ReadThrough>>) -> Self {
        Self {
            elsewhere,
            ..Self::default()
        }
    }

    /// Where parts are that this process lacks.
    pub fn elsewhere(&self) -> Option<&Arc<dyn ReadThrough>> {
        self.elsewhere.as_ref()
    }

    /// Replaces all images at once.
    pub fn set(
        &self,
        images: impl IntoIterator<Item = (CatalogName, ImageSlot, Option<Mirrored>)>,
    ) {
        let images = images.into_iter();
        let slots = images.map(|(name, slot, mirrored)| (name, (slot, mirrored)));
        self.slots.send_replace(Arc::new(slots.collect()));
    }

    /// All catalogs with their images, sorted by name.
    pub fn all(&self) -> Vec<(CatalogName, PublishedImages)> {
        let slots = Arc::clone(&self.slots.borrow());
        let published = slots.iter().map(|(name, (slot, mirrored))| {
            let mut published = slot.0.borrow().clone();
            published.mirrored.clone_from(mirrored);
            (name.clone(), published)
        });
        published.collect()
    }
}

impl ImageSlot {
    /// A slot for a catalog without an image, and its writing end.
    pub fn new() -> (Self, ImagePublisher) {
        let (sender, receiver) = watch::channel(PublishedImages::default());
        let publisher = ImagePublisher {
            published: sender,
            rebuild: Arc::default(),
        };
        (Self(receiver), publisher)
    }
}

impl ImagePublisher {
    /// Replaces the current image, which can still be pulled by digest.
    pub fn publish(&self, image: impl Into<Arc<Image>>) {
        self.published.send_modify(|published| {
            let before = published.current.replace(image.into());
            let pair = before.as_ref().zip(published.current.as_ref());
            if !pair.is_some_and(|(before, current)| before.is_same(current)) {
                published.previous = before;
            }
        });
    }

    /// The current image.
    pub fn image(&self) -> Option<Arc<Image>> {
        self.published.borrow().current.clone()
    }

    /// The current image and the one before it.
    pub fn images(&self) -> impl Iterator<Item = Arc<Image>> + use<> {
        let published = self.published.borrow();
        let (current, previous) = (published.current.clone(), published.previous.clone());
        current.into_iter().chain(previous)
    }

    /// Waits until a damaged blob was found.
    pub async fn damaged(&self) {
        let damaged = Arc::clone(&self.published.borrow().damaged);
        damaged.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ImageKind;

    fn image(store: &Store, revision: &str) -> Arc<Image> {
        let record = store::Image {
            kind: ImageKind::Slim,
            origin: None,
            tags: BTreeMap::new(),
            manifests: Vec::new(),
            blobs: Vec::new(),
            signed: None,
            left_out: Vec::new(),
        };
        let opened = Image::open(store, revision.parse().unwrap(), record);
        Arc::new(opened.unwrap())
    }

    #[tokio::test]
    async fn another_image_of_the_same_revision_replaces_one_that_can_still_be_pulled() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).await.unwrap();
        let (_slot, publisher) = ImageSlot::new();
        for content in ["slim", "full", "full"] {
            let mut record = image(&store, "1").record.clone();
            let digest = Digest::of(content.as_bytes());
            record.tags.insert("latest".into(), digest);
            let opened = Image::open(&store, "1".parse().unwrap(), record);
            publisher.publish(opened.unwrap());
        }
        let digests = publisher.images().map(|image| image.record.digest());
        let wanted = ["full", "slim"].map(|content| Some(Digest::of(content.as_bytes())));
        assert_eq!(digests.collect::<Vec<_>>(), wanted);
        store.close().await;
    }

    #[tokio::test]
    async fn the_image_before_the_current_one_can_still_be_pulled() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).await.unwrap();
        let (_slot, publisher) = ImageSlot::new();
        for revision in ["1", "2", "2", "3"] {
            publisher.publish(image(&store, revision));
        }
        let numbers = publisher.images().map(|image| image.revision.to_string());
        assert_eq!(numbers.collect::<Vec<_>>(), ["3", "2"]);
        store.close().await;
    }
}
