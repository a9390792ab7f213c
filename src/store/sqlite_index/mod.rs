//! Catalogs as SQLite databases, the form before file-based catalogs. Such a
//! database comes from outside: it is only read, nothing in it is executed,
//! and its size, rows and time are bounded. `fbc::sqlite` documents the meaning
//! of the rows.

mod database;
mod tables;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use sqlx::Connection as _;

pub use crate::store::sqlite_index::database::LegacyError;
use crate::store::sqlite_index::database::{Database, LONGEST, manifests};
use fbc::sqlite::{LegacyBundle, LegacyEntry, Manifests, write_bundle, write_package};
use fbc::visit::DEPRECATED_TYPE;

/// Reads the database at `path`, to which nobody may write meanwhile. The text
/// of each package (its blobs as lines of JSON) goes to `sink` in pieces,
/// packages by name.
pub async fn read_legacy(
    path: &Path,
    sink: impl FnMut(&str, &[u8]) -> std::io::Result<()> + Send,
) -> Result<(), LegacyError> {
    let deadline = Instant::now() + LONGEST;
    let mut database = Database::open(path, deadline).await?;
    let read = database.read(sink).await;
    // Nothing was written that could be lost.
    let _ = database.connection.close().await;
    match read {
        Err(LegacyError::Sql { .. }) if Instant::now() >= deadline => Err(LegacyError::Timeout),
        read => read,
    }
}

impl Database {
    async fn read(
        &mut self,
        mut sink: impl FnMut(&str, &[u8]) -> std::io::Result<()> + Send,
    ) -> Result<(), LegacyError> {
        let bundles = self.bundles().await?;
        let properties = self.pairs("properties").await?;
        let dependencies = self.pairs("dependencies").await?;
        let images = self.images().await?;
        let (mut packages, heads) = self.packages(&bundles).await?;
        for package in packages.values_mut() {
            self.check_time()?;
            // opm leaves such bundles and their entries out.
            let is_deprecated = |entry: &LegacyEntry| {
                let mut properties = properties.get(&entry.name).into_iter().flatten();
                properties.any(|(kind, _)| kind == DEPRECATED_TYPE)
            };
            for entries in package.channels.values_mut() {
                entries.retain(|entry| !is_deprecated(entry));
            }
            let mut out = Vec::new();
            let head = heads.get(&(package.name.clone(), package.default_channel.clone()));
            let head = head.and_then(|name| Some((name, bundles.get(name)?)));
            let (head, text) = match head {
                Some((name, row)) => (name.as_str(), self.manifests(row.row).await?),
                None => ("", String::new()),
            };
            let head = Manifests::read(&text).map_err(manifests(head))?;
            write_package(package, &head, &mut out);
            sink(&package.name, &out)?;
            let entries = package.channels.values().flatten();
            let names: BTreeSet<&str> = entries.map(|entry| entry.name.as_str()).collect();
            for name in names {
                let Some(row) = bundles.get(name) else {
                    continue;
                };
                self.check_time()?;
                let text = self.manifests(row.row).await?;
                let bundle = LegacyBundle {
                    name,
                    package: &package.name,
                    image: &row.image,
                    version: &row.version,
                    manifests: &text,
                    properties: properties.get(name).map_or(&[], Vec::as_slice),
                    dependencies: dependencies.get(name).map_or(&[], Vec::as_slice),
                    related_images: images.get(name).map_or(&[], Vec::as_slice),
                };
                out.clear();
                write_bundle(&bundle, &mut out).map_err(manifests(name))?;
                sink(&package.name, &out)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sqlx::sqlite::SqliteConnectOptions;
    use sqlx::{AssertSqlSafe, ConnectOptions as _};

    use super::*;
    use crate::store::sqlite_index::database::TABLES;

    #[tokio::test]
    async fn a_database_is_read_for_so_long_whatever_takes_the_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index.db");
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(true);
        let mut connection = options.connect().await.unwrap();
        for (table, columns) in TABLES {
            let query = format!("CREATE TABLE {table} ({})", columns.join(", "));
            sqlx::query(AssertSqlSafe(query))
                .execute(&mut connection)
                .await
                .unwrap();
        }
        sqlx::query("INSERT INTO package VALUES ('a', 'stable')")
            .execute(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();

        let later = Instant::now() + LONGEST;
        let mut database = Database::open(&path, later).await.unwrap();
        let mut packages = 0;
        let mut count = |_: &str, _: &[u8]| {
            packages += 1;
            Ok(())
        };
        database.read(&mut count).await.unwrap();
        database.deadline = Instant::now();
        let read = database.read(&mut count).await;
        assert!(matches!(read, Err(LegacyError::Timeout)), "{read:?}");
        assert_eq!(packages, 1);
    }
}
