//! Opens the database, and rebuilds a damaged or lost one from the records beside
//! the files of each revision.
//!
//! A damaged database is moved aside, and so are revisions without a usable record.
//! The results of earlier passes, the history before these revisions, and images that
//! were to be served until these revisions have their own are lost.

mod reconcile;

use std::fs;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use sqlx::SqlitePool;
use sqlx::sqlite::SqliteJournalMode;

use crate::store::database::{DATABASE, connect};
use crate::store::file_io::{DiskError, blocking, sync_folder};
use crate::store::handle::REVISIONS;
use crate::store::history::insert_rebuilt;
use crate::store::revisions::recorded::{Scan, insert_recorded, keep_aside, scan};
use crate::store::{StoreError, sql};

/// Bytes of a page of a database, and how many are read at least to see whether reads fail
/// now and then.
const PAGE: usize = 4096;
const READS: u32 = 1000;
/// A database that is not complete yet.
const UNFINISHED: &str = "almanac.db.new";
/// A damaged database.
const DAMAGED: &str = "almanac.db.damaged";
/// The files of a database: its own, its log, the index of the log, and the
/// journal of a database without a log.
const PARTS: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// Opens the database of a data folder, creates it if needed, and brings it to
/// the current version.
pub(super) async fn open_database(folder: &Path) -> Result<SqlitePool, StoreError> {
    let path = folder.join(DATABASE);
    let exists = match fs::metadata(&path) {
        // SQLite would take an empty file for a new database.
        Ok(metadata) => metadata.len() > 0,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(DiskError::at("look up", &path)(error).into()),
    };
    if exists {
        match connect_again(&path).await {
            Err(error) if error.is_damage() => {
                tracing::error!(
                    path = %path.display(), moved_to = %folder.join(DAMAGED).display(), %error,
                    "the database is damaged: it is moved aside and rebuilt from the records of \
                     the revisions; the results of earlier passes are lost"
                );
            }
            opened => return opened,
        }
    }
    let revisions = folder.join(REVISIONS);
    let found = scan(&revisions)?;
    if !exists && found.highest.is_none() {
        return connect(&path, SqliteJournalMode::Wal).await;
    }
    // Before the database gets its name: a start removes folders without a row.
    keep_aside(&revisions, &found.unrecorded)?;
    build(folder, &found).await?;
    replacement(folder).collect::<Result<(), StoreError>>()?;
    tracing::warn!(
        path = %path.display(), revisions = found.recorded.len(),
        "the database was rebuilt from the records"
    );
    connect(&path, SqliteJournalMode::Wal).await
}

/// Opens a database. It is damaged if it is so twice, and all of it can be read: SQLite
/// calls a read error damage, too.
async fn connect_again(path: &Path) -> Result<SqlitePool, StoreError> {
    match connect(path, SqliteJournalMode::Wal).await {
        Err(error) if error.is_damage() => {}
        opened => return opened,
    }
    blocking("read", path.to_owned(), read_often).await?;
    connect(path, SqliteJournalMode::Wal).await
}

/// Reads a file as SQLite does, a small one again and again.
fn read_often(path: &Path) -> Result<(), DiskError> {
    let failed = || DiskError::at("read", path);
    let mut file = fs::File::open(path).map_err(failed())?;
    let mut page = [0; PAGE];
    let (mut reads, mut is_read) = (0, false);
    while reads < READS || !is_read {
        reads += 1;
        if file.read(&mut page).map_err(failed())? == 0 {
            is_read = true;
            file.rewind().map_err(failed())?;
        }
    }
    Ok(())
}

/// Writes a database with the recorded revisions, under the name of an unfinished one.
async fn build(folder: &Path, found: &Scan) -> Result<(), StoreError> {
    let unfinished = folder.join(UNFINISHED);
    for part in PARTS {
        remove(&with_part(&unfinished, part))?;
    }
    // Without a log: a commit is in the file that gets the name, and nowhere else.
    let pool = connect(&unfinished, SqliteJournalMode::Delete).await?;
    let inserted = insert(&pool, folder, found).await;
    pool.close().await;
    inserted
}

/// The steps that move the old database aside, and put the new one in its place. A
/// start after any of them does the others.
fn replacement(folder: &Path) -> impl Iterator<Item = Result<(), StoreError>> {
    let (path, aside) = (folder.join(DATABASE), folder.join(DAMAGED));
    let mut is_moved = false;
    let moves = PARTS
        .into_iter()
        .map(move |part| -> Result<(), StoreError> {
            let (from, to) = (with_part(&path, part), with_part(&aside, part));
            match fs::rename(&from, &to) {
                Ok(()) => is_moved |= part.is_empty(),
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(DiskError::at("move aside", &from)(error).into());
                }
                // Files of an earlier database do not belong to the one just moved.
                Err(_) if is_moved => remove(&to)?,
                Err(_) => {}
            }
            Ok(())
        });
    let create = || -> Result<(), StoreError> {
        let path = folder.join(DATABASE);
        fs::rename(folder.join(UNFINISHED), &path).map_err(DiskError::at("create", &path))?;
        Ok(sync_folder(folder)?)
    };
    moves.chain(std::iter::once_with(create))
}

/// Inserts the rows of revisions. The newest of a catalog becomes its current one.
async fn insert(pool: &SqlitePool, folder: &Path, found: &Scan) -> Result<(), StoreError> {
    let begun = pool.begin().await;
    let mut transaction = begun.map_err(StoreError::sql("begin"))?;
    for (id, (record, image)) in &found.recorded {
        insert_recorded(&mut transaction, *id, record, image.as_ref()).await?;
        insert_rebuilt(&mut transaction, folder, *id, record).await?;
    }
    // No number is assigned twice.
    let action = "reserve the numbers of revisions";
    let statement = sqlx::query("DELETE FROM sqlite_sequence WHERE name = 'revisions'");
    sql::execute(&mut *transaction, action, statement).await?;
    let statement = sqlx::query("INSERT INTO sqlite_sequence (name, seq) VALUES ('revisions', ?)");
    let statement = statement.bind(found.highest.map_or(0, |id| id.0));
    sql::execute(&mut *transaction, action, statement).await?;
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
mod tests;
