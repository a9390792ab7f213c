//! Statements of a fleet's session. Each has an action, which its error reports.

use futures_util::FutureExt as _;
use sqlx::postgres::{PgArguments, PgConnection, PgRow, Postgres};
use sqlx::query::Query;

use crate::fleet::error::FleetError;
use crate::fleet::session::{Session, SessionNumber, statements};

/// A statement whose parameters are bound.
pub(super) type Statement = Query<'static, Postgres, PgArguments>;

/// Runs a statement. Returns the number of rows that it has changed.
pub(super) async fn execute(
    connection: &mut PgConnection,
    action: &'static str,
    statement: Statement,
) -> Result<u64, FleetError> {
    let done = statement.execute(connection).await;
    let done = done.map_err(FleetError::sql(action))?;
    Ok(done.rows_affected())
}

/// The rows that a statement returns.
pub(super) async fn rows(
    connection: &mut PgConnection,
    action: &'static str,
    statement: Statement,
) -> Result<Vec<PgRow>, FleetError> {
    let rows = statement.fetch_all(connection).await;
    rows.map_err(FleetError::sql(action))
}

impl Session {
    /// Runs one statement, in the session with this number only if there is one. Returns the
    /// number of rows that it has changed.
    pub(super) async fn execute(
        &self,
        number: Option<SessionNumber>,
        action: &'static str,
        statement: Statement,
    ) -> Result<u64, FleetError> {
        let work = statements(move |connection| execute(connection, action, statement).boxed());
        self.run_in(number, work).await
    }

    /// The rows that one statement returns, in the session with this number only if there is one.
    pub(super) async fn rows(
        &self,
        number: Option<SessionNumber>,
        action: &'static str,
        statement: Statement,
    ) -> Result<Vec<PgRow>, FleetError> {
        let work = statements(move |connection| rows(connection, action, statement).boxed());
        self.run_in(number, work).await
    }

    /// Keeps the session, which the server ends without a statement. Fails when it has ended.
    pub(super) async fn keep(&self, number: SessionNumber) -> Result<(), FleetError> {
        let statement = sqlx::query("SELECT 1");
        self.execute(Some(number), "keep the session", statement)
            .await?;
        Ok(())
    }
}
