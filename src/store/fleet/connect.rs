//! Opens the database and the bucket of a fleet, and refuses those of others.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sqlx::SqlStr;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::postgres::{PgListener, PgPool, PgPoolOptions};
use sqlx::{Executor as _, Row as _};

use crate::objects::{Bucket, Put};
use crate::store::Store;
use crate::store::disk::{DiskError, sync_folder};
use crate::store::fleet::error::FleetError;
use crate::store::fleet::settings::Settings;

/// Version, description and text of each file in `migrations/postgres`. A published
/// file never changes.
const MIGRATIONS: [(i64, &str, &str); 1] = [(
    1,
    "fleet",
    include_str!("../../../migrations/postgres/0001_fleet.sql"),
)];
/// The object that names the fleet of a bucket.
const MARKER: &str = "fleet";
/// The file in a data folder that names the fleet whose numbers it has.
const OWNER: &str = "fleet";
/// Notifications of changes.
pub(super) const CHANNEL: &str = "almanac";
/// The content of the one that asks for retries.
pub const RETRY: &str = "retry";
const MAX_CONNECTIONS: u32 = 4;
const CONNECT: Duration = Duration::from_secs(5);
/// A holder that stops inside a transaction keeps its rows locked, and nobody takes
/// over. A statement here takes milliseconds.
const GUARDS: &str = "SET idle_in_transaction_session_timeout = '2s'; SET lock_timeout = '3s'; \
    SET statement_timeout = '5s'";

/// What the replicas of a fleet share. Cheap to clone.
#[derive(Clone)]
pub struct Fleet {
    pub(super) pool: PgPool,
    pub(super) bucket: Bucket,
    pub(super) name: Arc<str>,
}

impl Fleet {
    /// Sets up the connections. Nothing is asked yet.
    ///
    /// # Errors
    /// When a file of the settings cannot be used.
    pub fn open(settings: &Settings) -> Result<Self, FleetError> {
        let connection = settings.connection().map_err(FleetError::Refused)?;
        let guarded = PgPoolOptions::new()
            .max_connections(MAX_CONNECTIONS)
            .acquire_timeout(CONNECT)
            .after_connect(|connection, _| {
                Box::pin(async move { connection.execute(GUARDS).await.map(drop) })
            });
        Ok(Self {
            pool: guarded.connect_lazy_with(connection),
            bucket: Bucket::new(&settings.objects).map_err(FleetError::Refused)?,
            name: settings.name.as_str().into(),
        })
    }

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
        let query = "SELECT to_regclass('_sqlx_migrations') IS NOT NULL
                     AND to_regclass('fleet') IS NOT NULL AND to_regclass('generations') IS NOT NULL";
        let prepared: bool = sqlx::query_scalar(query)
            .fetch_one(&self.pool)
            .await
            .map_err(FleetError::sql("look for the tables"))?;
        if !prepared {
            return Err(FleetError::Refused(
                "the database has no tables of almanac: run `almanac migrate` with the same \
                 configuration"
                    .into(),
            ));
        }
        let rows = sqlx::query("SELECT version, checksum FROM _sqlx_migrations WHERE success");
        let rows = rows.fetch_all(&self.pool).await;
        let rows = rows.map_err(FleetError::sql("look up the migrations"))?;
        for migration in migrator().iter() {
            let found = rows
                .iter()
                .find(|row| row.get::<i64, _>(0) == migration.version);
            match found {
                None => {
                    return Err(FleetError::Refused(
                        "the database is of an older version of almanac: run `almanac migrate`"
                            .into(),
                    ));
                }
                Some(row) if row.get::<&[u8], _>(1) != &*migration.checksum => {
                    return Err(others_tables());
                }
                Some(_) => {}
            }
        }
        let row = sqlx::query("SELECT id, needs FROM fleet").fetch_one(&self.pool);
        let row = row.await.map_err(FleetError::sql("look up the fleet"))?;
        refuse_newer(row.get("needs"))?;
        Ok(row.get("id"))
    }

    async fn check_bucket(&self, id: &str) -> Result<(), FleetError> {
        let mark = Bytes::from(format!("{id}\n"));
        if self.bucket.put(MARKER, mark.clone(), Put::IfAbsent).await? {
            tracing::info!(bucket = %self.bucket.location(), "the bucket belongs to this fleet now");
        }
        let found = self.bucket.read(MARKER).await?;
        if found.as_deref() != Some(&mark[..]) {
            return Err(FleetError::Refused(format!(
                "{} belongs to another fleet, whose database this is not: give each fleet a \
                 prefix of its own",
                self.bucket.location()
            )));
        }
        // A store without conditions would let two fleets share a prefix.
        if self.bucket.put(MARKER, mark, Put::IfAbsent).await? {
            return Err(FleetError::Refused(format!(
                "{} replaces objects that exist although it is asked not to (If-None-Match): use \
                 a store with conditional writes",
                self.bucket.location()
            )));
        }
        let own = self.bucket.list(MARKER).await?;
        if !own.iter().any(|key| key == MARKER) {
            return Err(FleetError::Refused(format!(
                "the list of {} lacks an object that is there: allow s3:ListBucket on the prefix",
                self.bucket.location()
            )));
        }
        Ok(())
    }

    /// Hears of changes, until the connection breaks.
    pub async fn listen(&self) -> Result<PgListener, FleetError> {
        let listening = async {
            let mut listener = PgListener::connect_with(&self.pool).await?;
            listener.eager_reconnect(false);
            listener.listen(CHANNEL).await?;
            Ok(listener)
        };
        listening.await.map_err(FleetError::sql("listen"))
    }

    /// Asks all replicas to retry at once what fails.
    pub async fn ask_for_retries(&self) -> Result<(), FleetError> {
        let query = sqlx::query("SELECT pg_notify($1, $2)");
        let done = query.bind(CHANNEL).bind(RETRY).execute(&self.pool).await;
        done.map(drop).map_err(FleetError::sql("notify"))
    }

    /// Closes the connections.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// Brings the database to this version. A newer one stays as it is: if its tables fit
/// this version too, both may be used.
pub async fn migrate(settings: &Settings) -> Result<(), FleetError> {
    let connection = settings.connection().map_err(FleetError::Refused)?;
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(CONNECT);
    let pool = pool.connect_with(connection).await;
    let pool = pool.map_err(FleetError::sql("connect"))?;
    let migrated = run(&pool).await;
    pool.close().await;
    migrated
}

async fn run(pool: &PgPool) -> Result<(), FleetError> {
    match migrator().run(pool).await {
        Err(MigrateError::VersionMismatch(_)) => return Err(others_tables()),
        // A table of this name is there, without the mark of a migration.
        Err(MigrateError::ExecuteMigration(sqlx::Error::Database(error), _))
            if error.code().as_deref() == Some("42P07") =>
        {
            return Err(others_tables());
        }
        migrated => migrated?,
    }
    let needs = sqlx::query_scalar("SELECT needs FROM fleet").fetch_one(pool);
    refuse_newer(needs.await.map_err(FleetError::sql("look up the fleet"))?)
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

impl Store {
    /// Checks that the numbers of this folder are those of a fleet, or of a node alone.
    /// An empty folder becomes the fleet's.
    pub async fn belong_to(&self, fleet: Option<&str>) -> Result<(), FleetError> {
        let path = self.folder.join(OWNER);
        let owner = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            read => Some(read.map_err(DiskError::at("read", &path))?),
        };
        let shown = self.folder.display();
        match (owner.as_deref().map(str::trim), fleet) {
            (None, None) => Ok(()),
            (Some(owner), Some(fleet)) if owner == fleet => Ok(()),
            (None, Some(fleet)) if self.catalogs().await?.is_empty() => {
                write(&self.folder, &path, fleet)
            }
            (None, Some(_)) => Err(FleetError::Refused(format!(
                "{shown} has catalogs of a node alone, whose revisions have other numbers: give \
                 each replica an empty data folder, and carry the catalogs over by `almanac \
                 export` and `almanac import`"
            ))),
            (Some(_), Some(_)) => Err(FleetError::Refused(format!(
                "{shown} is of another fleet: give each replica an empty data folder"
            ))),
            (Some(_), None) => Err(FleetError::Refused(format!(
                "{shown} is of a replica of a fleet: write database and objects, or give a node \
                 alone an empty data folder"
            ))),
        }
    }

    /// The fleet whose numbers the folder has.
    pub fn owner(&self) -> Option<String> {
        let owner = std::fs::read_to_string(self.folder.join(OWNER)).ok()?;
        Some(owner.trim().to_owned())
    }
}

fn write(folder: &Path, path: &Path, fleet: &str) -> Result<(), FleetError> {
    let new = path.with_extension("new");
    std::fs::write(&new, fleet).map_err(DiskError::at("write", &new))?;
    std::fs::rename(&new, path).map_err(DiskError::at("create", path))?;
    Ok(sync_folder(folder)?)
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
