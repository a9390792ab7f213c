//! What can go wrong in the store.

use std::io;
use std::path::{Path, PathBuf};

/// An error of the store, naming the file or the step.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or folder could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
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
        source: sqlx::migrate::MigrateError,
    },
    /// A statement failed.
    #[error("cannot {action}: {source}")]
    Sql {
        /// What was to be done.
        action: &'static str,
        /// Why it failed.
        source: sqlx::Error,
    },
    /// A file of a revision is not what was written.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl StoreError {
    /// For `map_err` on file operations.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    /// For `map_err` on statements.
    pub(super) fn sql(action: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::Sql { action, source }
    }
}
