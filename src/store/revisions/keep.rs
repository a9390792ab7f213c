//! Revisions of a fleet: they are on the disk before anybody is served them, and a
//! replica gets them as files.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use sqlx::{Row as _, Sqlite, Transaction};
use tempfile::TempDir;

use crate::answers::index::FORMAT;
use crate::name::CatalogName;
use crate::store::file_io::{DiskError, blocking, protect, sync_folder};
use crate::store::files::groups::GROUPS;
use crate::store::files::revision_files::{INDEX, MESSAGES, PIECES, QUERIES};
use crate::store::files::summing::{Summed, Summing};
use crate::store::handle::INCOMING;
use crate::store::images::earlier_images;
use crate::store::images::records::{self as images, Image};
use crate::store::record::{self, RECORD, Record};
use crate::store::revisions::commit::{insert_rows, make_current};
use crate::store::sql::{self, whole};
use crate::store::{
    Damage, Encoding, OutlineName, Revision, RevisionId, Store, StoreError, history,
};
use ::images::digest::Digest;

/// The files of a revision that are being brought in. Dropped before it is adopted,
/// it leaves nothing behind.
pub struct Incoming {
    folder: TempDir,
}

/// The files of a revision that replicas share, and whether they are compressed on their way.
/// The lines travel as `all.zst`.
pub const SHARED_FILES: [(&str, bool); 4] = [
    (INDEX, true),
    (MESSAGES, true),
    (QUERIES, true),
    (RECORD, true),
];
/// Files that only speed up the next revision.
pub const OPTIONAL_FILES: [&str; 2] = [GROUPS, PIECES];

impl Incoming {
    /// The folder with the files.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes one file, whole or again. Its bytes come from `content`, and it is on the
    /// disk then.
    pub fn write(&self, name: &str, content: &mut impl io::Read) -> Result<(), DiskError> {
        let path = self.folder.path().join(name);
        let written = File::create(&path).and_then(|mut file| {
            io::copy(content, &mut file)?;
            protect(&file)?;
            file.sync_data()
        });
        written.map_err(DiskError::at("write", &path))
    }

    /// The length of a file by the record, which was written before; 0 without one.
    pub fn length_of(&self, name: &str) -> Result<u64, DiskError> {
        let record = record::read::<Record<'static>>(&self.folder.path().join(RECORD))?;
        Ok(record.map_or(0, |record| {
            record.sums.get(name).map_or(0, |sum| sum.length)
        }))
    }
}

impl Store {
    /// A folder for the files of a revision.
    pub fn incoming(&self) -> Result<Incoming, StoreError> {
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
    pub async fn adopt(
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

    /// Sets the date of the content of a kept revision, in seconds since 1970: in a fleet, the
    /// database dates it when it is published.
    pub async fn set_modified(&self, id: RevisionId, modified: i64) -> Result<(), StoreError> {
        let statement =
            sqlx::query("UPDATE revisions SET modified = ?2 WHERE id = ?1 AND modified <> ?2");
        let statement = statement.bind(id.0).bind(modified);
        sql::execute(&self.pool, "date a revision", statement).await?;
        Ok(())
    }

    /// A file of a revision, to share with other replicas.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn map_shared(&self, id: RevisionId, name: &str) -> Result<bytes::Bytes, DiskError> {
        let path = self.revision_folder(id).join(name);
        self.map(id, name).map_err(DiskError::at("open", &path))
    }

    /// An outline as it is stored, if it is kept.
    pub fn encoded_outline(&self, name: &OutlineName) -> Option<Vec<u8>> {
        history::outline_bytes(&self.folder, name)
    }

    /// Keeps the outline of a revision whose record is among incoming files.
    pub fn keep_incoming_outline(
        &self,
        incoming: &Incoming,
        bytes: &[u8],
    ) -> Result<(), DiskError> {
        let record = record::read::<Record<'static>>(&incoming.path().join(RECORD))?;
        record.map_or(Ok(()), |record| {
            history::keep_encoded_outline(&self.folder, &record.published().outline(), bytes)
        })
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
                    earlier_images::insert(&mut transaction, &revision, *of, image).await?
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
                let prepared = self.prepare_outline(&revision.catalog, name, outline, None);
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
        return Err(damaged(&path, "it is not a record of this version".into()));
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
