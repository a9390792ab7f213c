//! Errors of the store.

use std::path::PathBuf;

use sqlx::error::DatabaseError;
use sqlx::migrate::MigrateError;

use crate::store::disk::DiskError;
use crate::store::revision::RevisionId;

/// An error of the store, naming the file or the step.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or folder could not be used.
    #[error(transparent)]
    File(#[from] DiskError),
    /// Another process holds the data folder.
    #[error("it is in use: another almanac holds {}", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The database could not be brought to this version's shape.
    #[error("cannot prepare the database {}: {source}", path.display())]
    Migrate {
        /// The database file.
        path: PathBuf,
        /// Why it failed.
        source: MigrateError,
    },
    /// A statement failed.
    #[error("cannot {action}: {source}")]
    Sql {
        /// What was to be done.
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
    /// A revision whose files were found damaged before.
    #[error("the files of revision {0} were found damaged")]
    KnownDamage(RevisionId),
}

/// Damage of a stored file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is damaged: {reason}", path.display())]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

impl StoreError {
    /// Whether the folder or the file system allows no writing.
    pub fn is_read_only(&self) -> bool {
        use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        match self {
            Self::File(error) => {
                matches!(error.source.kind(), PermissionDenied | ReadOnlyFilesystem)
            }
            _ => false,
        }
    }

    /// Whether the database is damaged, so that it has to be made again.
    pub(super) fn is_damage(&self) -> bool {
        let source = match self {
            Self::Damaged(_) => return true,
            Self::Sql { source, .. } => source,
            Self::Migrate { source, .. } => match source {
                MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _) => source,
                // A published migration never changes.
                MigrateError::VersionMismatch(_) | MigrateError::Dirty(_) => return true,
                _ => return false,
            },
            _ => return false,
        };
        let code = source.as_database_error().and_then(DatabaseError::code);
        let code = code.and_then(|code| code.parse::<u32>().ok());
        // SQLITE_CORRUPT and SQLITE_NOTADB, also with details in the upper bytes.
        code.is_some_and(|code| matches!(code & 0xff, 11 | 26))
    }

    /// For `map_err` on serialising.
    pub(super) fn encode(what: &'static str) -> impl FnOnce(serde_json::Error) -> Self {
        move |source| Self::Encode { what, source }
    }

    /// For `map_err` on statements.
    pub(super) fn sql(action: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::Sql { action, source }
    }
}
