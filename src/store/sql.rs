//! Running statements, with errors that name the step, and conversions between
//! values and columns.

use std::io;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Sqlite, SqliteExecutor};

use crate::store::StoreError;

/// A statement with its values.
pub(super) type Statement<'q> = Query<'q, Sqlite, SqliteArguments>;

/// Runs a statement. `action` completes "cannot" in an error.
pub(super) async fn execute(
    database: impl SqliteExecutor<'_>,
    action: &'static str,
    statement: Statement<'_>,
) -> Result<(), StoreError> {
    let done = statement.execute(database).await;
    done.map(drop).map_err(StoreError::sql(action))
}

/// All rows of a query.
pub(super) async fn all(
    database: impl SqliteExecutor<'_>,
    action: &'static str,
    query: Statement<'_>,
) -> Result<Vec<SqliteRow>, StoreError> {
    let rows = query.fetch_all(database).await;
    rows.map_err(StoreError::sql(action))
}

/// The first row of a query.
pub(super) async fn first(
    database: impl SqliteExecutor<'_>,
    action: &'static str,
    query: Statement<'_>,
) -> Result<Option<SqliteRow>, StoreError> {
    let row = query.fetch_optional(database).await;
    row.map_err(StoreError::sql(action))
}

/// What a query of a table found; `None` if the database has no such table. A store that is
/// only read may be of a version without it.
pub(super) async fn unless_without_table<T>(
    database: impl SqliteExecutor<'_>,
    table: &'static str,
    found: Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    match found {
        Err(error) if error.is_of_statement() => {
            let query =
                sqlx::query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?");
            let has_table = first(database, "look up a table", query.bind(table)).await?;
            if has_table.is_some() {
                Err(error)
            } else {
                Ok(None)
            }
        }
        found => found.map(Some),
    }
}

/// The last second of the year 9999, since 1970. HTTP dates and RFC 3339 have
/// no later ones.
pub const LAST_SECOND: u64 = 253_402_300_799;

/// Runs `work` to its end, also when the caller is dropped meanwhile. Otherwise a
/// transaction could be rolled back while its files are still being written. A
/// panic in it becomes an error.
pub(super) async fn whole<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    // Boxed, so that a task is compiled for each result and not for each caller.
    let work: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(work);
    tokio::spawn(work)
        .await
        .unwrap_or_else(|error| Err(StoreError::sql("commit")(io::Error::other(error).into())))
}

/// A count as SQLite stores it. No count here comes near the limit.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A date as seconds since 1970.
pub fn unix_of_time(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// A date of seconds since 1970, [`LAST_SECOND`] at the latest.
pub fn time_of_unix(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds.min(LAST_SECOND))
}

pub(super) fn seconds(time: SystemTime) -> i64 {
    signed(unix_of_time(time))
}

pub(super) fn time(seconds: i64) -> SystemTime {
    time_of_unix(u64::try_from(seconds).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use sqlx::SqlitePool;

    use super::*;

    #[tokio::test]
    async fn only_a_missing_table_is_nothing() {
        let pool = SqlitePool::connect("sqlite::memory:").await.unwrap();
        let created = sqlx::query("CREATE TABLE history (id)")
            .execute(&pool)
            .await;
        created.unwrap();
        for (statement, expected) in [
            ("SELECT id FROM history", Some(Some(0))),
            ("SELECT id FROM earlier_images", Some(None)),
            // The table is there, so the statement is wrong.
            ("SELECT other FROM history", None),
        ] {
            let table = statement.split(' ').next_back().unwrap();
            let rows = all(&pool, "read", sqlx::query(statement)).await;
            let found = unless_without_table(&pool, table, rows).await;
            let found = found.ok().map(|rows| rows.map(|rows| rows.len()));
            assert_eq!(found, expected, "{statement}");
        }
    }
}
