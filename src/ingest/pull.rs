//! The stages `resolve` and `pull`: a source's digest, and its blobs in the
//! store, whether they come from a registry or from a layout folder.
//!
//! Layers are pulled from the highest down, side by side, until one hides the
//! catalog folder from all below it: those are not wanted. Nothing else says
//! which layers hold the catalog that could be believed: not the image's
//! history, which is free text, and not annotations, as any layer may hide or
//! replace what those below it have.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use metrics::counter;
use tokio::sync::{Semaphore, watch};

use crate::ingest::error::{Cause, PassError, Stage};
use crate::ingest::files::FilesError;
use crate::ingest::labels::catalog_path;
use crate::ingest::pass::blocking;
use crate::store::content::{BlobPin, BlobWriter, Contents, ImportError};
use ::images::digest::Digest;
use ::images::layers::{Limits, Looks};
use ::images::manifest::{ImageManifest, MAX_DOCUMENT};
use ::images::{
    BlobStream, Choice, Descriptor, ImageConfig, Layout, Manifest, ManifestError, Platform, Route,
    layers as unpack,
};

/// Layers are looked at one after the other: a window of zstd takes memory.
static LOOKING: Semaphore = Semaphore::const_new(1);

/// How many layers of one image are pulled side by side at most; the registry
/// client has a limit of its own for all of them.
const SIDE_BY_SIDE: usize = 4;

/// An image's own place: where its documents and blobs are read from.
pub(super) enum Origin<'a> {
    Registry(&'a Route),
    Layout(Layout),
}

/// An image whose blobs are in the store, as far as they are needed.
pub(super) struct Pulled {
    /// The catalog folder that the image names, or else the database.
    pub(super) folder: String,
    /// The layers, the lowest first, and where they lie.
    pub(super) layers: Vec<(Descriptor, PathBuf)>,
    /// The layers below those, which the lowest of them covers.
    pub(super) covered: Vec<Descriptor>,
    /// All blobs; they stay in the store as long as this is kept.
    pub(super) blobs: Vec<BlobPin>,
}

impl Pulled {
    /// Whether the catalog folder is to be looked for in all layers, after it
    /// was in those: what is wrong with an image is said by the whole of it,
    /// and its folder may be behind a symlink.
    pub(super) fn needs_all<T>(&self, found: &Result<T, PassError>) -> bool {
        let wrong = found.as_ref().err().map(PassError::reason);
        wrong.is_some_and(|reason| reason != "io") && !self.covered.is_empty()
    }
}

impl Origin<'_> {
    /// The digest of the image's top-level document.
    pub(super) async fn resolve(&self, choice: Option<&Choice>) -> Result<Digest, PassError> {
        match self {
            Self::Registry(route) => {
                let resolved = route.resolve().await;
                Ok(resolved.map_err(PassError::at(Stage::Resolve))?.digest)
            }
            Self::Layout(layout) => {
                let descriptor = layout
                    .resolve(choice)
                    .map_err(PassError::at(Stage::Resolve))?;
                Ok(descriptor.digest)
            }
        }
    }

    /// Brings the image's documents and layers into the store.
    pub(super) async fn pull(
        &self,
        store: &Contents,
        digest: &Digest,
        platform: &Platform,
        limits: &Limits,
    ) -> Result<Pulled, PassError> {
        let failed = PassError::at::<Cause>(Stage::Pull);
        let mut blobs = Vec::new();
        let top = *digest;
        let mut digest = top;
        let mut bytes = self.manifest(store, &digest, &mut blobs).await?;
        let mut manifest = self.parse(&digest, &bytes)?;
        if let Manifest::Index(index) = &manifest {
            digest = index
                .select(platform)
                .map_err(|error| failed(self.document_error(&digest, error)))?
                .digest;
            bytes = self.manifest(store, &digest, &mut blobs).await?;
            manifest = self.parse(&digest, &bytes)?;
        }
        if let Self::Registry(route) = self {
            // Before anything in the image is looked at.
            let admitted = route.admit(&top, Some(&digest)).await;
            admitted.map_err(PassError::at(Stage::Pull))?;
        }
        let Manifest::Image(image) = manifest else {
            return Err(failed(self.document_error(&digest, ManifestError::Nested)));
        };
        check_sizes(&image, limits).map_err(|error| match error {
            SizeError::Config(error) => failed(self.document_error(&image.config.digest, error)),
            SizeError::Layers(error) => failed(error.into()),
        })?;
        blobs.push(store.pin(image.config.digest));
        let config = self.document(store, &image.config).await?;
        let config = ImageConfig::parse(&config)
            .map_err(|error| failed(self.document_error(&image.config.digest, error)))?;
        // Layers of an image that is no catalog are not looked at.
        let folder = catalog_path(&config)
            .ok_or(FilesError::NoLabel)
            .map_err(PassError::at(Stage::Unpack))?
            .to_owned();
        let mut covered = image.layers;
        let pins: Vec<BlobPin> = covered
            .iter()
            .map(|layer| store.pin(layer.digest))
            .collect();
        let layers = self
            .layers(store, &covered, Some((&folder, limits)))
            .await?;
        covered.truncate(covered.len() - layers.len());
        blobs.extend(pins.into_iter().skip(covered.len()));
        if !covered.is_empty() {
            tracing::debug!(layers = covered.len(), "the lower layers are covered");
        }
        Ok(Pulled {
            folder,
            layers,
            covered,
            blobs,
        })
    }

    /// Brings the layers that were left out into the store as well.
    pub(super) async fn pull_covered(
        &self,
        store: &Contents,
        pulled: &mut Pulled,
    ) -> Result<(), PassError> {
        let covered = std::mem::take(&mut pulled.covered);
        let pins = covered.iter().map(|layer| store.pin(layer.digest));
        pulled.blobs.extend(pins);
        let lower = self.layers(store, &covered, None).await?;
        pulled.layers.splice(0..0, lower);
        Ok(())
    }

    /// Brings layers into the store, side by side, and gives them with their
    /// places, the lowest first; `needed` has the catalog folder when those
    /// are enough that can hold something of it.
    async fn layers(
        &self,
        store: &Contents,
        layers: &[Descriptor],
        needed: Option<(&str, &Limits)>,
    ) -> Result<Vec<(Descriptor, PathBuf)>, PassError> {
        // The highest layer so far that covers those below.
        let (lowest, _) = watch::channel(0);
        let looks = Arc::default();
        let pulls = (0..layers.len()).rev().map(|place| {
            let (lowest, mut covered) = (&lowest, lowest.subscribe());
            let looks = Arc::clone(&looks);
            let pull = async move {
                let path = self.blob(store, &layers[place]).await?;
                if let Some((folder, limits)) = needed
                    && is_worth_a_look(store, &layers[..=place])
                    && covers(&path, folder, limits, looks).await?
                {
                    lowest.send_modify(|lowest| *lowest = place.max(*lowest));
                }
                Ok::<_, PassError>(path)
            };
            async move {
                tokio::select! {
                    biased;
                    _ = covered.wait_for(|lowest| *lowest > place) => Ok(None),
                    path = pull => path.map(Some),
                }
            }
        });
        let mut pulls = stream::iter(pulls).buffered(SIDE_BY_SIDE);
        let mut needed = Vec::new();
        for (place, layer) in layers.iter().enumerate().rev() {
            // All above are done, so this is known.
            if *lowest.borrow() > place {
                break;
            }
            let path = pulls.next().await.transpose()?.flatten();
            needed.extend(path.map(|path| (layer.clone(), path)));
        }
        needed.reverse();
        Ok(needed)
    }

    pub(super) fn parse(&self, digest: &Digest, bytes: &[u8]) -> Result<Manifest, PassError> {
        Manifest::parse(bytes, None)
            .map_err(|error| PassError::at(Stage::Pull)(self.document_error(digest, error)))
    }

    fn document_error(&self, digest: &Digest, source: ManifestError) -> Cause {
        match self {
            Self::Registry(route) => Cause::Oci(images::Error::Manifest {
                reference: route.requested().clone(),
                digest: *digest,
                source,
            }),
            Self::Layout(_) => Cause::LayoutDocument {
                digest: *digest,
                source,
            },
        }
    }

    /// A manifest or index, from the store when it is there.
    pub(super) async fn manifest(
        &self,
        store: &Contents,
        digest: &Digest,
        blobs: &mut Vec<BlobPin>,
    ) -> Result<Bytes, PassError> {
        let failed = PassError::at::<Cause>(Stage::Pull);
        blobs.push(store.pin(*digest));
        if let Some(path) = store.blob(digest)
            && let Ok(bytes) = tokio::fs::read(&path).await
            && Digest::of(&bytes) == *digest
        {
            return Ok(bytes.into());
        }
        let bytes = match self {
            Self::Registry(route) => route
                .manifest(digest)
                .await
                .map_err(PassError::at(Stage::Pull))?,
            Self::Layout(layout) => layout
                .manifest(digest)
                .map_err(PassError::at(Stage::Pull))?,
        };
        let mut writer = store.write_blob(*digest).map_err(|e| failed(e.into()))?;
        writer.write(&bytes).map_err(|e| failed(e.into()))?;
        writer.finish().await.map_err(|e| failed(e.into()))?;
        Ok(bytes)
    }

    /// The bytes of a config. What lies in the store may have been damaged
    /// there; then it is fetched anew.
    async fn document(
        &self,
        store: &Contents,
        descriptor: &Descriptor,
    ) -> Result<Vec<u8>, PassError> {
        let digest = descriptor.digest;
        let read = async || {
            let path = self.blob(store, descriptor).await?;
            let failed = |source| Cause::LayoutBlob { digest, source };
            let bytes = tokio::fs::read(&path).await.map_err(failed);
            bytes.map_err(PassError::at(Stage::Pull))
        };
        let bytes = read().await?;
        if Digest::of(&bytes) == digest {
            return Ok(bytes);
        }
        store.remove_blob(&digest);
        read().await
    }

    /// A config or layer: verified while it streams into the store, unless it
    /// is there already or another pass is just fetching it.
    pub(super) async fn blob(
        &self,
        store: &Contents,
        descriptor: &Descriptor,
    ) -> Result<PathBuf, PassError> {
        let failed = PassError::at::<Cause>(Stage::Pull);
        if let Some(path) = store.blob(&descriptor.digest) {
            return Ok(path);
        }
        let _claim = store.claim(descriptor.digest).await;
        if let Some(path) = store.blob(&descriptor.digest) {
            return Ok(path);
        }
        match self {
            Self::Registry(route) => fetch(route, store, descriptor).await.map_err(failed),
            Self::Layout(layout) => {
                let reader = layout
                    .read_blob(descriptor)
                    .map_err(PassError::at(Stage::Pull))?;
                let digest = descriptor.digest;
                let imported = store.import(digest, reader).await;
                imported.map_err(|error| match error {
                    ImportError::Read(source) => failed(Cause::LayoutBlob { digest, source }),
                    ImportError::Write(error) => failed(error.into()),
                })
            }
        }
    }
}

/// Streams a blob from a registry into the store.
async fn fetch(route: &Route, store: &Contents, descriptor: &Descriptor) -> Result<PathBuf, Cause> {
    loop {
        let mut writer = store.write_blob(descriptor.digest)?;
        let (place, mut stream) = route.blob(descriptor).await?;
        let copied = copy(&mut stream, &mut writer).await;
        counter!("almanac_pulled_bytes_total").increment(stream.transferred());
        counter!("almanac_pull_resumptions_total").increment(u64::from(stream.resumptions()));
        match copied {
            Ok(()) => return Ok(writer.finish().await?),
            Err(Cause::Oci(error)) if route.give_up(place, &error) => {}
            Err(cause) => return Err(cause),
        }
    }
}

/// Whether the highest of these layers may spare more than a look at it costs,
/// which is about as much as its size.
fn is_worth_a_look(store: &Contents, layers: &[Descriptor]) -> bool {
    let Some((highest, below)) = layers.split_last() else {
        return false;
    };
    let missing = below
        .iter()
        .filter(|layer| store.blob(&layer.digest).is_none());
    let missing = missing.fold(0_u64, |sum, layer| sum.saturating_add(layer.size));
    missing > highest.size
}

/// Whether a layer hides the catalog folder from all layers below. One that
/// cannot be read is for unpacking to tell.
async fn covers(
    path: &Path,
    folder: &str,
    limits: &Limits,
    looks: Arc<Mutex<Looks>>,
) -> Result<bool, PassError> {
    let (path, folder, limits) = (path.to_owned(), folder.to_owned(), limits.clone());
    // Never closed.
    let _turn = LOOKING.acquire().await;
    blocking(Stage::Pull, move || {
        let layer = File::open(&path).map(|reader| unpack::Layer {
            name: String::new(),
            reader,
        });
        let mut looks = looks.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(layer.is_ok_and(|layer| unpack::covers(layer, &folder, &limits, &mut looks)))
    })
    .await
}

async fn copy(stream: &mut BlobStream, writer: &mut BlobWriter) -> Result<(), Cause> {
    while let Some(piece) = stream.next().await? {
        writer.write(&piece)?;
    }
    Ok(())
}

enum SizeError {
    Config(ManifestError),
    Layers(FilesError),
}

/// Sizes are known before anything is pulled, and so is what is too much.
fn check_sizes(image: &ImageManifest, limits: &Limits) -> Result<(), SizeError> {
    if image.config.size > MAX_DOCUMENT as u64 {
        return Err(SizeError::Config(ManifestError::TooLarge {
            size: image.config.size,
        }));
    }
    let mut total: u64 = 0;
    for layer in &image.layers {
        total = total.saturating_add(layer.size);
        if total > limits.bytes {
            return Err(SizeError::Layers(FilesError::Limit {
                what: "the size of the layers, in bytes,",
                path: layer.digest.to_string(),
                limit: limits.bytes,
            }));
        }
    }
    Ok(())
}
