//! Opens a database: its options, the check of its pages, and its version.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection as _, Row as _, SqlitePool};

use crate::store::{Damage, StoreError, migrations};

/// The database's file.
pub(super) const DATABASE: &str = "almanac.db";

/// Opens a database, creates it if needed, and brings it to the current version.
pub(super) async fn connect(
    path: &Path,
    journal: SqliteJournalMode,
) -> Result<SqlitePool, StoreError> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .foreign_keys(true)
        .journal_mode(journal)
        // Few statements run, so half a megabyte of pages is enough.
        .pragma("cache_size", "-512")
        // A revision's files are removed once another is committed, so a
        // commit must not be undone by a power cut.
        .synchronous(SqliteSynchronous::Full);
    let pool = SqlitePoolOptions::new()
        .max_connections(2)
        // A full disk ends a transaction on its own, which sqlx does not notice: such a
        // connection begins no other one.
        .before_acquire(|connection, _| {
            let is_free = !connection.is_in_transaction();
            Box::pin(std::future::ready(Ok(is_free)))
        })
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
    migrated.map_err(|cause| StoreError::Migrate {
        path: path.to_owned(),
        cause,
    })
}
