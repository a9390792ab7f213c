//! Brings what the holder of a lease has made to all replicas.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::ingest::context::PassContext;
use crate::ingest::error::{PassError, Stage};
use crate::ingest::fleet::fleet_metrics;
use crate::ingest::fleet::membership::Track;
use crate::ingest::images::make::{make_slim, signing, tags};
use crate::ingest::images::options::Mirror;
use crate::ingest::source::Source;
use crate::ingest::stages::{StageTracker, blocking};
use crate::snapshot::Snapshot;
use crate::store::fleet::{
    FileLimit, FleetError, GenerationId, Lease, Publication, SourceRevision,
};
use crate::store::{self, BlobPin, Encoding, Revision, RevisionId, Store};

/// After this time, it is told that replicas are slow to fetch what was announced.
const LATE: Duration = Duration::from_mins(5);
/// The longest time until all serve what was announced: a newer revision of the source may be
/// one that they can fetch.
const LONGEST: Duration = Duration::from_mins(30);

/// A revision that is made and kept, but not published.
pub(in crate::ingest) struct MadeRevision<'a> {
    pub(in crate::ingest) revision: &'a Revision,
    /// The revisions that it is made of, if it is curated.
    pub(in crate::ingest) sources: &'a [SourceRevision],
    /// The moment at which the pass began that found it at its source, if one did.
    pub(in crate::ingest) began: Option<Instant>,
    /// The snapshot that is served until then.
    pub(in crate::ingest) before: Option<Arc<Snapshot>>,
}

/// Publishes a revision: all replicas fetch it, then all turn to it. Returns once it is
/// served here.
pub(in crate::ingest) async fn share_revision(
    context: &PassContext,
    (track, lease): (&Track, Lease),
    stages: &StageTracker,
    source: &Source,
    made: MadeRevision<'_>,
) -> Result<(), PassError> {
    let sharing = async {
        let store = &context.store;
        let revision = made.revision;
        encode(store, revision, made.before).await?;
        // With the sums of its encodings.
        let kept = store.kept(&revision.catalog, revision.id).await;
        let kept = kept.map_err(PassError::at(Stage::Share))?;
        let revision = kept.as_ref().unwrap_or(revision);
        let limit = FileLimit::of(&context.limits);
        let fleet = track.membership().fleet();
        let files = fleet.share_revision(store, Some(limit), revision).await;
        let files = files.map_err(failed)?;
        let image = match make_image(context, source, track, revision).await {
            Some((image, pins)) => {
                let of = (revision.id, &image);
                let parts = fleet.share_image(store, Some(limit), of).await;
                Some((image, parts.map_err(failed)?, pins))
            }
            None => None,
        };
        let publication = Publication {
            lease,
            revision,
            sources: made.sources,
            files: &files,
            image: image.as_ref().map(|(image, parts, _)| (image, parts)),
            past: None,
            resolved: made
                .began
                .and_then(|began| track.membership().time(began.into_std())),
            // The pass tells them, unless this replica dies before. Nothing new needs no word.
            untold: made.began.is_some(),
        };
        track.announces(revision.id);
        let ids = fleet.prepare_revisions(&[publication]).await;
        tracing::debug!(revision = %revision.id, "announced to the fleet");
        for id in ids.map_err(failed)? {
            wait(track, lease, id).await.map_err(failed)?;
        }
        Ok(())
    };
    stages.run(Stage::Share, sharing).await
}

/// The slim image of a revision, so that both come to clients at once. A failure is no
/// reason to keep the revision from them: the image is tried again.
async fn make_image(
    context: &PassContext,
    source: &Source,
    track: &Track,
    revision: &Revision,
) -> Option<(store::Image, Vec<BlobPin>)> {
    let options = track.image();
    if options.mirror != Mirror::Slim {
        return None;
    }
    let made = async {
        let (store, of) = (context.store.clone(), revision.clone());
        let opening = blocking(Stage::Build, move || {
            Snapshot::open(&store, of).map_err(PassError::at(Stage::Build))
        });
        let snapshot = Arc::new(opening.await?);
        make_slim(context, &snapshot, tags(source), signing(context, options)).await
    };
    let made = made.await.inspect_err(|error| {
        tracing::warn!(revision = %revision.id, %error, "the image is made later");
    });
    made.ok()
}

fn failed(error: FleetError) -> PassError {
    fleet_metrics::failed(&error);
    PassError::at(Stage::Share)(error)
}

/// Publishes another image of the revision that was published last. `false` when another
/// revision was published meanwhile.
pub(in crate::ingest) async fn share_image(
    context: &PassContext,
    (track, lease): (&Track, Lease),
    revision: RevisionId,
    image: &store::Image,
) -> Result<bool, PassError> {
    let sharing = async {
        let fleet = track.membership().fleet();
        let limit = Some(FileLimit::of(&context.limits));
        let of = (revision, image);
        let parts = fleet.share_image(&context.store, limit, of).await?;
        match fleet.prepare_image(lease, revision, image, &parts).await? {
            Some(id) => wait(track, lease, id).await.map(|()| true),
            None => Ok(false),
        }
    };
    sharing.await.map_err(failed)
}

/// Waits until a generation is served here, as `receive` does it. It is not announced again
/// while others may still fetch it: they would begin anew.
async fn wait(track: &Track, lease: Lease, id: GenerationId) -> Result<(), FleetError> {
    track.membership().nudge();
    let begun = Instant::now();
    while let Err(_late) = tokio::time::timeout(LATE, track.until_served(id)).await {
        if begun.elapsed() >= LONGEST || !track.awaits(lease, id) {
            return Err(FleetError::NotTurned);
        }
        tracing::warn!(
            generation = id.number,
            "the other replicas are slow to fetch the revision: their /status tells why"
        );
    }
    Ok(())
}

/// Makes all encodings, so that the revision never changes once it is announced: a
/// replica without one would answer with another entity tag. What `before` has too is
/// copied.
pub(in crate::ingest) async fn encode(
    store: &Store,
    revision: &Revision,
    before: Option<Arc<Snapshot>>,
) -> Result<(), PassError> {
    let (own, of) = (store.clone(), revision.clone());
    let made = blocking(Stage::Share, move || {
        let make = || {
            let snapshot = Snapshot::open(&own, of)?;
            if let Some(before) = before {
                snapshot.copies_from(&before);
            }
            let mut made = Vec::new();
            for encoding in Encoding::ALL {
                let file = own.encode(
                    snapshot.revision(),
                    encoding,
                    snapshot.plain(encoding),
                    || true,
                )?;
                made.extend(file.into_iter().flat_map(|encoded| encoded.sums));
            }
            Ok(made)
        };
        make().map_err(PassError::at::<store::StoreError>(Stage::Share))
    });
    let recorded = store.record_files(revision.id, &made.await?).await;
    recorded.map_err(PassError::at(Stage::Share))
}
