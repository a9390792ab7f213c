//! Images of catalogs, opened for pulling, and the slots between ingest, which
//! makes them, and serve.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use crate::name::CatalogName;
use crate::store::content::OpenBlob;
use crate::store::{self, ImageManifest, RevisionId, Store};
use ::images::digest::Digest;

/// The most images before the current one that can still be pulled.
pub const MAX_REPLACED: usize = 8;

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
    /// Those before it, by digest only, the last one first: for pulls that began before.
    pub previous: Vec<ReplacedImage>,
    /// The next one of a fleet, by digest only: other replicas may show it already.
    pub next: Option<Arc<Image>>,
    /// The repository that it mirrors, if it is a mirror.
    pub mirrored: Option<Mirrored>,
    /// Tells that a damaged blob was found.
    pub damaged: Arc<Notify>,
}

/// An image that is not the current one any more.
#[derive(Clone)]
pub struct ReplacedImage {
    /// The image.
    pub image: Arc<Image>,
    /// When another one took its place.
    pub replaced: Instant,
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

    /// Replaces the current image. Of those before it, the last one can still be pulled.
    pub fn publish(&self, image: impl Into<Arc<Image>>) {
        self.publish_beside(image.into(), Duration::ZERO);
    }

    /// The same, and images that were replaced within this time stay, too: a client may have
    /// been told of them by another replica.
    pub fn publish_beside(&self, image: Arc<Image>, kept: Duration) {
        self.published.send_modify(|published| {
            published.next = None;
            let before = published.current.replace(image);
            let pair = before.as_ref().zip(published.current.as_ref());
            if pair.is_some_and(|(before, current)| before.is_same(current)) {
                return;
            }
            let previous = &mut published.previous;
            previous.retain(|one| one.replaced.elapsed() < kept);
            previous.truncate(MAX_REPLACED - 1);
            if let Some(image) = before {
                let replaced = Instant::now();
                previous.insert(0, ReplacedImage { image, replaced });
            }
        });
    }

    /// Lets clients pull an image by digest that others have shown before the current one.
    pub fn keep(&self, image: ReplacedImage) {
        self.published.send_modify(|published| {
            let PublishedImages {
                current, previous, ..
            } = published;
            let known = previous.iter().map(|one| &one.image).chain(&*current);
            if known.into_iter().any(|known| known.is_same(&image.image)) {
                return;
            }
            let place = previous.partition_point(|one| one.replaced > image.replaced);
            previous.insert(place, image);
            previous.truncate(MAX_REPLACED);
        });
    }

    /// The current image.
    pub fn image(&self) -> Option<Arc<Image>> {
        self.published.borrow().current.clone()
    }

    /// The current image and those before it.
    pub fn images(&self) -> impl Iterator<Item = Arc<Image>> + use<> {
        let published = self.published.borrow();
        let previous = published.previous.iter().map(|one| Arc::clone(&one.image));
        let images = published.current.iter().cloned().chain(previous);
        images.collect::<Vec<_>>().into_iter()
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
    async fn images_that_others_have_shown_stand_by_when_they_were_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).await.unwrap();
        let (_slot, publisher) = ImageSlot::new();
        let now = Instant::now();
        let keep = |revision: &str, seconds| {
            publisher.keep(ReplacedImage {
                image: image(&store, revision),
                replaced: now.checked_sub(Duration::from_secs(seconds)).unwrap(),
            });
        };
        publisher.publish_beside(image(&store, "20"), Duration::from_hours(1));
        keep("8", 300);
        keep("9", 100);
        keep("7", 500);
        // Known already.
        keep("9", 0);
        keep("20", 0);
        let shown = || {
            let numbers = publisher.images().map(|image| image.revision.to_string());
            numbers.collect::<Vec<_>>()
        };
        assert_eq!(shown(), ["20", "9", "8", "7"]);
        for revision in 10..20 {
            keep(&revision.to_string(), 50);
        }
        // Those that were replaced first go.
        assert_eq!(shown().len(), 1 + MAX_REPLACED);
        assert!(!shown().contains(&"9".to_owned()), "{:?}", shown());
        store.close().await;
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
    async fn replaced_images_can_be_pulled_for_an_hour_in_a_fleet_and_one_of_them_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).await.unwrap();
        let (_slot, publisher) = ImageSlot::new();
        let shown = || {
            let images = publisher.images();
            let numbers = images.map(|image| image.revision.to_string());
            numbers.collect::<Vec<_>>()
        };
        for revision in ["1", "2", "2", "3"] {
            let hour = Duration::from_hours(1);
            publisher.publish_beside(image(&store, revision), hour);
        }
        assert_eq!(shown(), ["3", "2", "1"]);
        publisher.publish(image(&store, "4"));
        assert_eq!(shown(), ["4", "3"]);
        // Bounded, however often it changes.
        for revision in 5..50 {
            let hour = Duration::from_hours(1);
            publisher.publish_beside(image(&store, &revision.to_string()), hour);
        }
        assert_eq!(shown().len(), 1 + MAX_REPLACED);
        store.close().await;
    }
}
