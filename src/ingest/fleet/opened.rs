//! A generation that is open on this replica.

use std::sync::Arc;

use crate::snapshot::{Image, Snapshot};
use crate::store::fleet::{Fetched, FetchedImage, FleetError, Generation};
use crate::store::{BlobPin, DiskError, Revision, RevisionId, Store, StoreError};
use fbc::problem::Problem;

/// A generation that is open here.
pub(super) struct Opened {
    pub(super) generation: Generation,
    pub(super) revision: Revision,
    /// `None` once it was published.
    pub(super) snapshot: Option<Snapshot>,
    pub(super) image: Option<OpenedImage>,
    /// Its problems, which are read before its moment: the disk may be slow.
    pub(super) problems: Vec<Problem>,
}

/// Its image.
pub(super) struct OpenedImage {
    pub(super) image: Arc<Image>,
    pub(super) record: crate::store::Image,
    pub(super) revision: RevisionId,
    /// Its parts stay as long as it may be served.
    _pins: Vec<BlobPin>,
}

impl Opened {
    /// Opens what is on the disk; its revision only unless it `is_served`.
    pub(super) async fn of(
        store: &Store,
        generation: &Generation,
        fetched: Fetched,
        is_served: bool,
    ) -> Result<Self, FleetError> {
        let own = store.clone();
        let Fetched { revision, image } = fetched;
        let wanted = revision.clone();
        let opened = tokio::task::spawn_blocking(move || {
            let snapshot = if is_served {
                None
            } else {
                Some(Snapshot::open(&own, wanted)?)
            };
            let open = |wanted: FetchedImage| {
                let opened = Image::open(&own, wanted.revision, wanted.image.clone());
                let opened = opened.map_err(DiskError::at("open an image in", &own.temporary()))?;
                Ok::<_, StoreError>(OpenedImage {
                    image: Arc::new(opened),
                    record: wanted.image,
                    revision: wanted.revision,
                    _pins: wanted.pins,
                })
            };
            Ok::<_, StoreError>((snapshot, image.map(open).transpose()?))
        });
        let folder = store.temporary();
        let opened = opened.await;
        let stopped = |error| {
            let error = std::io::Error::other(error);
            Err(DiskError::at("open a revision in", &folder)(error).into())
        };
        let (snapshot, image) = opened.unwrap_or_else(stopped)?;
        let problems = store.problems(revision.id).await.unwrap_or_default();
        Ok(Self {
            generation: generation.clone(),
            revision,
            snapshot,
            image,
            problems,
        })
    }
}
