//! Publishes what the holder of a track has made.

use std::sync::Arc;
use std::time::Instant;

use crate::fleet::error::FleetError;
use crate::fleet::file_limit::FileLimit;
use crate::fleet::generations::{Publication, document};
use crate::fleet::object::Object;
use crate::fleet::session::SessionNumber;
use crate::fleet::track::{Permit, SharedTrack};
use crate::fleet::upload::{Known, blocking};
use crate::snapshot::Snapshot;
use crate::store::{Encoding, Image, Revision, RevisionId, Store, StoreError};

/// A revision that is made, kept and encoded, but not published.
pub struct Made<'a> {
    /// The revision.
    pub revision: &'a Revision,
    /// Its image, whose blobs are in the store.
    pub image: Option<&'a Image>,
    /// When the pass began that found it at its source.
    pub began: Instant,
}

impl Permit {
    /// Publishes a revision, and waits until clients see it here.
    ///
    /// # Errors
    /// With [`FleetError::Fenced`] when this replica has lost the lock.
    pub async fn publish(&self, limit: FileLimit, made: Made<'_>) -> Result<(), FleetError> {
        let Self::Holder(track, session) = self else {
            return Ok(());
        };
        let (store, revision) = (track.replica().store(), made.revision);
        let id = revision.id;
        let number = {
            let (fleet, row) = (
                track.replica().fleet(),
                track.id().ok_or(FleetError::Fenced)?,
            );
            let _uploading = fleet.begin_upload(*session).await?;
            let known = fleet.known_objects(row).await?;
            let files = fleet
                .upload_revision(store, limit, revision, &known)
                .await?;
            let image = match made.image {
                Some(image) => Some(upload_image(track, limit, (id, image), &known).await?),
                None => None,
            };
            let publication = Publication {
                track: row,
                catalog: revision.catalog.clone(),
                revision: id,
                content: revision.content.to_string(),
                published: document(&revision.published())?,
                files,
                image,
                past: Vec::new(),
                resolved: Some(made.began.elapsed()),
            };
            fleet.publish(*session, vec![publication]).await?
        };
        match number.first() {
            Some(number) => {
                track.until_shown(*number).await;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Publishes another image of a revision. `false` when another revision is the newest one
    /// meanwhile.
    pub async fn publish_image(
        &self,
        limit: FileLimit,
        revision: RevisionId,
        image: &Image,
    ) -> Result<bool, FleetError> {
        let Self::Holder(track, session) = self else {
            return Ok(false);
        };
        let number = publish_image(track, *session, limit, (revision, image)).await?;
        match number {
            Some(number) => {
                track.until_shown(number).await;
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

async fn publish_image(
    track: &SharedTrack,
    session: SessionNumber,
    limit: FileLimit,
    (revision, image): (RevisionId, &Image),
) -> Result<Option<crate::fleet::GenerationNumber>, FleetError> {
    let (fleet, row) = (
        track.replica().fleet(),
        track.id().ok_or(FleetError::Fenced)?,
    );
    let _uploading = fleet.begin_upload(session).await?;
    let known = fleet.known_objects(row).await?;
    let uploaded = upload_image(track, limit, (revision, image), &known).await?;
    fleet.publish_image(session, row, revision, uploaded).await
}

async fn upload_image(
    track: &SharedTrack,
    limit: FileLimit,
    (revision, image): (RevisionId, &Image),
    known: &Known,
) -> Result<(Image, Vec<Object>), FleetError> {
    let (fleet, store) = (track.replica().fleet(), track.replica().store());
    let of = (revision, image);
    let parts = fleet.upload_image(store, limit, of, known).await?;
    Ok((image.clone(), parts))
}

/// Makes all encodings of a revision that is kept, so that it never changes once it is
/// published: replicas would answer with different entity tags. What `before` has too is
/// copied. Returns the revision with the sums of its encodings.
pub async fn encode(
    store: &Store,
    revision: &Revision,
    before: Option<Arc<Snapshot>>,
) -> Result<Revision, FleetError> {
    let (own, of) = (store.clone(), revision.clone());
    let made = blocking(move || {
        let snapshot = Snapshot::open(&own, of)?;
        if let Some(before) = before {
            snapshot.copies_from(&before);
        }
        let mut made = Vec::new();
        for encoding in Encoding::ALL {
            let plain = snapshot.plain(encoding);
            let file = own.encode(snapshot.revision(), encoding, plain, || true)?;
            made.extend(file.into_iter().flat_map(|encoded| encoded.sums));
        }
        Ok(made)
    });
    store.record_files(revision.id, &made.await?).await?;
    let kept = store.kept(&revision.catalog, revision.id).await?;
    Ok(kept.ok_or(StoreError::KnownDamage(revision.id))?)
}
