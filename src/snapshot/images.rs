//! Images of catalogs, opened for pulling, and the slots between ingest, which
//! makes them, and serve.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

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
pub struct Images(Arc<watch::Sender<Arc<Slots>>>);

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
    /// The previous one, by digest only: for pulls that began before.
    pub previous: Option<Arc<Image>>,
    /// The next one of a fleet, by digest only: other replicas may show it already.
    pub next: Option<Arc<Image>>,
    /// The repository that it mirrors, if it is a mirror.
    pub mirrored: Option<Mirrored>,
    /// Tells that a damaged blob was found.
    pub damaged: Arc<Notify>,
}

/// The writing end of one catalog's image. Cheap to clone.
#[derive(Clone)]
pub struct ImagePublisher {
    published: watch::Sender<PublishedImages>,
    /// Asks to rebuild the image.
    pub rebuild: Arc<Notify>,
}

impl Images {
    /// Replaces all images at once.
    pub fn set(
        &self,
        images: impl IntoIterator<Item = (CatalogName, ImageSlot, Option<Mirrored>)>,
    ) {
        let images = images.into_iter();
        let slots = images.map(|(name, slot, mirrored)| (name, (slot, mirrored)));
        self.0.send_replace(Arc::new(slots.collect()));
    }

    /// All catalogs with their images, sorted by name.
    pub fn all(&self) -> Vec<(CatalogName, PublishedImages)> {
        let slots = Arc::clone(&self.0.borrow());
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
    /// Lets clients pull an image by digest before it is the current one.
    pub fn prepare(&self, image: Arc<Image>) {
        self.published
            .send_modify(|published| published.next = Some(image));
    }

    /// Replaces the current image.
    pub fn publish(&self, image: impl Into<Arc<Image>>) {
        self.published.send_modify(|published| {
            published.next = None;
            let before = published.current.replace(image.into());
            let revision = |image: &Option<Arc<Image>>| image.as_ref().map(|one| one.revision);
            let same = revision(&before) == revision(&published.current);
            // Signatures that came later make no other image of it.
            if !same {
                published.previous = before;
            }
        });
    }

    /// The current image.
    pub fn image(&self) -> Option<Arc<Image>> {
        self.published.borrow().current.clone()
    }

    /// The current and the previous image.
    pub fn images(&self) -> impl Iterator<Item = Arc<Image>> + use<> {
        let published = self.published.borrow();
        let images = [published.current.clone(), published.previous.clone()];
        images.into_iter().flatten()
    }

    /// Waits until a damaged blob was found.
    pub async fn damaged(&self) {
        let damaged = Arc::clone(&self.published.borrow().damaged);
        damaged.notified().await;
    }
}
