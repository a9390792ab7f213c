//! The revisions that records describe, and the folders without a usable record.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use sqlx::{Sqlite, Transaction};

use crate::answers::index::FORMAT;
use crate::store::StoreError;
use crate::store::commit::insert_rows;
use crate::store::disk::{DiskError, sync_folder};
use crate::store::images::{self, Image};
use crate::store::record::{self, IMAGE_RECORD, RECORD, Record};
use crate::store::revision::RevisionId;

/// The names of folders begin with this that neither a row nor a record describes.
pub(super) const LOST: &str = "lost-";

/// The folders of revisions.
#[derive(Default)]
pub(super) struct Scan {
    /// The revisions whose records are whole and of this version.
    pub(super) recorded: BTreeMap<RevisionId, (Record<'static>, Option<Image>)>,
    /// The others.
    pub(super) unrecorded: Vec<RevisionId>,
    /// The highest number of all, also of those that were moved aside.
    pub(super) highest: Option<RevisionId>,
}

/// Reads the records of all revisions in a folder.
pub(super) fn scan(folder: &Path) -> Result<Scan, StoreError> {
    let mut found = Scan::default();
    for entry in fs::read_dir(folder).map_err(DiskError::at("read", folder))? {
        let path = entry.map_err(DiskError::at("read", folder))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let lost = name.strip_prefix(LOST);
        let id = lost.unwrap_or(name).parse::<RevisionId>();
        let Some(id) = id.ok().filter(|id| id.is_sound()) else {
            continue;
        };
        found.highest = found.highest.max(Some(id));
        if lost.is_some() {
            continue;
        }
        match record::read::<Record<'_>>(&path.join(RECORD))? {
            Some(record) if record.format == FORMAT => {
                let image = record::read(&path.join(IMAGE_RECORD))?;
                found.recorded.insert(id, (record, image));
            }
            _ => found.unrecorded.push(id),
        }
    }
    Ok(found)
}

/// Renames the folders of revisions that cannot be assigned to a catalog, so that
/// a start does not remove them.
pub(super) fn keep_aside(revisions: &Path, unrecorded: &[RevisionId]) -> Result<(), StoreError> {
    for id in unrecorded {
        let from = revisions.join(id.to_string());
        let mut to = revisions.join(format!("{LOST}{id}"));
        let mut number = 1;
        while to.try_exists().map_err(DiskError::at("look up", &to))? {
            number += 1;
            to = revisions.join(format!("{LOST}{id}-{number}"));
        }
        fs::rename(&from, &to).map_err(DiskError::at("move aside", &from))?;
        tracing::error!(
            path = %from.display(), moved_to = %to.display(),
            "the files of a revision without a usable record are moved aside"
        );
    }
    Ok(sync_folder(revisions)?)
}

/// Inserts the rows of a recorded revision, which becomes its catalog's current one.
pub(super) async fn insert_recorded(
    transaction: &mut Transaction<'_, Sqlite>,
    id: RevisionId,
    record: &Record<'_>,
    image: Option<&Image>,
) -> Result<(), StoreError> {
    insert_rows(transaction, record, Some(id)).await?;
    match image {
        Some(image) => images::insert(transaction, id, image).await,
        None => Ok(()),
    }
}
