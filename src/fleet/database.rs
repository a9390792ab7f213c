//! Prepares the database and the bucket of a fleet, and refuses those of others.

use std::borrow::Cow;
use std::time::Duration;

use futures_util::FutureExt as _;
use sqlx::SqlStr;
use sqlx::error::DatabaseError;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use sqlx::{Executor as _, Row as _};

use crate::fleet::error::{CONNECT as CONNECTING, FleetError};
use crate::fleet::session::{check_version, statements};
use crate::fleet::settings::Settings;
use crate::fleet::shared::Fleet;

/// The longest time of a connection attempt.
const CONNECT: Duration = Duration::from_secs(5);
/// Version, description and text of each file in `migrations/postgres`. A published
/// file never changes.
const MIGRATIONS: [(i64, &str, &str); 1] = [(
    1,
    "fleet",
    include_str!("../../migrations/postgres/0001_fleet.sql"),
)];
/// A change of a table that waits for others keeps the beats of all replicas waiting.
const PATIENT: &str = "SET lock_timeout = '3s'; SET idle_in_transaction_session_timeout = '10s'";
/// The tables that replicas change, and the rights for that.
const TABLES: [&str; 6] = [
    "fleet",
    "generations",
    "history",
    "objects",
    "replicas",
    "tracks",
];
const SEQUENCES: [&str; 1] = ["generation_numbers"];
const SEQUENCE_RIGHTS: [&str; 3] = ["SELECT", "UPDATE", "USAGE"];
const RIGHTS: [&str; 4] = ["SELECT", "INSERT", "UPDATE", "DELETE"];

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

async fn check_tables(connection: &mut PgConnection) -> Result<String, FleetError> {
    let action = "look for the tables";
    let query = sqlx::query(
        "SELECT to_regclass('_sqlx_migrations') IS NOT NULL
           AND to_regclass('fleet') IS NOT NULL AND to_regclass('generations') IS NOT NULL,
           to_regclass('leases') IS NOT NULL",
    );
    let found = query.fetch_one(&mut *connection).await;
    let found = found.map_err(FleetError::sql(action))?;
    if !found.get::<bool, _>(0) {
        return Err(FleetError::Refused(
            "the database has no tables of almanac: run `almanac migrate` with the same \
             configuration"
                .into(),
        ));
    }
    if found.get(1) {
        return Err(earlier_tables());
    }
    let rows = sqlx::query("SELECT version, checksum FROM _sqlx_migrations WHERE success");
    let rows = rows.fetch_all(&mut *connection).await;
    let rows = rows.map_err(FleetError::sql("look up the migrations"))?;
    for migration in migrator().iter() {
        let mut rows = rows.iter();
        match rows.find(|row| row.get::<i64, _>(0) == migration.version) {
            None => {
                return Err(FleetError::Refused(
                    "the database is of an older version of almanac: run `almanac migrate`".into(),
                ));
            }
            Some(row) if row.get::<&[u8], _>(1) != &*migration.checksum => {
                return Err(others_tables());
            }
            Some(_) => {}
        }
    }
    let row = sqlx::query("SELECT id, needs FROM fleet");
    let row = row.fetch_optional(connection).await;
    let row = row.map_err(FleetError::sql("look up the fleet"))?;
    let row = row.ok_or(FleetError::NoFleet)?;
    refuse_newer(row.get("needs"))?;
    Ok(row.get("id"))
}

async fn check_rights(connection: &mut PgConnection) -> Result<(), FleetError> {
    let query = sqlx::query(
        "SELECT current_setting('transaction_read_only') = 'on',
           ARRAY(SELECT p || ' on ' || string_agg(t, ', ' ORDER BY t)
             FROM unnest($1::text[]) t, unnest($2::text[]) p
             WHERE NOT has_table_privilege(t, p) GROUP BY p ORDER BY p),
           ARRAY(SELECT p || ' on ' || string_agg(s, ', ' ORDER BY s)
             FROM unnest($3::text[]) s, unnest($4::text[]) p
             WHERE NOT has_sequence_privilege(s, p) GROUP BY p ORDER BY p)",
    );
    let query = query.bind(&TABLES[..]).bind(&RIGHTS[..]);
    let query = query.bind(&SEQUENCES[..]).bind(&SEQUENCE_RIGHTS[..]);
    let row = query.fetch_one(connection).await;
    let row = row.map_err(FleetError::sql("look up the rights"))?;
    if row.get(0) {
        return Err(FleetError::Refused(
            "the database takes no changes: name the primary in database, not a copy of it".into(),
        ));
    }
    let mut missing: Vec<String> = row.get(1);
    missing.append(&mut row.get(2));
    if missing.is_empty() {
        return Ok(());
    }
    Err(FleetError::Refused(format!(
        "let the owner of the tables grant SELECT, INSERT, UPDATE and DELETE on all tables, and \
         USAGE, SELECT and UPDATE on all sequences, to the user of the database, who lacks {}",
        missing.join("; ")
    )))
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

fn refuse_newer(needs: i64) -> Result<(), FleetError> {
    if MIGRATIONS.iter().any(|(version, ..)| *version >= needs) {
        return Ok(());
    }
    Err(FleetError::Refused(
        "the database is of a newer version of almanac, which has changed what this one reads: run \
         that version"
            .into(),
    ))
}

/// A fleet of the design with leases, whose rows are not carried over.
fn earlier_tables() -> FleetError {
    FleetError::Refused(
        "the database is of an earlier version of almanac, whose fleets are made differently: \
         export with that version, then name a new database and a new prefix of the bucket, run \
         `almanac migrate`, and import"
            .into(),
    )
}

fn others_tables() -> FleetError {
    FleetError::Refused(
        "the tables of the database are another program's: give almanac a database of its own"
            .into(),
    )
}

fn migrator() -> Migrator {
    let migrations = MIGRATIONS.map(|(version, description, sql)| {
        Migration::new(
            version,
            Cow::Borrowed(description),
            MigrationType::Simple,
            SqlStr::from_static(sql),
            false,
        )
    });
    let mut migrator = Migrator::with_migrations(migrations.into());
    migrator.set_ignore_missing(true);
    migrator
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_migration_in_the_folder_is_compiled_in() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/postgres");
        let files = std::fs::read_dir(folder).unwrap();
        let files = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut files: Vec<String> = files.collect();
        files.sort();
        let names =
            MIGRATIONS.map(|(version, description, _)| format!("{version:04}_{description}.sql"));
        assert_eq!(files, names);
    }
}
