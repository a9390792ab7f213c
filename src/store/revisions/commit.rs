//! Commits revisions: their files get their folder, then their rows name them.

use std::borrow::Cow;
use std::fs;
use std::sync::Arc;
use std::time::SystemTime;

use sqlx::{Row as _, Sqlite, Transaction};

use crate::answers::index::{FORMAT, SearchRow};
use crate::name::CatalogName;
use crate::store::file_io::{DiskError, blocking, sync_folder};
use crate::store::files::sums;
use crate::store::history::{self, PreparedOutline};
use crate::store::images::earlier_images;
use crate::store::images::records::{self as images, Image};
use crate::store::record::{self, RECORD, Record};
use crate::store::revision::{
    Counts, OutlineName, PastRevision, Revision, RevisionId, SourceIdentity,
};
use crate::store::revisions::search;
use crate::store::revisions::writer::Finished;
use crate::store::revisions::{insert_blobs, record_catalog, revision_exists};
use crate::store::sql::{self, seconds, signed, time, whole};
use crate::store::{Store, StoreError};
use ::images::digest::Digest;
use fbc::problem::Problem;

/// The description of a revision, for [`Store::commit`].
pub struct NewRevision<'a> {
    /// The catalog.
    pub catalog: &'a CatalogName,
    /// Its source.
    pub identity: SourceIdentity,
    /// The digest that the source was at.
    pub digest: Digest,
    /// Its size; the number of metas is taken from the files.
    pub counts: Counts,
    /// The OCI blobs it was made from.
    pub blobs: &'a [Digest],
    /// The problems of the catalog.
    pub problems: &'a [Problem],
    /// The words that its packages are found by.
    pub search: &'a [SearchRow],
}

/// The dates of a revision, in seconds since 1970.
#[derive(Clone, Copy)]
pub(crate) struct Dates {
    pub(crate) modified: i64,
    pub(crate) committed: i64,
}

/// A revision with all that a commit needs, so that it can outlive its caller.
pub(crate) struct Pending {
    pub(crate) finished: Finished,
    pub(crate) record: Record<'static>,
    pub(crate) wanted: Option<RevisionId>,
    pub(crate) image: Option<Image>,
    pub(crate) outline: Option<PreparedOutline>,
    /// The revisions before it, which another store had.
    pub(crate) past: Vec<(PastRevision, PreparedOutline)>,
}

impl Pending {
    pub(crate) fn new(finished: Finished, new: NewRevision<'_>, dates: Dates) -> Self {
        let record = Record {
            format: FORMAT,
            catalog: Cow::Owned(new.catalog.clone()),
            identity: new.identity,
            digest: new.digest,
            content: finished.content,
            modified: dates.modified,
            committed: dates.committed,
            counts: Counts {
                metas: finished.metas as u64,
                ..new.counts
            },
            blobs: new.blobs.to_vec().into(),
            problems: Cow::Owned(new.problems[..new.problems.len().min(MAX_PROBLEMS)].to_vec()),
            search: new.search.to_vec().into(),
            sums: Cow::Owned((*finished.sums).clone()),
        };
        Self {
            finished,
            record,
            wanted: None,
            image: None,
            outline: None,
            past: Vec::new(),
        }
    }
}

/// The most problems of a revision that are kept.
const MAX_PROBLEMS: usize = 10_000;

impl Store {
    /// Commits a finished revision, which becomes its catalog's current one.
    pub async fn commit(
        &self,
        mut finished: Finished,
        new: NewRevision<'_>,
    ) -> Result<Revision, StoreError> {
        let dates = self.dates(&finished, new.catalog).await?;
        // Beside each other: both wait for the disk.
        let (synced, outline) = tokio::join!(
            self.sync_blobs(new.blobs),
            self.outline(&mut finished, new.catalog, new.digest, None),
        );
        synced?;
        let outline = outline?;
        let pending = Pending {
            outline,
            ..Pending::new(finished, new, dates)
        };
        let (store, pins) = (self.clone(), self.pins(&pending.record.blobs));
        whole(async move {
            let mut transaction = store.begin().await?;
            let revision = store.insert_revision(&mut transaction, pending).await?;
            make_current(&mut transaction, &revision.catalog, revision.id).await?;
            let committed = transaction.commit().await;
            committed.map_err(StoreError::sql("commit"))?;
            drop(pins);
            Ok(revision)
        })
        .await
    }

    /// Keeps a finished revision under a number of the fleet, which dates it later. It is
    /// complete on the disk, and its catalog goes on with the one before until
    /// [`Store::serve`].
    pub async fn keep(
        &self,
        mut finished: Finished,
        new: NewRevision<'_>,
        id: RevisionId,
    ) -> Result<Revision, StoreError> {
        let dates = self.dates(&finished, new.catalog).await?;
        self.sync_blobs(new.blobs).await?;
        self.keep_new_outline(&mut finished, new.digest).await?;
        let pending = Pending {
            wanted: Some(id),
            ..Pending::new(finished, new, dates)
        };
        let (store, pins) = (self.clone(), self.pins(&pending.record.blobs));
        whole(async move {
            let mut transaction = store.begin().await?;
            let revision = store.insert_revision(&mut transaction, pending).await?;
            if revision.id != id {
                return Err(StoreError::NumberTaken(id));
            }
            let committed = transaction.commit().await;
            committed.map_err(StoreError::sql("commit"))?;
            drop(pins);
            Ok(revision)
        })
        .await
    }

    /// Keeps the outline of a revision that is not served yet.
    pub(crate) async fn keep_new_outline(
        &self,
        finished: &mut Finished,
        source: Digest,
    ) -> Result<(), StoreError> {
        let Some(outline) = finished.outline.take() else {
            return Ok(());
        };
        let (data, history) = (self.folder.clone(), self.history());
        let content = finished.content;
        let kept = blocking("write in", data.to_path_buf(), move |data| {
            let name = OutlineName { content, source };
            let outline = history.completed(&name, outline);
            history::keep_outline(data, &name, &outline)
        });
        Ok(kept.await?)
    }

    /// The dates of a new revision of a catalog.
    async fn dates(&self, finished: &Finished, catalog: &CatalogName) -> Result<Dates, StoreError> {
        let previous = self.current(catalog).await?;
        let now = seconds(SystemTime::now());
        // The same content keeps its date, whatever image it came in. Other
        // content gets a later date, also within the same second and when the
        // clock was set back: some clients compare nothing but the date.
        let own = previous.as_ref().map(|previous| seconds(previous.modified));
        let is_same = previous.is_some_and(|previous| previous.content == finished.content);
        let modified = match own {
            None => now,
            Some(before) if is_same => before,
            Some(before) => now.max(before.saturating_add(1)),
        };
        Ok(Dates {
            modified,
            committed: now,
        })
    }

    /// The outline of a revision, ready to be committed.
    pub(crate) async fn outline(
        &self,
        finished: &mut Finished,
        catalog: &CatalogName,
        source: Digest,
        previous: Option<OutlineName>,
    ) -> Result<Option<PreparedOutline>, StoreError> {
        let Some(outline) = finished.outline.take() else {
            return Ok(None);
        };
        let name = OutlineName {
            content: finished.content,
            source,
        };
        let prepared = self.prepare_outline(catalog, name, outline, previous);
        Ok(Some(prepared.await?))
    }

    /// Writes the rows of a finished revision and moves its files to their
    /// folder. The revision exists once the transaction is committed. It gets
    /// the wanted number unless another revision has that.
    pub(crate) async fn insert_revision(
        &self,
        transaction: &mut Transaction<'_, Sqlite>,
        pending: Pending,
    ) -> Result<Revision, StoreError> {
        let Pending {
            finished,
            record,
            wanted,
            image,
            outline,
            past,
        } = pending;
        self.insert_past(transaction, &record.catalog, past).await?;
        let wanted = match wanted {
            Some(id) if id.is_sound() && !revision_exists(&mut **transaction, id).await? => {
                let is_new = history::is_new(&mut **transaction, &record.catalog, id).await?;
                is_new.then_some(id)
            }
            _ => None,
        };
        let id = insert_rows(transaction, &record, wanted).await?;
        let files = Arc::clone(&finished.sums);
        self.move_files(id, finished, record::encode(&record)?)
            .await?;
        if let Some(outline) = outline {
            let (catalog, published) = (&record.catalog, record.published());
            self.insert_history(transaction, id, catalog, &published, outline)
                .await?;
        }
        if let Some(image) = &image {
            images::insert(transaction, id, image).await?;
            self.write_image_record(id, image).await?;
        }
        Ok(Revision {
            id,
            catalog: record.catalog.into_owned(),
            identity: record.identity,
            digest: record.digest,
            content: record.content,
            modified: time(record.modified),
            committed: time(record.committed),
            counts: record.counts,
            files,
            damaged: false,
        })
    }

    /// Moves the files of a revision to their folder, with its record.
    pub(crate) async fn move_files(
        &self,
        id: RevisionId,
        finished: Finished,
        record: Vec<u8>,
    ) -> Result<(), StoreError> {
        let folder = self.revision_folder(id);
        let parent = self.revisions_folder();
        let moved = blocking("create", folder, move |folder| {
            if folder.exists() {
                // Left by a commit that failed: its number was never assigned.
                fs::remove_dir_all(folder).map_err(DiskError::at("remove", folder))?;
            }
            let written = finished.folder;
            record::write(written.path(), RECORD, &record)?;
            fs::rename(written.path(), folder).map_err(DiskError::at("create", folder))?;
            // Nothing is left under the old name to remove.
            let _ = written.keep();
            sync_folder(&parent)
        });
        Ok(moved.await?)
    }
}

/// Makes a revision its catalog's current one.
pub(crate) async fn make_current(
    transaction: &mut Transaction<'_, Sqlite>,
    catalog: &CatalogName,
    id: RevisionId,
) -> Result<(), StoreError> {
    earlier_images::carry(transaction, catalog, id).await?;
    let statement = sqlx::query("UPDATE catalogs SET current = ? WHERE name = ?")
        .bind(id.0)
        .bind(catalog.as_str());
    sql::execute(&mut **transaction, "record the current revision", statement).await
}

/// Inserts the rows of a revision, under the wanted number or the next one.
pub(crate) async fn insert_rows(
    transaction: &mut Transaction<'_, Sqlite>,
    record: &Record<'_>,
    wanted: Option<RevisionId>,
) -> Result<RevisionId, StoreError> {
    let id = insert_row(transaction, record, wanted).await?;
    insert_blobs(transaction, id, &record.blobs).await?;
    insert_problems(transaction, id, &record.problems).await?;
    search::insert(transaction, id, &record.search).await?;
    sums::insert(transaction, id, &record.sums).await?;
    Ok(id)
}

async fn insert_row(
    transaction: &mut Transaction<'_, Sqlite>,
    record: &Record<'_>,
    wanted: Option<RevisionId>,
) -> Result<RevisionId, StoreError> {
    record_catalog(&mut **transaction, &record.catalog).await?;
    let counts = record.counts;
    let row = sqlx::query(
        "INSERT INTO revisions (id, catalog, source, variant, digest, content, modified,
                                committed, format, metas, packages, channels, entries,
                                bundles, quarantined)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
    )
    .bind(wanted.map(|id| id.0))
    .bind(record.catalog.as_str())
    .bind(&record.identity.source)
    .bind(&record.identity.variant)
    .bind(record.digest.to_string())
    .bind(record.content.to_string())
    .bind(record.modified)
    .bind(record.committed)
    .bind(record.format)
    .bind(signed(counts.metas))
    .bind(signed(counts.packages))
    .bind(signed(counts.channels))
    .bind(signed(counts.entries))
    .bind(signed(counts.bundles))
    .bind(signed(counts.quarantined))
    .fetch_one(&mut **transaction)
    .await
    .map_err(StoreError::sql("record the revision"))?;
    Ok(RevisionId(row.get(0)))
}

async fn insert_problems(
    transaction: &mut Transaction<'_, Sqlite>,
    id: RevisionId,
    problems: &[Problem],
) -> Result<(), StoreError> {
    for (number, problem) in (0_i64..).zip(problems) {
        let text = serde_json::to_string(problem).map_err(StoreError::encode("a problem"))?;
        let statement =
            sqlx::query("INSERT INTO problems (revision, number, problem) VALUES (?, ?, ?)")
                .bind(id.0)
                .bind(number)
                .bind(text);
        sql::execute(&mut **transaction, "record a problem", statement).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use sqlx::sqlite::SqliteConnectOptions;
    use sqlx::{ConnectOptions as _, Connection as _};

    use super::*;
    use crate::answers::index::Index;

    fn finished(store: &Store) -> Finished {
        let writer = store.write_revision().unwrap();
        writer.finish(Index::default()).unwrap()
    }

    async fn commit(store: Store, catalog: CatalogName, finished: Finished) -> Revision {
        let new = NewRevision {
            catalog: &catalog,
            identity: SourceIdentity::from_text("file:/a"),
            digest: Digest::of(b"a"),
            counts: Counts::default(),
            blobs: &[],
            problems: &[],
            search: &[],
        };
        store.commit(finished, new).await.unwrap()
    }

    /// As SQLite does when the disk is full at the end of a transaction.
    #[tokio::test]
    async fn a_transaction_that_sqlite_ended_itself_stops_no_later_one() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).await.unwrap();
        for _ in 0..4 {
            let mut transaction = store.begin().await.unwrap();
            let ended = sqlx::raw_sql("ROLLBACK").execute(&mut *transaction).await;
            ended.unwrap();
            assert!(transaction.commit().await.is_err());
        }
        let name: CatalogName = "a".parse().unwrap();
        commit(store.clone(), name, finished(&store)).await;
        store.close().await;
    }

    #[test]
    fn a_commit_whose_caller_is_gone_is_whole() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        runtime.block_on(async {
            let store = Store::open(folder.path()).await.unwrap();
            let options = SqliteConnectOptions::new()
                .filename(folder.path().join("almanac.db"))
                .busy_timeout(Duration::ZERO);
            let mut probe = options.connect().await.unwrap();
            let [a, b] = ["a", "b"].map(|name| name.parse::<CatalogName>().unwrap());
            let (first, second) = (finished(&store), finished(&store));

            // No file is moved until the gate opens.
            let (gate, closed) = std::sync::mpsc::channel::<()>();
            tokio::task::spawn_blocking(move || closed.recv());
            let caller = tokio::spawn(commit(store.clone(), a.clone(), first));
            let begun = Instant::now();
            while let Ok(idle) = probe.begin_with("BEGIN IMMEDIATE").await {
                idle.rollback().await.unwrap();
                assert!(begun.elapsed() < Duration::from_secs(30));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            caller.abort();
            assert!(caller.await.unwrap_err().is_cancelled());
            drop(gate);

            let other = commit(store.clone(), b.clone(), second).await;
            let kept = store.current(&a).await.unwrap().expect("it is committed");
            assert_ne!(kept.id, other.id);
            for (name, revision) in [(a, kept), (b, other)] {
                let path = store.revision_folder(revision.id).join(RECORD);
                let record: Option<Record<'_>> = record::read(&path).unwrap();
                assert_eq!(*record.unwrap().catalog, name);
            }
            probe.close().await.unwrap();
            store.close().await;
        });
    }
}
