//! Curated catalogs: a pass over what other catalogs are at, instead of over
//! an image.
//!
//! What the selection means is `fbc::select`'s; here the snapshots are taken
//! that it is made of, and a revision like any other is made of the result.

use std::fmt;
use std::sync::Arc;

use crate::ingest::error::{PassError, Stage};
use crate::ingest::files::CatalogFiles;
use crate::ingest::pass::{Followed, Made, Workshop, blocking, make, stage};
use crate::ingest::{OnInvalid, files};
use crate::name::CatalogName;
use crate::snapshot::Snapshot;
use crate::store::Revision;
use ::images::digest::{Digest, Hasher};
use ::images::layers::Limits;
use fbc::select;
use fbc::select::{Catalog, Request, SelectError, Selected};

/// What a curated catalog is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curation {
    /// The catalogs. The request counts them as they stand here.
    pub from: Vec<CatalogName>,
    /// What is selected.
    pub request: Request,
}

/// Why there is no curated catalog.
#[derive(Debug, thiserror::Error)]
pub enum CurateError {
    /// A catalog of which nothing is there.
    #[error("there is nothing of the catalog {0} to select from yet")]
    Nothing(CatalogName),
    /// The selection cannot be fulfilled.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// There are no other catalogs.
    #[error("a curated catalog is made of other catalogs, and there are none here")]
    Alone,
}

impl CurateError {
    /// A short label for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Nothing(_) | Self::Alone => "no_catalog",
            Self::Select(_) => "selection",
        }
    }
}

impl Curation {
    /// What tells one selection from another.
    pub fn digest(&self) -> Digest {
        // How it is written may differ in another version: then the catalog is
        // made again, and nothing else happens.
        Digest::of(format!("{:?}", self.request).as_bytes())
    }
}

/// `curated:` and the names of the catalogs.
impl fmt::Display for Curation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "curated:";
        for name in &self.from {
            write!(f, "{before}{name}")?;
            before = ",";
        }
        Ok(())
    }
}

/// A pass over a curated catalog. Its digest is that of the selection and of
/// what it is made of.
pub(super) async fn pass(
    workshop: &Workshop,
    followed: &Followed,
    curation: &Curation,
    current: Option<Revision>,
    found: &mut Option<Digest>,
) -> Result<Made, PassError> {
    let snapshots = stage(Stage::Resolve, snapshots(workshop, curation)).await?;
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
    let _turn = workshop.turns.acquire().await;
    let (curation, limits) = (curation.clone(), workshop.limits.clone());
    let temporary = workshop.store.temporary();
    let selecting = blocking(Stage::Unpack, move || {
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
    let files = stage(Stage::Unpack, selecting).await?;
    let mut making = followed.clone();
    if !whole {
        // What was in order before has to be in order still.
        making.on_invalid = OnInvalid::Reject;
    }
    make(&workshop.store, &making, digest, files, &[])
        .await
        .map(Some)
}

/// A file for each package, and one for what is about none.
pub(super) fn files_of(
    selected: &Selected,
    limits: &Limits,
    temporary: &std::path::Path,
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

/// What is served of the catalogs, once each was looked for.
async fn snapshots(
    workshop: &Workshop,
    curation: &Curation,
) -> Result<Vec<Arc<Snapshot>>, PassError> {
    let mut snapshots = Vec::with_capacity(curation.from.len());
    for name in &curation.from {
        let snapshot = match workshop.catalogs.get(name.as_str()) {
            Some(catalog) => catalog.after_first_attempt().await,
            None => None,
        };
        let nothing = || CurateError::Nothing(name.clone());
        let snapshot = snapshot.ok_or_else(nothing);
        snapshots.push(snapshot.map_err(PassError::at(Stage::Resolve))?);
    }
    Ok(snapshots)
}
