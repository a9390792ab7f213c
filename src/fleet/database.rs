//! Prepares the database and the bucket of a fleet, and refuses those of others.

use std::time::Duration;

use futures_util::FutureExt as _;
use sqlx::error::DatabaseError;
use sqlx::migrate::MigrateError;
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{Executor as _, Row as _};

use crate::fleet::error::{CONNECT as CONNECTING, FleetError};
use crate::fleet::session::statements;
use crate::fleet::settings::Settings;
use crate::fleet::shared::Fleet;
use crate::fleet::tables::{
    check_rights, check_tables, check_version, earlier_tables, migrator, others_tables,
    refuse_newer,
};

/// The longest time of a connection attempt.
const CONNECT: Duration = Duration::from_secs(5);
/// A change of a table that waits for others keeps the beats of all replicas waiting.
const PATIENT: &str = "SET lock_timeout = '3s'; SET idle_in_transaction_session_timeout = '10s'";
impl Fleet {
    /// Checks that the database has this version's tables, and that the bucket is of
    /// the same fleet: the first one writes its mark. Returns the name of the fleet.
    ///
    /// # Errors
    /// When one of them does not answer, or is another's.
    pub async fn check(&self) -> Result<String, FleetError> {
        let id = self.check_database().await?;
        self.check_bucket(&id).await?;
        Ok(id)
    }

    /// As [`Fleet::check`], of the database alone.
    pub async fn check_database(&self) -> Result<String, FleetError> {
        let id = self.check_tables().await?;
        self.check_rights().await?;
        Ok(id)
    }

    /// As [`Fleet::check`], for a command that only reads. It needs no right to write.
    ///
    /// # Errors
    /// Likewise.
    pub async fn check_to_read(&self) -> Result<String, FleetError> {
        let id = self.check_tables().await?;
        self.compare_bucket(&id).await?;
        Ok(id)
    }

    /// The name of the fleet, whose tables are those of this version.
    async fn check_tables(&self) -> Result<String, FleetError> {
        let work = statements(|connection| check_tables(connection).boxed());
        self.session().run(work).await
    }

    /// Checks that rows can be written.
    async fn check_rights(&self) -> Result<(), FleetError> {
        let work = statements(|connection| check_rights(connection).boxed());
        self.session().run(work).await
    }
}

/// What a migration has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migrated {
    /// The database was empty.
    Made,
    /// The tables were of an older version.
    Changed,
    /// There was nothing to do.
    Unchanged,
}

/// Brings the database to this version. A newer one stays as it is: if its tables fit
/// this version too, both may be used.
pub async fn migrate(settings: &Settings) -> Result<Migrated, FleetError> {
    let connection = settings.connection().map_err(FleetError::Refused)?;
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(CONNECT)
        .after_connect(|connection, _| {
            Box::pin(async move { connection.execute(PATIENT).await.map(drop) })
        });
    let pool = pool.connect_with(connection).await;
    let pool = pool.map_err(FleetError::sql(CONNECTING))?;
    let version = "SELECT current_setting('server_version_num')::int,
        current_setting('server_version')";
    let version = sqlx::query_as(version).fetch_one(&pool).await;
    let (number, shown): (i32, String) = version.map_err(FleetError::sql(CONNECTING))?;
    check_version(number, &shown)?;
    let migrated = run(&pool).await;
    pool.close().await;
    migrated
}

/// Refuses tables of another program, before anything is written beside them. How many
/// migrations there were.
async fn refuse_others(pool: &PgPool) -> Result<i64, FleetError> {
    let action = "look for tables";
    let query = sqlx::query(
        "SELECT to_regclass('_sqlx_migrations') IS NOT NULL, (
           SELECT count(*) FROM pg_class c
           WHERE relnamespace = current_schema()::regnamespace
             AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND relname <> '_sqlx_migrations'
             AND NOT EXISTS (SELECT 1 FROM pg_depend d
               WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')),
           to_regclass('leases') IS NOT NULL",
    );
    let found = query.fetch_one(pool).await;
    let found = found.map_err(FleetError::sql(action))?;
    let (has_migrations, others): (bool, i64) = (found.get(0), found.get(1));
    let (first, count): (Option<Vec<u8>>, i64) = if has_migrations {
        let query = "SELECT (SELECT checksum FROM _sqlx_migrations ORDER BY version LIMIT 1),
            (SELECT count(*) FROM _sqlx_migrations)";
        let row = sqlx::query(query).fetch_one(pool).await;
        let row = row.map_err(FleetError::sql(action))?;
        (row.get(0), row.get(1))
    } else {
        (None, 0)
    };
    let is_own = match first {
        Some(checksum) => migrator()
            .iter()
            .next()
            .is_some_and(|own| *own.checksum == *checksum),
        None => others == 0,
    };
    if is_own {
        Ok(count)
    } else if found.get(2) {
        Err(earlier_tables())
    } else {
        Err(others_tables())
    }
}

async fn run(pool: &PgPool) -> Result<Migrated, FleetError> {
    let before = refuse_others(pool).await?;
    match migrator().run(pool).await {
        Err(MigrateError::VersionMismatch(_)) => return Err(others_tables()),
        // A table of this name is there, without the mark of a migration.
        Err(MigrateError::ExecuteMigration(sqlx::Error::Database(error), _))
            if error.code().as_deref() == Some("42P07") =>
        {
            return Err(others_tables());
        }
        Err(MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) => {
            let code = error.as_database_error().and_then(DatabaseError::code);
            if code.as_deref() == Some("42501") {
                return Err(FleetError::Refused(
                    "the user of the database may not make tables in it: make this user the \
                     owner of the database, or run `almanac migrate` as its owner"
                        .into(),
                ));
            }
            return Err(FleetError::sql("make the tables")(error));
        }
        migrated => migrated?,
    }
    let query = "SELECT needs, (SELECT count(*) FROM _sqlx_migrations) FROM fleet";
    let found = sqlx::query(query).fetch_one(pool).await;
    let found = found.map_err(FleetError::sql("look up the fleet"))?;
    refuse_newer(found.get(0))?;
    Ok(match found.get::<i64, _>(1) {
        after if after == before => Migrated::Unchanged,
        _ if before == 0 => Migrated::Made,
        _ => Migrated::Changed,
    })
}
