//! Opens a database: its options, the check of its pages, and its version.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, Row as _, SqliteConnection, SqlitePool};

use crate::store::{Damage, StoreError, migrations};

/// The database's file.
pub(super) const DATABASE: &str = "almanac.db";

/// The connections of a pool.
const CONNECTIONS: u32 = 2;

/// Opens a database, creates it if needed, and brings it to the current version.
pub(super) async fn connect(
    path: &Path,
    journal: SqliteJournalMode,
) -> Result<SqlitePool, StoreError> {
    connect_with(path, to_write(path, journal)).await
}

/// Opens a database of the current version to read it, without a file beside it. Nobody
/// may write it, and it has no log.
pub(super) async fn connect_to_read(path: &Path) -> Result<SqlitePool, StoreError> {
    let options = SqliteConnectOptions::new().filename(path);
    connect_with(path, options.read_only(true).immutable(true)).await
}

/// Opens the database of a pool to write it, of which the pool has only read so far.
/// `first` gets it before all others.
///
/// # Errors
/// When it still cannot be written. The pool reads on then.
pub(super) async fn connect_to_write<F>(
    path: &Path,
    pool: &SqlitePool,
    first: impl FnOnce(SqlitePool) -> F,
) -> Result<(), StoreError>
where
    F: Future<Output = ()>,
{
    let failed = || StoreError::sql("open the database");
    // All connections: none of them sees the changes of another one.
    let mut reading = Vec::new();
    for _ in 0..CONNECTIONS {
        reading.push(pool.acquire().await.map_err(failed())?);
    }
    let writing = connect(path, SqliteJournalMode::Wal).await?;
    first(writing.clone()).await;
    pool.set_connect_options(to_write(path, SqliteJournalMode::Wal));
    for connection in reading {
        // An error of one that only reads loses nothing.
        let _ = connection.close().await;
    }
    // The other pool keeps the log until this one has it.
    let next = pool.acquire().await.map_err(failed())?;
    writing.close().await;
    drop(next);
    Ok(())
}

fn to_write(path: &Path, journal: SqliteJournalMode) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .foreign_keys(true)
        .journal_mode(journal)
        // Few statements run, so half a megabyte of pages is enough.
        .pragma("cache_size", "-512")
        // A revision's files are removed once another is committed, so a
        // commit must not be undone by a power cut.
        .synchronous(SqliteSynchronous::Full)
}

async fn connect_with(
    path: &Path,
    options: SqliteConnectOptions,
) -> Result<SqlitePool, StoreError> {
    let failed = || StoreError::sql("open the database");
    // Alone: a database is locked for others while its log is introduced.
    let mut first = options.connect().await.map_err(failed())?;
    if let Err(error) = prepare(path, &mut first).await {
        // The first error counts.
        let _ = first.close().await;
        return Err(error);
    }
    let pool = SqlitePoolOptions::new()
        .max_connections(CONNECTIONS)
        // All of them stay open: the last one to close removes the log, and a full disk
        // takes no other one.
        .min_connections(CONNECTIONS)
        .idle_timeout(None)
        .max_lifetime(None)
        // A full disk ends a transaction on its own, which sqlx does not notice: such a
        // connection begins no other one.
        .before_acquire(|connection, _| {
            let is_free = !connection.is_in_transaction();
            Box::pin(std::future::ready(Ok(is_free)))
        })
        .connect_with(options)
        .await
        .map_err(failed())?;
    first.close().await.map_err(failed())?;
    Ok(pool)
}

/// Checks the pages of a database, and brings it to the current version.
async fn prepare(path: &Path, connection: &mut SqliteConnection) -> Result<(), StoreError> {
    let check = sqlx::query("PRAGMA quick_check(1)");
    let found = check.fetch_one(&mut *connection).await;
    match found.map_err(StoreError::sql("check the database")) {
        Ok(row) => {
            let reason: String = row.get(0);
            if reason != "ok" {
                let path = path.to_owned();
                return Err(Damage { path, reason }.into());
            }
        }
        // A read error is not damage. What needs the page tries again.
        Err(error) if error.is_of_disk() => {
            tracing::warn!(%error, "the check of the database ended at a read error");
        }
        Err(error) => return Err(error),
    }
    let migrator = migrations::migrator();
    let migrated = migrator.run_direct(None, connection, false).await;
    migrated.map_err(|cause| StoreError::Migrate {
        path: path.to_owned(),
        cause,
    })
}
