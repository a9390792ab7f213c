//! The content of a curated catalog: a selection from the current revisions of
//! other catalogs. `fbc::select` makes the selection.

use std::path::Path;
use std::sync::Arc;

use crate::ingest::curation::{CurateError, Curation};
use crate::ingest::error::{PassError, Stage};
use crate::ingest::read::files::{self, CatalogFiles};
use crate::snapshot::{Catalogs, Snapshot};
use ::images::digest::{Digest, Hasher};
use ::images::layers::Limits;
use fbc::select;
use fbc::select::{Catalog, Selected};

/// The digest of a curated catalog: of the selection and of the contents of its
/// sources.
pub(crate) fn digest(curation: &Curation, sources: &[Arc<Snapshot>]) -> Digest {
    let mut hasher = Hasher::default();
    hasher.update(curation.digest().as_bytes());
    for snapshot in sources {
        hasher.update(snapshot.revision().content.as_bytes());
    }
    hasher.finish()
}

/// Makes the selection. This blocks.
pub(crate) fn files(
    curation: &Curation,
    sources: &[Arc<Snapshot>],
    limits: &Limits,
    temporary: &Path,
) -> Result<CatalogFiles, PassError> {
    let catalogs: Vec<Catalog> = (curation.from.iter().zip(sources))
        .map(|(name, snapshot)| snapshot.selection_input(name.as_str(), &[]))
        .collect();
    let mut damaged = curation.from.iter().zip(sources);
    // Its input lacks lines.
    if let Some((name, _)) = damaged.find(|(_, snapshot)| snapshot.is_damaged()) {
        return Err(PassError::at(Stage::Unpack)(CurateError::Nothing(
            name.clone(),
        )));
    }
    if let (true, [catalog]) = (curation.is_copy(), &catalogs[..]) {
        let lines = catalog.lines.iter().map(|line| line.json.clone());
        let file = ("catalog.json".to_owned(), lines.collect());
        return files::from_lines(&[file], limits, temporary).map_err(PassError::at(Stage::Unpack));
    }
    let selected = select::select(&catalogs, &curation.request)
        .map_err(CurateError::Select)
        .map_err(PassError::at(Stage::Build))?;
    for note in &selected.notes {
        tracing::warn!("{note}");
    }
    files_of(&selected, limits, temporary)
}

/// A file for each package, and one for documents of no package.
pub(crate) fn files_of(
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
    files::from_lines(&files, limits, temporary).map_err(PassError::at(Stage::Unpack))
}

/// The current revisions of the catalogs, after a first attempt for each.
pub(crate) async fn snapshots(
    catalogs: &Catalogs,
    curation: &Curation,
) -> Result<Vec<Arc<Snapshot>>, PassError> {
    let mut snapshots = Vec::with_capacity(curation.from.len());
    for name in &curation.from {
        let snapshot = match catalogs.get(name.as_str()) {
            Some(catalog) => catalog.after_first_attempt().await,
            None => None,
        };
        let nothing = || CurateError::Nothing(name.clone());
        let snapshot = snapshot.ok_or_else(nothing);
        snapshots.push(snapshot.map_err(PassError::at(Stage::Resolve))?);
    }
    Ok(snapshots)
}
