//! Exporting catalogs to an archive.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::ingest::archive::error::ArchiveError;
use crate::ingest::archive::gather::{Export, Since, gather};
use crate::ingest::archive::metadata::{CarriedRevision, Held};
use crate::ingest::archive::progress::Progress;
use crate::ingest::archive::scan::read_metadata;
use crate::ingest::archive::write::{Exported, folder_of, write};
use crate::store::{DiskError, Store};

/// How often a store that changes meanwhile is read again.
const MAX_ATTEMPTS: usize = 5;
/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// Writes an archive, whole or not at all. An almanac may be using the data
/// folder meanwhile.
pub async fn export(requested: &Export, progress: &Progress) -> Result<Exported, ArchiveError> {
    let no_store = || ArchiveError::NoStore {
        path: requested.data.clone(),
    };
    let requested = &Export {
        output: output(requested)?,
        ..requested.clone()
    };
    let folder = folder_of(&requested.output);
    if !folder.is_dir() {
        return Err(ArchiveError::NoFolder {
            path: folder.to_owned(),
        });
    }
    let store = Store::open_beside(&requested.data)
        .await?
        .ok_or_else(no_store)?;
    let there = match &requested.since {
        Some(Since::Archive(path)) => read_metadata(path, progress)?.held(),
        _ => BTreeMap::new(),
    };
    let mut attempts = 0;
    let gathered = loop {
        attempts += 1;
        match gather(&store, requested, there.clone()).await {
            // A revision was replaced while it was read.
            Err(ArchiveError::StoredBlob { .. } | ArchiveError::NoImage { .. })
                if attempts < MAX_ATTEMPTS =>
            {
                tokio::time::sleep(PAUSE).await;
            }
            gathered => break gathered?,
        }
    };
    store.close().await;
    if gathered.metadata.catalogs.is_empty() && requested.since.is_none() {
        return Err(no_store());
    }
    let is_new = |carried: &&CarriedRevision| {
        let before = there.get(&carried.catalog);
        before != Some(&Held::new(carried.id, &carried.image))
    };
    let new = gathered.metadata.catalogs.iter().filter(is_new).count();
    let (requested, progress) = (requested.clone(), progress.clone());
    let writing = tokio::task::spawn_blocking(move || write(&requested, gathered, &progress));
    let written = writing.await;
    let failed = |error| DiskError::at("write", Path::new("an archive"))(error);
    let written = written.map_err(|error| failed(error.into()))??;
    Ok(Exported { new, ..written })
}

/// The file to write, behind links. The archive replaces it, so it must be neither
/// a device nor the archive of `--since`.
fn output(requested: &Export) -> Result<PathBuf, ArchiveError> {
    let path = &requested.output;
    let refused = |problem| {
        Err(ArchiveError::Output {
            path: path.clone(),
            problem,
        })
    };
    let Ok(output) = path.canonicalize() else {
        if path.is_symlink() {
            return refused("it is a link, but not to a file; name the file itself");
        }
        return Ok(path.clone());
    };
    if !output.is_file() {
        return refused("it exists and is not a file; name a file");
    }
    if let Some(Since::Archive(since)) = &requested.since
        && since.canonicalize().is_ok_and(|since| since == output)
    {
        return refused("it is the archive of --since, which would be lost; name another file");
    }
    Ok(output)
}
