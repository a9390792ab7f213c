//! A pass over a curated catalog: its sources are the current revisions of other
//! catalogs. `fbc::select` makes the selection.

use std::path::Path;
use std::sync::Arc;

use crate::ingest::context::PassContext;
use crate::ingest::curation::{CurateError, Curation};
use crate::ingest::error::{PassError, Stage};
use crate::ingest::files::{self, CatalogFiles};
use crate::ingest::followed::{Followed, OnInvalid};
use crate::ingest::make_revision::{Input, Made, make_revision};
use crate::ingest::stages::{StageTracker, blocking_with_permit};
use crate::snapshot::Snapshot;
use crate::store::Revision;
use ::images::digest::{Digest, Hasher};
use ::images::layers::Limits;
use fbc::select;
use fbc::select::{Catalog, Selected};

/// A pass over a curated catalog. Its digest is of the selection and of the
/// contents of its sources.
pub(super) async fn pass(
    context: &PassContext,
    followed: &Followed,
    curation: &Curation,
    current: Option<Revision>,
    found: &mut Option<Digest>,
    stages: &StageTracker,
) -> Result<Made, PassError> {
    let snapshots = stages
        .run(Stage::Resolve, snapshots(context, curation))
        .await?;
    let mut hasher = Hasher::default();
    hasher.update(curation.digest().as_bytes());
    for snapshot in &snapshots {
        hasher.update(snapshot.revision().content.as_bytes());
    }
    let digest = hasher.finish();
    *found = Some(digest);
    if current.is_some_and(|current| current.digest == digest) {
        return Ok(None);
    }
    let whole = curation.request.is_whole() && curation.from.len() == 1;
    stages.enter(Stage::Unpack);
    let permit = context.read_permit().await;
    let (curation, limits) = (curation.clone(), context.limits.clone());
    let temporary = context.store.temporary();
    let selecting = blocking_with_permit(Stage::Unpack, &permit, move || {
        let catalogs: Vec<Catalog> = (curation.from.iter().zip(&snapshots))
            .map(|(name, snapshot)| snapshot.selection_input(name.as_str(), &[]))
            .collect();
        if let (true, [catalog]) = (whole, &catalogs[..]) {
            let lines = catalog.lines.iter().map(|line| line.json.clone());
            let file = ("catalog.json".to_owned(), lines.collect());
            return files::of_lines(&[file], &limits, &temporary)
                .map_err(PassError::at(Stage::Unpack));
        }
        let selected = select::select(&catalogs, &curation.request)
            .map_err(CurateError::Select)
            .map_err(PassError::at(Stage::Build))?;
        for note in &selected.notes {
            tracing::warn!("{note}");
        }
        files_of(&selected, &limits, &temporary)
    });
    let files = stages.run(Stage::Unpack, selecting).await?;
    let mut making = followed.clone();
    if !whole {
        // A selection from valid packages must be valid.
        making.on_invalid = OnInvalid::Reject;
    }
    let input = Input {
        followed: &making,
        digest,
        files,
        blobs: &[],
    };
    make_revision(&context.store, stages, &permit, input)
        .await
        .map(Some)
}

/// A file for each package, and one for documents of no package.
pub(super) fn files_of(
    selected: &Selected,
    limits: &Limits,
    temporary: &Path,
) -> Result<CatalogFiles, PassError> {
    let mut files = Vec::with_capacity(selected.packages.len() + 1);
    if !selected.others.is_empty() {
        files.push(("catalog.json".to_owned(), selected.others.clone()));
    }
    for package in &selected.packages {
        let path = format!("{}/catalog.json", package.name);
        files.push((path, package.lines.clone()));
    }
    files::of_lines(&files, limits, temporary).map_err(PassError::at(Stage::Unpack))
}

/// The current revisions of the catalogs, after a first attempt for each.
async fn snapshots(
    context: &PassContext,
    curation: &Curation,
) -> Result<Vec<Arc<Snapshot>>, PassError> {
    let mut snapshots = Vec::with_capacity(curation.from.len());
    for name in &curation.from {
        let snapshot = match context.catalogs.get(name.as_str()) {
            Some(catalog) => catalog.after_first_attempt().await,
            None => None,
        };
        let nothing = || CurateError::Nothing(name.clone());
        let snapshot = snapshot.ok_or_else(nothing);
        snapshots.push(snapshot.map_err(PassError::at(Stage::Resolve))?);
    }
    Ok(snapshots)
}
