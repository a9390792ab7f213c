//! Errors of the store.

use std::path::PathBuf;

use sqlx::migrate::MigrateError;

use crate::store::file_io::DiskError;
use crate::store::revision::RevisionId;

/// An error of the store, naming the file or the step.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or folder could not be used.
    #[error(transparent)]
    File(#[from] DiskError),
    /// Another process holds the data folder.
    #[error("the data folder {} is in use by another almanac; stop it first", folder.display())]
    Locked {
        /// The folder.
        folder: PathBuf,
    },
    /// The database could not be brought to this version's shape.
    #[error("cannot prepare the database {}: {}", path.display(), told(cause))]
    Migrate {
        /// The database file.
        path: PathBuf,
        /// Why it failed. It is no `source`, since the text already tells all of it.
        cause: MigrateError,
    },
    /// A statement failed.
    #[error("cannot {action}: {source}")]
    Sql {
        /// The attempted operation.
        action: &'static str,
        /// Why it failed.
        source: sqlx::Error,
    },
    /// A value could not be written as JSON.
    #[error("cannot encode {what}: {source}")]
    Encode {
        /// The value.
        what: &'static str,
        /// Why it failed.
        source: serde_json::Error,
    },
    /// A file of a revision is damaged.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// A number that another revision has here.
    #[error("another revision has the number {0} here")]
    NumberTaken(RevisionId),
    /// A revision whose files were found damaged before.
    #[error("the files of revision {0} were found damaged")]
    KnownDamage(RevisionId),
}

fn told(error: &MigrateError) -> String {
    match error {
        MigrateError::VersionMissing(_) => {
            "it is of a newer version of almanac; run that version, \
            or give this one another data folder"
                .to_owned()
        }
        error => error.to_string(),
    }
}

/// Damage of a stored file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is damaged: {reason}", path.display())]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// The defect.
    pub reason: String,
}

impl StoreError {
    /// Whether the folder, the database or the file system allows no writing.
    pub fn is_read_only(&self) -> bool {
        use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        match self {
            Self::File(error) => {
                matches!(error.source.kind(), PermissionDenied | ReadOnlyFilesystem)
            }
            // SQLITE_READONLY: the folder can be written, and the database cannot.
            _ => self.sqlite_code() == Some(8),
        }
    }

    /// Whether the disk refused to read or write, or to add a file: a full disk does, and
    /// has room later.
    pub fn is_of_disk(&self) -> bool {
        match self {
            Self::File(error) => {
                error.source.kind() != std::io::ErrorKind::NotFound && !self.is_read_only()
            }
            // SQLITE_IOERR, SQLITE_FULL and SQLITE_CANTOPEN.
            _ => matches!(self.sqlite_code(), Some(10 | 13 | 14)),
        }
    }

    /// Whether the database is damaged, so that it has to be rebuilt.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            // A published migration never changes.
            Self::Damaged(_)
            | Self::Migrate {
                cause: MigrateError::VersionMismatch(_) | MigrateError::Dirty(_),
                ..
            } => true,
            // SQLITE_CORRUPT and SQLITE_NOTADB.
            _ => matches!(self.sqlite_code(), Some(11 | 26)),
        }
    }

    /// Whether SQLite refuses the statement itself: there is no such table or column.
    pub(super) fn is_of_statement(&self) -> bool {
        // SQLITE_ERROR.
        self.sqlite_code() == Some(1)
    }

    /// The code of SQLite's error, without the details in its upper bytes.
    fn sqlite_code(&self) -> Option<u32> {
        let (Self::Sql { source, .. }
        | Self::Migrate {
            cause: MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _),
            ..
        }) = self
        else {
            return None;
        };
        let code = source.as_database_error()?.code()?;
        Some(code.parse::<u32>().ok()? & 0xff)
    }

    /// For `map_err` on serialising.
    pub(crate) fn encode(what: &'static str) -> impl FnOnce(serde_json::Error) -> Self {
        move |source| Self::Encode { what, source }
    }

    /// For `map_err` on statements.
    pub(super) fn sql(action: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::Sql { action, source }
    }
}

#[cfg(test)]
mod tests {
    use sqlx::SqlitePool;
    use sqlx::sqlite::SqliteConnectOptions;

    use super::*;

    #[tokio::test]
    async fn a_database_that_cannot_be_written_is_told_from_other_errors() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteConnectOptions::new().filename(folder.path().join("database"));
        let create = options.clone().create_if_missing(true);
        let pool = SqlitePool::connect_with(create).await.unwrap();
        let created = sqlx::query("CREATE TABLE passes (id)").execute(&pool).await;
        created.unwrap();
        pool.close().await;
        let pool = SqlitePool::connect_with(options.read_only(true)).await;
        let pool = pool.unwrap();
        for (statement, is_read_only) in [
            ("DELETE FROM passes", true),
            ("DELETE FROM no_such_table", false),
        ] {
            let failed = sqlx::query(statement).execute(&pool).await.unwrap_err();
            let failed = StoreError::sql("write")(failed);
            assert_eq!(failed.is_read_only(), is_read_only, "{failed}");
        }
    }
}
