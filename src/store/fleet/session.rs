//! Connections to the database, for a limited time.
//!
//! A server that is gone without a word answers neither a statement nor the question
//! whether the connection still works. So each statement has a limit here, and a
//! connection that was left in the middle of its work is closed.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::error::DatabaseError;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::query::Query;
use sqlx::{ConnectOptions as _, Postgres};

use crate::store::fleet::error::{CONNECT, FleetError};
use crate::store::fleet::pool::Fleet;

/// The longest time for a connection and a statement or transaction. The server ends
/// its part earlier.
const LONGEST: Duration = Duration::from_secs(12);

/// The longest time of a connection that is only tried.
const PROBE: Duration = Duration::from_millis(700);

/// A connection, which is closed unless its work ends well.
pub(super) struct Session {
    connection: PoolConnection<Postgres>,
    is_done: bool,
}

impl Session {
    /// Gives the connection back for other work.
    pub(super) fn release(mut self) {
        self.is_done = true;
    }

    /// The result of the last statement. The connection is given back if it still works.
    fn end<T>(self, action: &'static str, result: Result<T, sqlx::Error>) -> Result<T, FleetError> {
        match &result {
            Ok(_) => self.release(),
            Err(error) if is_refusal(error) => self.release(),
            Err(_) => {}
        }
        result.map_err(FleetError::sql(action))
    }
}

impl Deref for Session {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.is_done {
            self.connection.close_on_drop();
        }
    }
}

impl Fleet {
    /// A connection. A refused password is read again for the next one.
    pub(super) async fn session(&self, action: &'static str) -> Result<Session, FleetError> {
        match self.pool.acquire().await {
            Ok(connection) => Ok(Session {
                connection,
                is_done: false,
            }),
            Err(error) => {
                let error = match error {
                    // It hides the reason for which no connection came about.
                    sqlx::Error::PoolTimedOut => self.refused().await.unwrap_or(error),
                    error => error,
                };
                if code(&error).is_some_and(|code| matches!(&*code, "28000" | "28P01")) {
                    self.read_files_again().await;
                }
                Err(FleetError::sql(action)(error))
            }
        }
    }

    /// Why the database takes no connection, if it tells soon.
    pub async fn why_silent(&self) -> Option<FleetError> {
        self.refused().await.map(FleetError::sql(CONNECT))
    }

    async fn refused(&self) -> Option<sqlx::Error> {
        let options = self.pool.connect_options();
        let tried = tokio::time::timeout(PROBE, options.connect()).await;
        tried.ok()?.err()
    }

    /// Runs a statement. Returns how many rows it has changed.
    pub(super) async fn execute(
        &self,
        action: &'static str,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<u64, FleetError> {
        let done = limited(async {
            let mut session = self.session(action).await?;
            let done = query.execute(&mut *session).await;
            session.end(action, done)
        });
        Ok(done.await?.rows_affected())
    }

    /// All rows of a query.
    pub(super) async fn rows(
        &self,
        action: &'static str,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>, FleetError> {
        let rows = limited(async {
            let mut session = self.session(action).await?;
            let rows = query.fetch_all(&mut *session).await;
            session.end(action, rows)
        });
        rows.await
    }

    /// The first row of a query, if there is one.
    pub(super) async fn find(
        &self,
        action: &'static str,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<Option<PgRow>, FleetError> {
        Ok(self.rows(action, query).await?.into_iter().next())
    }

    /// The row of a query that has one.
    pub(super) async fn row(
        &self,
        action: &'static str,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<PgRow, FleetError> {
        let row = self.find(action, query).await?;
        row.ok_or_else(|| FleetError::sql(action)(sqlx::Error::RowNotFound))
    }
}

/// The result of some work, or an error when it takes too long.
pub(super) fn limited<'a, T: 'a>(
    work: impl Future<Output = Result<T, FleetError>> + Send + 'a,
) -> BoxFuture<'a, Result<T, FleetError>> {
    // Boxed at once: the states of connections are large.
    let done = Box::pin(tokio::time::timeout(LONGEST, work));
    let late = FleetError::NoAnswer {
        of: "the database",
        after: LONGEST,
    };
    Box::pin(async { done.await.unwrap_or(Err(late)) })
}

/// Whether the server has answered, and would answer other statements. Of one that became
/// a copy of another, which takes no changes, nothing more is expected.
fn is_refusal(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| code != "25006")
}

fn code(error: &sqlx::Error) -> Option<std::borrow::Cow<'_, str>> {
    error.as_database_error().and_then(DatabaseError::code)
}
