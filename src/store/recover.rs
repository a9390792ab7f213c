//! Opens the database, and makes a damaged or lost one again, of the records
//! beside the files of each revision.
//!
//! A damaged database is moved aside. Only the results of earlier passes are lost.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Row as _, SqlitePool};

use crate::answers::index::FORMAT;
use crate::store::commit::insert_rows;
use crate::store::disk::{DiskError, sync_folder};
use crate::store::handle::REVISIONS;
use crate::store::images::{self, Image};
use crate::store::record::{self, IMAGE_RECORD, RECORD, Record};
use crate::store::revision::RevisionId;
use crate::store::{Damage, StoreError, migrations};

/// The database's file.
pub(super) const DATABASE: &str = "almanac.db";
/// A database that is not complete yet.
const UNFINISHED: &str = "almanac.db.new";
/// A damaged database.
const DAMAGED: &str = "almanac.db.damaged";
/// The files of a database: its own, its log, and the index of the log.
const PARTS: [&str; 3] = ["", "-wal", "-shm"];

/// Opens the database of a data folder, creates it if needed, and brings it to
/// the current version.
pub(super) async fn open_database(folder: &Path) -> Result<SqlitePool, StoreError> {
    let path = folder.join(DATABASE);
    // SQLite would take an empty file for a new database.
    let exists = fs::metadata(&path).is_ok_and(|metadata| metadata.len() > 0);
    if exists {
        match connect(&path).await {
            Err(error) if error.is_damage() => {
                tracing::error!(
                    path = %path.display(), moved_to = %folder.join(DAMAGED).display(), %error,
                    "the database is damaged: it is moved aside and made again of the records of \
                     the revisions; the results of earlier passes are lost"
                );
            }
            opened => return opened,
        }
    }
    let revisions = recorded(&folder.join(REVISIONS))?;
    if !exists && revisions.is_empty() {
        return connect(&path).await;
    }
    // Complete before it gets its name: a start removes revisions without a row.
    let unfinished = folder.join(UNFINISHED);
    for part in PARTS {
        remove(&with_part(&unfinished, part))?;
    }
    let pool = connect(&unfinished).await?;
    let inserted = insert(&pool, &revisions).await;
    pool.close().await;
    inserted?;
    for part in PARTS {
        let (from, to) = (
            with_part(&path, part),
            with_part(&folder.join(DAMAGED), part),
        );
        match fs::rename(&from, &to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(DiskError::at("move aside", &from)(error).into());
            }
            // What an earlier one left does not belong to this one.
            Err(_) => remove(&to)?,
            Ok(()) => {}
        }
    }
    fs::rename(&unfinished, &path).map_err(DiskError::at("create", &path))?;
    sync_folder(folder)?;
    tracing::warn!(
        path = %path.display(), revisions = revisions.len(),
        "the database was made again"
    );
    connect(&path).await
}

async fn connect(path: &Path) -> Result<SqlitePool, StoreError> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        // Few statements run, so half a megabyte of pages is enough.
        .pragma("cache_size", "-512")
        // A revision's files are removed once another is committed, so a
        // commit must not be undone by a power cut.
        .synchronous(SqliteSynchronous::Full);
    let pool = SqlitePoolOptions::new()
        .max_connections(2)
        .connect_with(options)
        .await
        .map_err(StoreError::sql("open the database"))?;
    let prepared = prepare(path, &pool).await;
    if prepared.is_err() {
        pool.close().await;
    }
    prepared.map(|()| pool)
}

/// Checks the pages of a database, and brings it to the current version.
async fn prepare(path: &Path, pool: &SqlitePool) -> Result<(), StoreError> {
    let found: String = sqlx::query("PRAGMA quick_check(1)")
        .fetch_one(pool)
        .await
        .map_err(StoreError::sql("check the database"))?
        .get(0);
    if found != "ok" {
        let path = path.to_owned();
        return Err(Damage {
            path,
            reason: found,
        }
        .into());
    }
    let migrated = migrations::migrator().run(pool).await;
    migrated.map_err(|source| StoreError::Migrate {
        path: path.to_owned(),
        source,
    })
}

/// Revisions with their records.
type Recorded = BTreeMap<RevisionId, (Record<'static>, Option<Image>)>;

/// The revisions in a folder whose records are whole and of this version.
fn recorded(folder: &Path) -> Result<Recorded, StoreError> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(DiskError::at("read", folder))? {
        let path = entry.map_err(DiskError::at("read", folder))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let id = name.and_then(|name| name.parse::<RevisionId>().ok());
        let record: Option<Record<'_>> = record::read(&path.join(RECORD));
        if let (Some(id), Some(record)) = (id.filter(|id| id.is_sound()), record)
            && record.format == FORMAT
        {
            found.insert(id, (record, record::read(&path.join(IMAGE_RECORD))));
        }
    }
    Ok(found)
}

/// Inserts the rows of revisions. The newest of a catalog becomes its current one.
async fn insert(pool: &SqlitePool, revisions: &Recorded) -> Result<(), StoreError> {
    let begun = pool.begin().await;
    let mut transaction = begun.map_err(StoreError::sql("begin"))?;
    for (id, (record, image)) in revisions {
        insert_rows(&mut transaction, record, Some(*id)).await?;
        if let Some(image) = image {
            images::insert(&mut transaction, *id, image).await?;
        }
    }
    let committed = transaction.commit().await;
    committed.map_err(StoreError::sql("commit"))
}

fn with_part(path: &Path, part: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(part);
    path.into()
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(DiskError::at("remove", path)(error).into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom, Write as _};

    use super::*;
    use crate::answers::index::{Index, SearchRow};
    use crate::store::{
        Counts, ImageKind, NewRevision, Outcome, Pass, Revision, SourceIdentity, Store,
    };
    use ::images::digest::Digest;
    use fbc::problem::{Code, Problem, Severity, Subject};

    /// A store with one revision of each of two catalogs, the first with an image.
    async fn store(folder: &Path) -> Vec<Revision> {
        let store = Store::open(folder).await.unwrap();
        let mut revisions = Vec::new();
        for name in ["a", "b"] {
            let finished = store.write_revision().unwrap().finish(Index::default());
            let new = NewRevision {
                catalog: &name.parse().unwrap(),
                identity: SourceIdentity::from_text("quay.io/a/b:v1 linux/amd64"),
                digest: Digest::of(name.as_bytes()),
                counts: Counts {
                    packages: 7,
                    ..Counts::default()
                },
                blobs: &[Digest::of(b"layer")],
                problems: &[problem()],
                search: &[SearchRow {
                    package: 3,
                    name: "crane".into(),
                    ..SearchRow::default()
                }],
            };
            revisions.push(store.commit(finished.unwrap(), new).await.unwrap());
        }
        assert!(store.record_image(revisions[0].id, &image()).await.unwrap());
        let pass = Pass {
            started: revisions[0].committed,
            finished: revisions[0].committed,
            outcome: Outcome::Committed,
            digest: None,
            stage: None,
            reason: None,
            error: None,
        };
        store
            .record_pass(&revisions[0].catalog, &pass)
            .await
            .unwrap();
        store.close().await;
        revisions
    }

    fn problem() -> Problem {
        Problem {
            code: Code::ChannelNoHead,
            severity: Severity::Error,
            subject: Subject::default(),
            position: None,
            message: "has no head".into(),
        }
    }

    fn image() -> Image {
        Image {
            kind: ImageKind::Slim,
            origin: None,
            tags: BTreeMap::from([("latest".to_owned(), Digest::of(b"manifest"))]),
            manifests: Vec::new(),
            blobs: Vec::new(),
        }
    }

    /// Whether the store says of the revisions what it said before.
    async fn is_whole(folder: &Path, revisions: &[Revision]) -> bool {
        let store = Store::open(folder).await.unwrap();
        let mut whole = true;
        for revision in revisions {
            let Some(found) = store.current(&revision.catalog).await.unwrap() else {
                return false;
            };
            assert_eq!(format!("{found:?}"), format!("{revision:?}"));
            assert_eq!(store.problems(found.id).await.unwrap(), [problem()]);
            let searched = store.searcher(found.id).search(&["cr"]).await.unwrap();
            assert_eq!(searched, Some(vec![3]));
            assert!(store.open_revision(&found).is_ok());
            let found = store.image(found.id).await.unwrap();
            whole &= found == (revision.id == revisions[0].id).then(image);
        }
        store.close().await;
        whole
    }

    #[tokio::test]
    async fn a_damaged_database_is_moved_aside_and_made_again() {
        for damage in ["head", "page", "cut", "empty", "gone"] {
            let folder = tempfile::tempdir().unwrap();
            let revisions = store(folder.path()).await;
            let path = folder.path().join(DATABASE);
            let mut file = fs::File::options().write(true).open(&path).unwrap();
            let length = file.metadata().unwrap().len();
            match damage {
                "head" => file.write_all(b"not a database").unwrap(),
                "page" => {
                    file.seek(SeekFrom::Start(4096)).unwrap();
                    file.write_all(&[0xa5; 4096]).unwrap();
                }
                "cut" => file.set_len(length / 2 / 4096 * 4096).unwrap(),
                "empty" => file.set_len(0).unwrap(),
                _ => fs::remove_file(&path).unwrap(),
            }
            // What is left of a log does not belong to the new database.
            fs::write(with_part(&path, "-wal"), "old").unwrap();
            assert!(is_whole(folder.path(), &revisions).await, "{damage}");
            let aside = folder.path().join(DAMAGED);
            assert_eq!(aside.exists(), damage != "gone", "{damage}");
            assert!(!folder.path().join(UNFINISHED).exists());
            // Only once.
            fs::remove_file(&aside).ok();
            assert!(is_whole(folder.path(), &revisions).await, "{damage}");
            assert!(!aside.exists(), "{damage}");
            let store = Store::open(folder.path()).await.unwrap();
            let pass = store.last_pass(&revisions[0].catalog).await.unwrap();
            assert!(pass.is_none(), "{damage}");
        }
    }

    #[tokio::test]
    async fn a_damaged_record_costs_its_revision_alone() {
        let folder = tempfile::tempdir().unwrap();
        let revisions = store(folder.path()).await;
        let path = folder.path().join(REVISIONS);
        let path = path.join(revisions[0].id.to_string()).join(RECORD);
        let mut record = fs::read(&path).unwrap();
        let last = record.len() - 2;
        record[last] ^= 1;
        fs::write(&path, record).unwrap();
        fs::remove_file(folder.path().join(DATABASE)).unwrap();
        let store = Store::open(folder.path()).await.unwrap();
        let current = store.current(&revisions[0].catalog).await.unwrap();
        assert!(current.is_none());
        let current = store.current(&revisions[1].catalog).await.unwrap();
        assert_eq!(current.unwrap().id, revisions[1].id);
    }

    #[tokio::test]
    async fn a_database_of_a_newer_version_is_refused_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let revisions = store(folder.path()).await;
        let pool = connect(&folder.path().join(DATABASE)).await.unwrap();
        sqlx::query(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             VALUES (9999, 'later', 1, x'00', 0)",
        )
        .execute(&pool)
        .await
        .unwrap();
        pool.close().await;
        let refused = Store::open(folder.path()).await;
        assert!(
            matches!(refused, Err(StoreError::Migrate { .. })),
            "{refused:?}"
        );
        assert!(!folder.path().join(DAMAGED).exists());
        assert!(!revisions.is_empty());
    }
}
