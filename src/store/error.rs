//! Errors of the store.

use std::path::PathBuf;

use crate::store::disk::DiskError;

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
    /// A value could not be written as JSON.
    #[error("cannot encode {what}: {source}")]
    Encode {
        /// The value.
        what: &'static str,
        /// Why it failed.
        source: serde_json::Error,
    },
    /// A file of a revision is damaged.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl StoreError {
    /// For `map_err` on serialising.
    pub(super) fn encode(what: &'static str) -> impl FnOnce(serde_json::Error) -> Self {
        move |source| Self::Encode { what, source }
    }

    /// For `map_err` on statements.
    pub(super) fn sql(action: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::Sql { action, source }
    }
}
