//! The migrations of the database, compiled into the program.
//!
//! The macro of sqlx would do the same at the price of building SQLite a second
//! time for the compiler's own machine.

use std::borrow::Cow;

use sqlx::SqlStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// Version, description and text of each file in `migrations/sqlite`. The
/// database keeps a checksum of each text, so a published file never changes.
const MIGRATIONS: [(i64, &str, &str); 8] = [
    (
        1,
        "catalogs",
        include_str!("../../migrations/sqlite/0001_catalogs.sql"),
    ),
    (
        2,
        "search",
        include_str!("../../migrations/sqlite/0002_search.sql"),
    ),
    (
        3,
        "images",
        include_str!("../../migrations/sqlite/0003_images.sql"),
    ),
    (
        4,
        "variants",
        include_str!("../../migrations/sqlite/0004_variants.sql"),
    ),
    (
        5,
        "sums",
        include_str!("../../migrations/sqlite/0005_sums.sql"),
    ),
    (
        6,
        "history",
        include_str!("../../migrations/sqlite/0006_history.sql"),
    ),
    (
        7,
        "untold",
        include_str!("../../migrations/sqlite/0007_untold.sql"),
    ),
    (
        8,
        "earlier_images",
        include_str!("../../migrations/sqlite/0008_earlier_images.sql"),
    ),
];

/// Brings a database to the current version.
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
    Migrator::with_migrations(migrations.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_migration_in_the_folder_is_compiled_in() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/sqlite");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let names =
            MIGRATIONS.map(|(version, description, _)| format!("{version:04}_{description}.sql"));
        assert_eq!(files, names);
    }

    /// A data folder whose database has these migrations only, and these
    /// sources of current revisions, each of a catalog of its own.
    async fn older(folder: &std::path::Path, migrations: usize, sources: &[&str]) {
        use crate::answers::index::FORMAT;
        use sqlx::{ConnectOptions as _, Connection as _};

        let options = sqlx::sqlite::SqliteConnectOptions::new()
            .filename(folder.join("almanac.db"))
            .create_if_missing(true);
        let mut connection = options.connect().await.unwrap();
        let mut all = migrator().migrations.into_owned();
        all.truncate(migrations);
        let older = Migrator::with_migrations(all);
        older.run(&mut connection).await.unwrap();
        let digest = ::images::digest::Digest::of(b"").to_string();
        for (number, source) in (1_i64..).zip(sources) {
            let name = format!("c{number}");
            sqlx::query("INSERT INTO catalogs (name) VALUES (?)")
                .bind(&name)
                .execute(&mut connection)
                .await
                .unwrap();
            sqlx::query(
                "INSERT INTO revisions VALUES (?1, ?2, ?3, ?4, ?4, 1, 2, ?5, 0, 0, 0, 0, 0, 0)",
            )
            .bind(number)
            .bind(&name)
            .bind(source)
            .bind(&digest)
            .bind(FORMAT)
            .execute(&mut connection)
            .await
            .unwrap();
            sqlx::query("UPDATE catalogs SET current = ? WHERE name = ?")
                .bind(number)
                .bind(&name)
                .execute(&mut connection)
                .await
                .unwrap();
        }
        connection.close().await.unwrap();
    }

    #[tokio::test]
    async fn sources_of_an_older_database_are_divided_into_columns() {
        let folder = tempfile::tempdir().unwrap();
        let sources = [
            (
                "quay.io/a/b:v1 linux/amd64",
                "quay.io/a/b:v1",
                Some("linux/amd64"),
            ),
            (
                "oci:/a b/c:v1 linux/arm/v7",
                "oci:/a b/c:v1",
                Some("linux/arm/v7"),
            ),
            (
                "oci:/amd64 linux/a/d linux/amd64",
                "oci:/amd64 linux/a/d",
                Some("linux/amd64"),
            ),
            (
                "curated:a,b sha256:0123",
                "curated:a,b",
                Some("sha256:0123"),
            ),
            ("file:/a b", "file:/a b", None),
            ("file:/a", "file:/a", None),
            ("odd", "odd", None),
        ];
        older(folder.path(), 3, &sources.map(|(stored, ..)| stored)).await;
        let store = crate::store::Store::open(folder.path()).await.unwrap();
        for (number, (stored, source, variant)) in (1..).zip(sources) {
            let name = format!("c{number}").parse().unwrap();
            let revision = store.current(&name).await.unwrap().expect(stored);
            assert_eq!(revision.identity.source, source, "{stored}");
            assert_eq!(revision.identity.variant.as_deref(), variant, "{stored}");
            assert_eq!(revision.identity.to_string(), stored);
        }
        store.close().await;
    }
}
