//! Revisions of a fleet: they are on the disk before anybody is served them, and a
//! replica gets them as files.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::TempDir;

use crate::answers::index::FORMAT;
use crate::name::CatalogName;
use crate::store::commit::{insert_rows, make_current};
use crate::store::disk::{DiskError, blocking, protect, sync_folder};
use crate::store::record::{self, RECORD, Record};
use crate::store::revision_files::PIECES;
use crate::store::revisions::revision_exists;
use crate::store::sql::whole;
use crate::store::summing::{Summed, Summing};
use crate::store::{Damage, Encoding, Revision, RevisionId, Store, StoreError, history};

/// The files of a revision that are being brought in. Dropped before it is adopted,
/// it leaves nothing behind.
pub(super) struct Incoming {
    pub(super) folder: TempDir,
}

impl Incoming {
    /// Writes one file. Its bytes come from `content`, and it is on the disk then.
    pub(super) fn write(&self, name: &str, content: &mut impl io::Read) -> Result<(), DiskError> {
        let path = self.folder.path().join(name);
        let written = File::create_new(&path).and_then(|mut file| {
            io::copy(content, &mut file)?;
            protect(&file)?;
            file.sync_data()
        });
        written.map_err(DiskError::at("write", &path))
    }
}

impl Store {
    /// A folder for the files of a revision.
    pub(super) fn incoming(&self) -> Result<Incoming, StoreError> {
        let parent = self.revisions_folder();
        let folder = tempfile::Builder::new().prefix("new-").tempdir_in(&parent);
        let folder = folder.map_err(DiskError::at("write in", &parent))?;
        Ok(Incoming { folder })
    }

    /// Makes a revision of files that another replica has written, under its number.
    /// Nobody is served it yet.
    ///
    /// # Errors
    /// When the files do not fit their record, or cannot be kept.
    pub(super) async fn adopt(
        &self,
        catalog: &CatalogName,
        id: RevisionId,
        incoming: Incoming,
    ) -> Result<(), StoreError> {
        let (record, folder) = {
            let name = catalog.clone();
            let path = incoming.folder.path().to_owned();
            let checked = tokio::task::spawn_blocking(move || {
                let record = verified(incoming.folder.path(), &name);
                Ok::<_, StoreError>((record?, incoming.folder))
            });
            let stopped = |error| Err(DiskError::at("read", &path)(io::Error::other(error)).into());
            checked.await.unwrap_or_else(stopped)?
        };
        let store = self.clone();
        whole(async move {
            let mut transaction = store.begin().await?;
            if revision_exists(&mut *transaction, id).await? {
                return Err(StoreError::NumberTaken(id));
            }
            insert_rows(&mut transaction, &record, Some(id)).await?;
            let parent = store.revisions_folder();
            let moved = blocking("create", store.revision_folder(id), move |to| {
                if to.exists() {
                    // Left by a commit that failed.
                    fs::remove_dir_all(to).map_err(DiskError::at("remove", to))?;
                }
                sync_folder(folder.path())?;
                fs::rename(folder.path(), to).map_err(DiskError::at("create", to))?;
                // Nothing is left under the old name to remove.
                let _ = folder.keep();
                sync_folder(&parent)
            });
            moved.await?;
            let committed = transaction.commit().await;
            committed.map_err(StoreError::sql("commit"))
        })
        .await
    }

    /// Makes a revision that is on the disk its catalog's current one, and adds it to the
    /// history.
    pub async fn serve(&self, revision: &Revision) -> Result<(), StoreError> {
        let path = self.revision_folder(revision.id).join(RECORD);
        let (history, content) = (self.history(), revision.content);
        let found = blocking("read", path, move |path| {
            let record = record::read::<Record<'static>>(path)?;
            Ok((record, history.outline(&content)))
        });
        let (record, outline) = found.await?;
        let outline = match outline {
            Some(outline) => Some(self.prepare_outline(&revision.catalog, outline).await?),
            None => None,
        };
        let (store, id, catalog) = (self.clone(), revision.id, revision.catalog.clone());
        whole(async move {
            let mut transaction = store.begin().await?;
            let is_new = history::is_new(&mut *transaction, &catalog, id).await?;
            if let (Some(record), Some(outline), true) = (record, outline, is_new) {
                store
                    .insert_history(&mut transaction, id, &record, outline)
                    .await?;
            }
            make_current(&mut transaction, &catalog, id).await?;
            let committed = transaction.commit().await;
            committed.map_err(StoreError::sql("commit"))
        })
        .await
    }
}

/// The record among some files, which are all that it names, and have its sums. The
/// sums of encodings are added.
fn verified(folder: &Path, catalog: &CatalogName) -> Result<Record<'static>, StoreError> {
    let path = folder.join(RECORD);
    let damaged = |path: &Path, reason: String| {
        let path = path.to_owned();
        StoreError::from(Damage { path, reason })
    };
    let record = record::read::<Record<'static>>(&path)?;
    let Some(mut record) = record.filter(|record| record.format == FORMAT) else {
        return Err(damaged(&path, "it is no record of this version".into()));
    };
    if *record.catalog != *catalog {
        return Err(damaged(&path, format!("it is of {}", record.catalog)));
    }
    // It is removed once it is damaged, and its replica then has none to share.
    if !folder.join(PIECES).exists() {
        record.sums.to_mut().remove(PIECES);
    }
    for (name, wanted) in &*record.sums {
        let path = folder.join(name);
        if sum_of(&path)? != *wanted {
            return Err(damaged(
                &path,
                "its bytes are not those of the record".into(),
            ));
        }
    }
    for name in Encoding::ALL.into_iter().flat_map(Encoding::files) {
        let path = folder.join(name);
        if path.exists() {
            let sum = sum_of(&path)?;
            record.sums.to_mut().insert((*name).to_owned(), sum);
        }
    }
    Ok(record)
}

fn sum_of(path: &Path) -> Result<crate::store::FileSum, DiskError> {
    let mut summed = Summed {
        inner: io::sink(),
        sums: Summing::default(),
    };
    let read = File::open(path).and_then(|mut file| io::copy(&mut file, &mut summed));
    read.map_err(DiskError::at("read", path))?;
    Ok(summed.sums.finish())
}
