//! The folder that a command fills with what a fleet serves.

use std::path::Path;

use tempfile::TempDir;

use crate::fleet::{FileLimit, Fleet, Generation, Reader};
use crate::ingest::archive::error::ArchiveError;
use crate::ingest::archive::metadata::MAX_HISTORY;
use crate::ingest::archive::progress::Progress;
use crate::name::CatalogName;
use crate::store::{CacheLimits, DiskError, Store};
use ::images::layers::Limits;

/// Brings generations into a folder, where they are current as those of a node alone.
/// Returns why some are not, since the bucket has lost them; their history is there.
pub(super) async fn fetch(
    fleet: &Fleet,
    folder: &Path,
    limits: &Limits,
    served: &[(CatalogName, Generation)],
    progress: &Progress,
) -> Result<Vec<ArchiveError>, ArchiveError> {
    let store = Store::open_with(folder, CacheLimits::NOTHING).await?;
    let reader = Reader::new(fleet);
    let fetching = async {
        let mut lost = Vec::new();
        for (catalog, generation) in served {
            progress.at("downloading", 0, 0)?;
            let failed = |cause| ArchiveError::Unfetched {
                catalog: catalog.clone(),
                cause,
            };
            let (limit, of) = (FileLimit::of(limits), (catalog, generation));
            let fetched = reader.fetch(&store, limit, of, false).await;
            let fetched = match fetched {
                Ok(fetched) => fetched,
                Err(error) if error.is_lost() => {
                    let after = generation.revision.next();
                    let history = reader.fetch_history(&store, catalog, after, MAX_HISTORY);
                    history.await?;
                    lost.push(failed(error));
                    continue;
                }
                Err(error) => return Err(failed(error)),
            };
            let revision = &fetched.revision;
            let history = reader.fetch_history(&store, catalog, revision.id, MAX_HISTORY);
            history.await?;
            store.serve(revision).await?;
            let own_image = fetched.image.filter(|image| image.revision == revision.id);
            if let Some(image) = own_image {
                store.record_image(revision.id, &image.image).await?;
            }
        }
        Ok(lost)
    };
    let fetched = progress.unless_stopped(fetching).await;
    store.close().await;
    fetched
}

/// A folder for the work: on the disk of the data folder, if that is there. The next start
/// of a replica removes it if this is killed.
pub(super) fn workspace(data: &Path) -> Result<TempDir, ArchiveError> {
    let builder = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix("new-archive-");
        builder
    };
    let beside = data.join("revisions");
    let made = if beside.is_dir() {
        builder().tempdir_in(&beside)
    } else {
        builder().tempdir()
    };
    Ok(made.map_err(DiskError::at("create a folder in", data))?)
}
