//! Revisions of a fleet: they are on the disk before anybody is served them, and a
//! replica gets them as files.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::SystemTime;

use sqlx::{Row as _, Sqlite, Transaction};
use tempfile::TempDir;

use crate::answers::index::FORMAT;
use crate::name::CatalogName;
use crate::store::commit::{Dates, NewRevision, Pending, insert_rows, make_current};
use crate::store::disk::{DiskError, blocking, protect, sync_folder};
use crate::store::handle::INCOMING;
use crate::store::images::{self, Image};
use crate::store::record::{self, IMAGE_RECORD, RECORD, Record};
use crate::store::revision_files::PIECES;
use crate::store::sql::{self, seconds, whole};
use crate::store::summing::{Summed, Summing};
use crate::store::writer::Finished;
use crate::store::{
    Damage, Encoding, NewRevisionNumber, Revision, RevisionId, Store, StoreError, earlier_images,
    history,
};
use ::images::digest::Digest;

/// The files of a revision that are being brought in. Dropped before it is adopted,
/// it leaves nothing behind.
pub(super) struct Incoming {
    pub(super) folder: TempDir,
}

impl Incoming {
    /// Writes one file, whole or again. Its bytes come from `content`, and it is on the
    /// disk then.
    pub(super) fn write(&self, name: &str, content: &mut impl io::Read) -> Result<(), DiskError> {
        let path = self.folder.path().join(name);
        let written = File::create(&path).and_then(|mut file| {
            io::copy(content, &mut file)?;
            protect(&file)?;
            file.sync_data()
        });
        written.map_err(DiskError::at("write", &path))
    }

    /// The length of a file by the record, which was written before; 0 without one.
    pub(super) fn length_of(&self, name: &str) -> Result<u64, DiskError> {
        let record = record::read::<Record<'static>>(&self.folder.path().join(RECORD))?;
        Ok(record.map_or(0, |record| {
            record.sums.get(name).map_or(0, |sum| sum.length)
        }))
    }
}

impl Store {
    /// A folder for the files of a revision.
    pub(super) fn incoming(&self) -> Result<Incoming, StoreError> {
        let parent = self.revisions_folder();
        let folder = tempfile::Builder::new()
            .prefix(INCOMING)
            .tempdir_in(&parent);
        let folder = folder.map_err(DiskError::at("write in", &parent))?;
        Ok(Incoming { folder })
    }

    /// Makes a revision of files that another replica has written, under its number.
    /// Nobody is served it yet. One that has the number is replaced: its files are
    /// damaged, or the number was assigned twice.
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
            let image = replace_rows(&mut transaction, &record, id).await?;
            let parent = store.revisions_folder();
            let moved = blocking("create", store.revision_folder(id), move |to| {
                if to.exists() {
                    // The one that is replaced, or left by a commit that failed.
                    fs::remove_dir_all(to).map_err(DiskError::at("remove", to))?;
                }
                sync_folder(folder.path())?;
                fs::rename(folder.path(), to).map_err(DiskError::at("create", to))?;
                // Nothing is left under the old name to remove.
                let _ = folder.keep();
                sync_folder(&parent)
            });
            moved.await?;
            if let Some(image) = &image {
                store.write_image_record(id, image).await?;
            }
            let committed = transaction.commit().await;
            committed.map_err(StoreError::sql("commit"))
        })
        .await
    }

    /// Makes a revision of files that were made here of the lines of another version, under
    /// its number and with its dates: those of the content, and of the commit in seconds.
    /// Nobody is served it yet. One that has the number is replaced.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub async fn adopt_built(
        &self,
        mut finished: Finished,
        new: NewRevision<'_>,
        id: RevisionId,
        (modified, committed): (SystemTime, i64),
    ) -> Result<(), StoreError> {
        self.keep_new_outline(&mut finished, new.digest).await?;
        let dates = Dates {
            modified: seconds(modified),
            committed,
        };
        let pending = Pending::new(finished, new, dates);
        let store = self.clone();
        whole(async move {
            let mut transaction = store.begin().await?;
            let Pending {
                finished, record, ..
            } = pending;
            let image = replace_rows(&mut transaction, &record, id).await?;
            store
                .move_files(id, finished, record::encode(&record)?)
                .await?;
            if let Some(image) = &image {
                store.write_image_record(id, image).await?;
            }
            let committed = transaction.commit().await;
            committed.map_err(StoreError::sql("commit"))
        })
        .await
    }

    /// Makes a revision of the files of another one, under a number of the fleet and with a
    /// later date. Nobody is served it yet.
    ///
    /// # Errors
    /// When the other one is damaged, or a copy cannot be kept.
    pub async fn keep_again(
        &self,
        revision: &Revision,
        number: NewRevisionNumber,
    ) -> Result<Revision, StoreError> {
        let (store, of) = (self.clone(), revision.clone());
        let copying = tokio::task::spawn_blocking(move || {
            let (from, incoming) = (store.revision_folder(of.id), store.incoming()?);
            let failed = || DiskError::at("read", &from);
            let record = record::read::<Record<'static>>(&from.join(RECORD))?;
            let mut record = record.ok_or(StoreError::KnownDamage(of.id))?;
            for entry in fs::read_dir(&from).map_err(failed())? {
                let name = entry.map_err(failed())?.file_name();
                let name = name.to_string_lossy();
                if name != RECORD && name != IMAGE_RECORD {
                    let mut file = File::open(from.join(&*name)).map_err(failed())?;
                    incoming.write(&name, &mut file)?;
                }
            }
            let before = number.modified.max(Some(of.modified)).map_or(0, seconds);
            record.committed = seconds(SystemTime::now());
            record.modified = record.committed.max(before.saturating_add(1));
            record::write(incoming.folder.path(), RECORD, &record::encode(&record)?)?;
            Ok::<_, StoreError>(incoming)
        });
        let folder = self.revision_folder(revision.id);
        let stopped = |error| Err(DiskError::at("read", &folder)(io::Error::other(error)).into());
        let incoming = copying.await.unwrap_or_else(stopped)?;
        self.adopt(&revision.catalog, number.id, incoming).await?;
        let kept = self.kept(&revision.catalog, number.id).await?;
        kept.ok_or(StoreError::KnownDamage(number.id))
    }

    /// Makes a revision that is on the disk its catalog's current one, with the image that
    /// clients see: a start serves both. The image was made of that revision or, until that
    /// has one, of an earlier one. Its blobs are in the store, and pinned.
    /// [`Store::serve`] adds the revision to the history.
    pub async fn make_current(
        &self,
        revision: &Revision,
        image: Option<(RevisionId, &Image)>,
    ) -> Result<(), StoreError> {
        if image.is_some() {
            self.sync_contents().await?;
        }
        let parts = image.iter().flat_map(|(_, image)| image.parts());
        let parts: Vec<Digest> = parts.map(|part| part.digest).collect();
        let (store, pins, revision) = (self.clone(), self.pins(&parts), revision.clone());
        let image = image.map(|(of, image)| (of, image.clone()));
        whole(async move {
            let mut transaction = store.begin().await?;
            make_current(&mut transaction, &revision.catalog, revision.id).await?;
            let earlier = match &image {
                Some((of, image)) if *of == revision.id => {
                    let inserted = store.insert_own_image(&mut transaction, *of, image);
                    inserted.await?
                }
                Some((of, image)) => {
                    earlier_images::insert(&mut transaction, &revision, (*of, image)).await?
                }
                None => Vec::new(),
            };
            let committed = transaction.commit().await;
            committed.map_err(StoreError::sql("commit"))?;
            drop(pins);
            store.release_earlier(&earlier).await
        })
        .await
    }

    /// Makes a revision that is on the disk its catalog's current one, and adds it to the
    /// history.
    pub async fn serve(&self, revision: &Revision) -> Result<(), StoreError> {
        let path = self.revision_folder(revision.id).join(RECORD);
        let (history, name) = (self.history(), revision.outline());
        let found = blocking("read", path, move |path| {
            let record = record::read::<Record<'static>>(path)?;
            Ok((record, history.outline(&name)))
        });
        let (record, outline) = found.await?;
        let outline = match outline {
            Some(outline) => {
                let prepared = self.prepare_outline(&revision.catalog, (name, outline), None);
                Some(prepared.await?)
            }
            None => None,
        };
        let (store, id, catalog) = (self.clone(), revision.id, revision.catalog.clone());
        whole(async move {
            let mut transaction = store.begin().await?;
            let is_new = history::is_new(&mut *transaction, &catalog, id).await?;
            if let (Some(record), Some(outline), true) = (record, outline, is_new) {
                let published = record.published();
                store
                    .insert_history(&mut transaction, id, &catalog, &published, outline)
                    .await?;
            }
            make_current(&mut transaction, &catalog, id).await?;
            let committed = transaction.commit().await;
            committed.map_err(StoreError::sql("commit"))
        })
        .await
    }
}

/// Inserts the rows of a revision, in place of one that has its number. A start goes on
/// with it, and with its image, if it has the same content. Returns that image.
async fn replace_rows(
    transaction: &mut Transaction<'_, Sqlite>,
    record: &Record<'_>,
    id: RevisionId,
) -> Result<Option<Image>, StoreError> {
    let action = "replace a revision";
    let query = sqlx::query(
        "SELECT i.document FROM revisions r JOIN catalogs c ON c.current = r.id
         LEFT JOIN images i ON i.revision = r.id
         WHERE r.id = ? AND r.catalog = ? AND r.content = ?",
    );
    let query = query.bind(id.0).bind(record.catalog.as_str());
    let query = query.bind(record.content.to_string());
    let current = sql::first(&mut **transaction, action, query).await?;
    let statement = sqlx::query("UPDATE catalogs SET current = NULL WHERE current = ?");
    sql::execute(&mut **transaction, action, statement.bind(id.0)).await?;
    let statement = sqlx::query("DELETE FROM revisions WHERE id = ?");
    sql::execute(&mut **transaction, action, statement.bind(id.0)).await?;
    insert_rows(transaction, record, Some(id)).await?;
    let Some(current) = current else {
        return Ok(None);
    };
    let document: Option<&str> = current.get("document");
    let image: Option<Image> = document.and_then(|text| serde_json::from_str(text).ok());
    if let Some(image) = &image {
        images::insert(transaction, id, image).await?;
    }
    make_current(transaction, &record.catalog, id).await?;
    Ok(image)
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
