//! The tables of a fleet: those of this version, of an earlier one, or of another program.

use std::borrow::Cow;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::postgres::PgConnection;
use sqlx::{Row as _, SqlStr};

use crate::fleet::error::FleetError;

/// Version, description and text of each file in `migrations/postgres`. A published
/// file never changes.
const MIGRATIONS: [(i64, &str, &str); 1] = [(
    1,
    "fleet",
    include_str!("../../migrations/postgres/0001_fleet.sql"),
)];
/// The oldest version of the server, which has `idle_session_timeout`.
const OLDEST: i32 = 140_000;
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

/// The name of the fleet of a database, whose tables are those of this version.
pub(super) async fn check_tables(connection: &mut PgConnection) -> Result<String, FleetError> {
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

/// Checks that rows can be written.
pub(super) async fn check_rights(connection: &mut PgConnection) -> Result<(), FleetError> {
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

/// Refuses a server without `idle_session_timeout`. The version is shown as given.
pub(super) fn check_version(version: i32, shown: &str) -> Result<(), FleetError> {
    if version >= OLDEST {
        return Ok(());
    }
    Err(FleetError::Refused(format!(
        "the database is PostgreSQL {shown}: a fleet needs PostgreSQL 14 or later, which ends the \
         sessions of replicas that hang"
    )))
}

pub(super) fn refuse_newer(needs: i64) -> Result<(), FleetError> {
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
pub(super) fn earlier_tables() -> FleetError {
    FleetError::Refused(
        "the database is of an earlier version of almanac, whose fleets are made differently: \
         export with that version, then name a new database and a new prefix of the bucket, run \
         `almanac migrate`, and import"
            .into(),
    )
}

pub(super) fn others_tables() -> FleetError {
    FleetError::Refused(
        "the tables of the database are another program's: give almanac a database of its own"
            .into(),
    )
}

pub(super) fn migrator() -> Migrator {
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

    #[test]
    fn a_server_before_version_14_is_refused() {
        assert!(check_version(140_000, "14.0").is_ok());
        let refused = check_version(130_014, "13.14").unwrap_err().to_string();
        assert!(refused.contains("PostgreSQL 13.14"), "{refused}");
        assert!(refused.contains("14 or later"), "{refused}");
    }
}
