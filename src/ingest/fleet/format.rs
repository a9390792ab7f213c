//! Brings a generation to the disk, also one that another version has published: its files
//! are made here then, of the canonical lines, without a registry.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::ingest::context::ReadPermit;
use crate::ingest::error::{PassError, Stage};
use crate::ingest::files::CatalogFiles;
use crate::ingest::fleet::share::encode;
use crate::ingest::followed::OnInvalid;
use crate::ingest::make_revision::write_revision;
use crate::ingest::stages::{StageTracker, blocking_with_permit};
use crate::name::CatalogName;
use crate::store::fleet::{Fetched, FileLimit, Fleet, FleetError, Generation, OtherFormat};
use crate::store::{NewRevision, Revision, SourceIdentity, Store, StoreError};

/// Brings a generation to the disk, the files of its revision also if they are there and
/// to be `fresh`. A command, which reads one catalog alone, has no `permits`.
///
/// # Errors
/// When an object is missing, damaged or longer than the limit, or the disk has no room.
pub(in crate::ingest) async fn fetch_or_build(
    fleet: &Fleet,
    (store, permits): (&Store, Option<&Arc<Semaphore>>),
    limit: FileLimit,
    (catalog, generation): (&CatalogName, &Generation),
    fresh: bool,
) -> Result<Fetched, FleetError> {
    let of = (catalog, generation);
    match fleet.fetch(store, limit, of, fresh).await {
        Err(FleetError::OtherFormat(_)) => {}
        fetched => return fetched,
    }
    let id = generation.revision;
    tracing::info!(%catalog, revision = %id, "making the files of this version from those of another");
    let other = fleet.lines(store, limit, id).await?;
    let permit = match permits {
        Some(permits) => ReadPermit::of(permits).await,
        None => ReadPermit::alone(),
    };
    let built = build(store, &permit, catalog, generation, other).await?;
    drop(permit);
    // Others do without it: they make their own.
    match fleet.share_format(store, &built).await {
        Ok(is_first) => tracing::debug!(%catalog, revision = %id, is_first, "shared"),
        Err(error) => tracing::warn!(%catalog, %error, "cannot share the files of this version"),
    }
    fleet.fetch(store, limit, of, false).await
}

/// Makes the files of a revision, which is on the disk then.
async fn build(
    store: &Store,
    permit: &ReadPermit,
    catalog: &CatalogName,
    generation: &Generation,
    other: OtherFormat,
) -> Result<Revision, FleetError> {
    let id = generation.revision;
    let failed = |error: PassError| FleetError::Unbuilt {
        revision: id,
        reason: error.to_string(),
    };
    let (work, of, lines) = (store.clone(), catalog.clone(), other.lines);
    let written = blocking_with_permit(Stage::Read, permit, move || {
        let files = CatalogFiles::new(vec!["catalog.json".into()], vec![lines]);
        let stages = StageTracker::at(Stage::Read);
        write_revision(&work, &stages, &of, files, OnInvalid::Quarantine)
    });
    let written = written.await.map_err(failed)?;
    if written.finished.content.to_string() != generation.content {
        return Err(FleetError::Unbuilt {
            revision: id,
            reason: format!("its lines have the digest {}", written.finished.content),
        });
    }
    let new = NewRevision {
        catalog,
        identity: SourceIdentity {
            source: other.published.source,
            variant: other.variant,
        },
        digest: other.published.digest,
        counts: written.counts,
        blobs: &[],
        problems: other.problems.as_ref().unwrap_or(&written.problems),
        search: &written.search,
    };
    let dates = (other.modified, other.published.committed);
    let adopted = store.adopt_built(written.finished, new, id, dates);
    adopted.await?;
    let find = || async {
        let kept = store.kept(catalog, id).await?;
        kept.ok_or(StoreError::KnownDamage(id))
    };
    encode(store, &find().await?, None).await.map_err(failed)?;
    // With the sums of its encodings.
    Ok(find().await?)
}
