//! The revisions that records describe, and the folders without a usable record.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use sqlx::{Sqlite, Transaction};

use crate::answers::index::FORMAT;
use crate::store::StoreError;
use crate::store::file_io::{DiskError, sync_folder};
use crate::store::images::records::{self as images, Image};
use crate::store::record::{self, IMAGE_RECORD, RECORD, Record};
use crate::store::revision::RevisionId;
use crate::store::revisions::commit::{insert_rows, make_current};

/// The names of folders begin with this that neither a row nor a record describes.
pub(crate) const LOST: &str = "lost-";

/// How long folders that were moved aside stay.
const KEPT_ASIDE: Duration = Duration::from_hours(30 * 24);

/// The folders of revisions.
#[derive(Default)]
pub(crate) struct Scan {
    /// The revisions whose records are whole and of this version.
    pub(crate) recorded: BTreeMap<RevisionId, (Record<'static>, Option<Image>)>,
    /// The others.
    pub(crate) unrecorded: Vec<RevisionId>,
    /// The highest number of all, also of those that were moved aside.
    pub(crate) highest: Option<RevisionId>,
}

/// Reads the records of all revisions in a folder.
pub(crate) fn scan(folder: &Path) -> Result<Scan, StoreError> {
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
pub(crate) fn keep_aside(revisions: &Path, unrecorded: &[RevisionId]) -> Result<(), StoreError> {
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

/// Removes the folders that were moved aside long before `now`. A rename changes the
/// date of the last change of a folder.
pub(crate) fn remove_aside(revisions: &Path, now: SystemTime) -> Result<(), DiskError> {
    for entry in fs::read_dir(revisions).map_err(DiskError::at("read", revisions))? {
        let path = entry.map_err(DiskError::at("read", revisions))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if !name.is_some_and(|name| name.starts_with(LOST)) {
            continue;
        }
        let metadata = fs::symlink_metadata(&path).map_err(DiskError::at("look up", &path))?;
        let moved = u64::try_from(metadata.ctime()).unwrap_or(0);
        let moved = SystemTime::UNIX_EPOCH + Duration::from_secs(moved);
        // A date in the future means that the clock was set back.
        if now.duration_since(moved).is_ok_and(|age| age > KEPT_ASIDE) {
            tracing::info!(path = %path.display(), "removing files that were moved aside");
            fs::remove_dir_all(&path).map_err(DiskError::at("remove", &path))?;
        }
    }
    Ok(())
}

/// Inserts the rows of a recorded revision, which becomes its catalog's current one.
pub(crate) async fn insert_recorded(
    transaction: &mut Transaction<'_, Sqlite>,
    id: RevisionId,
    record: &Record<'_>,
    image: Option<&Image>,
) -> Result<(), StoreError> {
    insert_rows(transaction, record, Some(id)).await?;
    if let Some(image) = image {
        images::insert(transaction, id, image).await?;
    }
    make_current(transaction, &record.catalog, id).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_were_moved_aside_go_after_thirty_days() {
        let revisions = tempfile::tempdir().unwrap();
        let names = ["3", "lost-1", "lost-1-2", "new-4"];
        for name in names {
            let folder = revisions.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("metas.jsonl"), "").unwrap();
        }
        let after = |days: u64| {
            let now = SystemTime::now() + Duration::from_hours(24 * days);
            remove_aside(revisions.path(), now).unwrap();
            let names = names.into_iter();
            names
                .filter(|name| revisions.path().join(name).exists())
                .collect::<Vec<_>>()
        };
        assert_eq!(after(29), names);
        assert_eq!(after(31), ["3", "new-4"]);
    }
}
