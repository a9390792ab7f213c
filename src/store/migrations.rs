//! The migrations of the database, compiled into the program.
//!
//! The macro of sqlx would do the same at the price of building SQLite a second
//! time for the compiler's own machine.

use std::borrow::Cow;

use sqlx::SqlStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// Version, description and text of each file in `migrations/sqlite`. The
/// database keeps a checksum of each text, so a published file never changes.
const MIGRATIONS: [(i64, &str, &str); 3] = [
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
}
