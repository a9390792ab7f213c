//! Images of catalogs, open for pulling, and the cells in which those who make
//! them meet those who serve them.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use crate::map;
use crate::name::CatalogName;
use crate::store::{self, ImageManifest, ImageOrigin, RevisionId, Store};
use ::images::digest::Digest;

/// An image whose bytes are mapped. It never changes.
pub struct Image {
    revision: RevisionId,
    record: store::Image,
    manifests: BTreeMap<Digest, (usize, Bytes)>,
    blobs: BTreeMap<Digest, Bytes>,
}

impl Image {
    /// Opens the image of a revision.
    ///
    /// # Errors
    /// When a part of it is missing, or not as long as it was.
    pub fn open(store: &Store, revision: RevisionId, record: store::Image) -> io::Result<Self> {
        let open = |digest: &Digest, size: u64| {
            let path = store.contents().blob(digest).ok_or_else(|| {
                io::Error::new(io::ErrorKind::NotFound, format!("there is no {digest}"))
            })?;
            let bytes = map::map(&path)?;
            if bytes.len() as u64 == size {
                return Ok(bytes);
            }
            let problem = format!("{digest} has {} bytes instead of {size}", bytes.len());
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

    /// The revision that it is of.
    pub fn revision(&self) -> RevisionId {
        self.revision
    }

    /// What it is made of.
    pub fn record(&self) -> &store::Image {
        &self.record
    }

    /// The tags under the catalog's own name.
    pub fn tags(&self) -> &BTreeMap<String, Digest> {
        &self.record.tags
    }

    /// The repository that it can be pulled from as well.
    pub fn origin(&self) -> Option<&ImageOrigin> {
        self.record.origin.as_ref()
    }

    /// A manifest and its bytes.
    pub fn manifest(&self, digest: &Digest) -> Option<(&ImageManifest, &Bytes)> {
        let (number, bytes) = self.manifests.get(digest)?;
        Some((self.record.manifests.get(*number)?, bytes))
    }

    /// The manifests that refer to another.
    pub fn referrers(&self, subject: Digest) -> impl Iterator<Item = &ImageManifest> {
        let refers = move |manifest: &&ImageManifest| {
            let referrer = manifest.referrer.as_ref();
            referrer.is_some_and(|referrer| referrer.subject == subject)
        };
        self.record.manifests.iter().filter(refers)
    }

    /// The bytes of a configuration or layer.
    pub fn blob(&self, digest: &Digest) -> Option<&Bytes> {
        self.blobs.get(digest)
    }
}

/// The images of all catalogs. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Images(Arc<watch::Sender<Arc<Cells>>>);

type Cells = BTreeMap<CatalogName, (ImageCell, Option<Mirrored>)>;

/// What a catalog mirrors: known before there is anything of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    /// The registry, `HOST[:PORT]`.
    pub registry: String,
    /// The repository in it.
    pub repository: String,
}

/// The reading end of one catalog's image. Cheap to clone.
#[derive(Clone)]
pub struct ImageCell(watch::Receiver<Shown>);

/// What can be pulled of a catalog.
#[derive(Clone, Default)]
pub struct Shown {
    /// The image now.
    pub current: Option<Arc<Image>>,
    /// The one before, for those who have begun to pull it: by digest only.
    pub previous: Option<Arc<Image>>,
    /// What it is to be a mirror of, if it is one.
    pub mirrored: Option<Mirrored>,
}

/// The writing end of one catalog's image. Cheap to clone.
#[derive(Clone)]
pub struct ImagePublisher(watch::Sender<Shown>);

impl Images {
    /// These can be pulled from now on, and nothing else.
    pub fn set(
        &self,
        images: impl IntoIterator<Item = (CatalogName, ImageCell, Option<Mirrored>)>,
    ) {
        let images = images.into_iter();
        let cells = images.map(|(name, cell, mirrored)| (name, (cell, mirrored)));
        self.0.send_replace(Arc::new(cells.collect()));
    }

    /// All catalogs, sorted by name, with what can be pulled of them.
    pub fn all(&self) -> Vec<(CatalogName, Shown)> {
        let cells = Arc::clone(&self.0.borrow());
        let shown = cells.iter().map(|(name, (cell, mirrored))| {
            let mut shown = cell.0.borrow().clone();
            shown.mirrored.clone_from(mirrored);
            (name.clone(), shown)
        });
        shown.collect()
    }
}

impl ImageCell {
    /// A cell for a catalog without an image yet, and its writing end.
    pub fn new() -> (Self, ImagePublisher) {
        let (sender, receiver) = watch::channel(Shown::default());
        (Self(receiver), ImagePublisher(sender))
    }
}

impl ImagePublisher {
    /// Lets an image be pulled from now on.
    pub fn publish(&self, image: Image) {
        self.0.send_modify(|shown| {
            let before = shown.current.replace(Arc::new(image));
            let same = match (&before, &shown.current) {
                (Some(before), Some(now)) => before.revision == now.revision,
                _ => false,
            };
            // Signatures that came later make no other image of it.
            if !same {
                shown.previous = before;
            }
        });
    }

    /// What can be pulled now.
    pub fn image(&self) -> Option<Arc<Image>> {
        self.0.borrow().current.clone()
    }
}
