//! The stages `pull` and `unpack`: the blobs of an image in the store, then its
//! files.
//!
//! Layers are pulled from the highest down, in parallel, until one hides the
//! catalog folder from all layers below it: those are not needed. Only layers
//! themselves can tell which of them hold the catalog. History and annotations
//! are free text, and any layer may hide or replace files of lower ones.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use crate::ingest::context::ReadPermit;
use crate::ingest::error::{Cause, PassError, Stage};
use crate::ingest::files_error::FilesError;
use crate::ingest::labels::catalog_path;
use crate::ingest::origin::Origin;
use crate::ingest::pass::make_revision::Content;
use crate::ingest::pull_progress;
use crate::ingest::read::files::{CatalogFiles, ImageLayers};
use crate::ingest::read::revision_draft::RevisionDraft;
use crate::ingest::read::sqlite;
use crate::ingest::stages::{blocking, blocking_with_permit};
use crate::snapshot::KnownPieces;
use crate::store::Store;
use crate::store::content::{BlobPin, Contents};
use ::images::digest::Digest;
use ::images::layers::{Limits, SearchBudget, UnpackError};
use ::images::manifest::{ImageManifest, MAX_DOCUMENT};
use ::images::policy::Verdict;
use ::images::{Descriptor, ImageConfig, Manifest, ManifestError, Platform, layers as unpack};

/// One layer is examined at a time: the window of zstd takes memory.
static EXAMINED: Semaphore = Semaphore::const_new(1);

/// How many layers of one image are pulled in parallel at most; the registry
/// client has a limit of its own for all images.
const PARALLEL: usize = 4;

/// An image whose blobs are in the store, as far as they are needed.
pub(crate) struct Pulled {
    /// The digest of the image.
    pub(crate) digest: Digest,
    /// The catalog folder or database that the image's label names.
    pub(crate) folder: String,
    /// The layers, the lowest first, and their paths.
    pub(crate) layers: Vec<(Descriptor, PathBuf)>,
    /// The layers below those, which the lowest of them hides.
    pub(crate) covered: Vec<Descriptor>,
    /// By what the policy let the image in; none without a policy.
    pub(crate) admission: Option<Verdict>,
    /// All blobs; they stay in the store as long as this lives.
    pub(crate) blobs: Vec<BlobPin>,
}

impl Pulled {
    /// Whether the catalog folder is to be unpacked from all layers, after the
    /// upper ones failed. An error must hold for the whole image, and its folder
    /// may be behind a symlink.
    pub(crate) fn needs_all<T>(&self, found: &Result<T, PassError>) -> bool {
        // Neither a full disk nor a database depends on lower layers.
        let other = found.as_ref().is_err_and(|error| {
            let of_database = matches!(
                error.cause,
                Cause::Files(FilesError::Legacy { .. } | FilesError::Limit { .. })
            );
            !error.is_io() && !error.is_local() && !of_database
        });
        other && !self.covered.is_empty()
    }

    /// The files under the catalog folder.
    pub(crate) async fn unpack(
        &self,
        store: &Contents,
        temporary: PathBuf,
        limits: &Limits,
        permit: &ReadPermit,
    ) -> Result<CatalogFiles, PassError> {
        let (unpacking, limits) = (self.unpacking(store), limits.clone());
        blocking_with_permit(Stage::Unpack, permit, move || {
            unpacking.files(&temporary, &limits)
        })
        .await
    }

    /// What a revision is made of: what is read of the files while they are unpacked, or
    /// the files. `known` finds what an earlier revision has.
    pub(crate) async fn read(
        &self,
        store: &Store,
        limits: &Limits,
        permit: &ReadPermit,
        known: impl FnOnce() -> Option<KnownPieces> + Send + 'static,
    ) -> Result<Content, PassError> {
        let unpacking = self.unpacking(store.contents());
        let (store, limits) = (store.clone(), limits.clone());
        blocking_with_permit(Stage::Unpack, permit, move || {
            let known = known();
            let draft = RevisionDraft::beside(&store, known.as_ref(), |feed| {
                let fed = unpacking.layers().feed(&unpacking.folder, &limits, feed);
                fed.inspect_err(|error| unpacking.forget_unreadable(error))
            })?;
            if let Some((draft, ())) = draft {
                return Ok(draft.into());
            }
            let mut files = unpacking.files(&store.temporary(), &limits)?;
            files.known = known.map(Arc::new);
            Ok(files.into())
        })
        .await
    }

    fn unpacking(&self, store: &Contents) -> Unpacking {
        Unpacking {
            store: store.clone(),
            layers: self.layers.clone(),
            covered: self.covered.len(),
            folder: self.folder.clone(),
        }
    }
}

/// Unpacks an image. This blocks.
struct Unpacking {
    store: Contents,
    layers: Vec<(Descriptor, PathBuf)>,
    covered: usize,
    folder: String,
}

impl Unpacking {
    fn layers(&self) -> ImageLayers<'_> {
        ImageLayers {
            layers: &self.layers,
            covered: self.covered,
        }
    }

    fn files(&self, temporary: &Path, limits: &Limits) -> Result<CatalogFiles, PassError> {
        let files = self.layers().files(&self.folder, limits, temporary);
        files
            .inspect_err(|error| self.forget_unreadable(error))
            .and_then(|files| sqlite::migrated(files, temporary, limits))
            .map_err(PassError::at(Stage::Unpack))
    }

    /// An unreadable blob must not fail every later pass: the next one pulls it again.
    fn forget_unreadable(&self, error: &FilesError) {
        if let FilesError::Unpack(UnpackError::Read { .. }) = error {
            for (layer, _) in &self.layers {
                self.store.remove_blob(&layer.digest);
            }
        }
    }
}

/// Brings the image's documents and layers into the store. Its digest may turn out to
/// be another one than `digest`.
pub(crate) async fn pull(
    origin: &Origin,
    store: &Contents,
    digest: &Digest,
    platform: &Platform,
    limits: &Limits,
) -> Result<Pulled, PassError> {
    let failed = PassError::at::<Cause>(Stage::Pull);
    let mut blobs = Vec::new();
    let (top, mut bytes) = origin.top_manifest(store, digest, &mut blobs).await?;
    let mut digest = top;
    let mut manifest = origin.parse(&digest, &bytes)?;
    if let Manifest::Index(index) = &manifest {
        digest = index
            .select(platform)
            .map_err(|error| failed(origin.document_error(&digest, error)))?
            .digest;
        bytes = origin.manifest(store, &digest, &mut blobs).await?;
        manifest = origin.parse(&digest, &bytes)?;
    }
    let mut admission = None;
    if let Origin::Registry(route) = origin {
        // Before anything in the image is read.
        let admitted = route.admit(&top, Some(&digest)).await;
        admission = Some(admitted.map_err(PassError::at(Stage::Pull))?);
    }
    let Manifest::Image(image) = manifest else {
        return Err(failed(
            origin.document_error(&digest, ManifestError::Nested),
        ));
    };
    check_sizes(origin, &image, limits).map_err(&failed)?;
    blobs.push(store.pin(image.config.digest));
    let config = origin.document(store, &image.config).await?;
    let config = ImageConfig::parse(&config)
        .map_err(|error| failed(origin.document_error(&image.config.digest, error)))?;
    // Layers of an image that is no catalog are not pulled.
    let folder = catalog_path(&config)
        .ok_or(FilesError::NoLabel)
        .map_err(PassError::at(Stage::Unpack))?
        .to_owned();
    let mut covered = image.layers;
    let pins: Vec<BlobPin> = covered
        .iter()
        .map(|layer| store.pin(layer.digest))
        .collect();
    let layers = pull_layers(origin, store, &covered, Some((&folder, limits))).await?;
    covered.truncate(covered.len() - layers.len());
    blobs.extend(pins.into_iter().skip(covered.len()));
    if !covered.is_empty() {
        tracing::debug!(layers = covered.len(), "the lower layers are covered");
    }
    Ok(Pulled {
        digest: top,
        folder,
        layers,
        covered,
        admission,
        blobs,
    })
}

/// Brings the covered layers into the store as well.
pub(crate) async fn pull_covered(
    origin: &Origin,
    store: &Contents,
    pulled: &mut Pulled,
) -> Result<(), PassError> {
    let covered = std::mem::take(&mut pulled.covered);
    let pins = covered.iter().map(|layer| store.pin(layer.digest));
    pulled.blobs.extend(pins);
    let lower = pull_layers(origin, store, &covered, None).await?;
    pulled.layers.splice(0..0, lower);
    Ok(())
}

/// Brings layers into the store, in parallel, and returns them with their paths,
/// the lowest first. With a folder in `needed`, layers that cannot hold any of it
/// are left out.
async fn pull_layers(
    origin: &Origin,
    store: &Contents,
    layers: &[Descriptor],
    needed: Option<(&str, &Limits)>,
) -> Result<Vec<(Descriptor, PathBuf)>, PassError> {
    pull_progress::expect(store, layers).await?;
    // The highest layer so far that covers those below.
    let (lowest, _) = watch::channel(0);
    let budget = Arc::default();
    let pulls = (0..layers.len()).rev().map(|number| {
        let (lowest, mut covered) = (&lowest, lowest.subscribe());
        let budget = Arc::clone(&budget);
        let pull = async move {
            let path = origin.blob(store, &layers[number]).await?;
            if let Some((folder, limits)) = needed
                && is_worth_examining(store, &layers[..=number]).await?
                && covers(&path, folder, limits, budget).await?
            {
                lowest.send_modify(|lowest| *lowest = number.max(*lowest));
            }
            Ok::<_, PassError>(path)
        };
        async move {
            tokio::select! {
                biased;
                _ = covered.wait_for(|lowest| *lowest > number) => Ok(None),
                path = pull => path.map(Some),
            }
        }
    });
    let mut pulls = stream::iter(pulls).buffered(PARALLEL);
    let mut needed = Vec::new();
    for (number, layer) in layers.iter().enumerate().rev() {
        // All above are done, so this is known.
        if *lowest.borrow() > number {
            break;
        }
        let path = pulls.next().await.transpose()?.flatten();
        needed.extend(path.map(|path| (layer.clone(), path)));
    }
    needed.reverse();
    Ok(needed)
}

/// Whether examining the highest of these layers may save more than it costs,
/// which is about its size.
async fn is_worth_examining(store: &Contents, layers: &[Descriptor]) -> Result<bool, PassError> {
    let (store, layers) = (store.clone(), layers.to_vec());
    blocking(Stage::Pull, move || {
        let Some((highest, below)) = layers.split_last() else {
            return Ok(false);
        };
        let missing = below
            .iter()
            .filter(|layer| store.blob(&layer.digest).is_none());
        let missing = missing.fold(0_u64, |sum, layer| sum.saturating_add(layer.size));
        Ok(missing > highest.size)
    })
    .await
}

/// Whether a layer hides the catalog folder from all layers below. Unpacking
/// reports a layer that cannot be read.
async fn covers(
    path: &Path,
    folder: &str,
    limits: &Limits,
    budget: Arc<Mutex<SearchBudget>>,
) -> Result<bool, PassError> {
    let (path, folder, limits) = (path.to_owned(), folder.to_owned(), limits.clone());
    // An error would mean that it is closed, which nobody does.
    let _permit = EXAMINED.acquire().await;
    blocking(Stage::Pull, move || {
        let layer = File::open(&path).map(|reader| unpack::Layer {
            name: String::new(),
            reader,
        });
        let mut budget = budget.lock();
        Ok(layer.is_ok_and(|layer| unpack::covers(layer, &folder, &limits, &mut budget)))
    })
    .await
}

/// Checks the sizes before anything is pulled.
fn check_sizes(origin: &Origin, image: &ImageManifest, limits: &Limits) -> Result<(), Cause> {
    let Descriptor { digest, size, .. } = image.config;
    if size > MAX_DOCUMENT as u64 {
        return Err(origin.document_error(&digest, ManifestError::TooLarge { size }));
    }
    let mut total: u64 = 0;
    for layer in &image.layers {
        total = total.saturating_add(layer.size);
        if total > limits.bytes {
            return Err(Cause::Files(FilesError::Limit {
                what: "the size of the layers, in bytes,",
                path: layer.digest.to_string(),
                limit: limits.bytes,
            }));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::store::{DiskError, StoreError};

    #[test]
    fn a_full_disk_is_no_reason_to_pull_more_layers() {
        let pulled = Pulled {
            digest: Digest::of(b""),
            folder: "configs".into(),
            layers: Vec::new(),
            covered: vec![Descriptor::new(
                "application/vnd.oci.image.layer.v1.tar",
                b"",
            )],
            admission: None,
            blobs: Vec::new(),
        };
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let full = StoreError::from(DiskError::at("write in", Path::new("a"))(full));
        let full = PassError::at(Stage::Read)(full);
        assert!(!pulled.needs_all(&Err::<(), _>(full)));
        let empty = PassError::at(Stage::Unpack)(FilesError::Empty("configs".into()));
        assert!(pulled.needs_all(&Err::<(), _>(empty)));
    }
}
