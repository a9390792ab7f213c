//! Errors of a fleet.

use sqlx::error::DatabaseError;
use sqlx::migrate::MigrateError;

use crate::objects::ObjectError;
use crate::store::StoreError;
use crate::store::disk::DiskError;

/// An error of what replicas share.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A statement failed.
    #[error(
        "cannot {action} in the database of the fleet: {source}{}",
        advice(source)
    )]
    Database {
        /// What was to be done.
        action: &'static str,
        /// Why it failed.
        source: sqlx::Error,
    },
    /// A request to the bucket failed.
    #[error(transparent)]
    Objects(#[from] ObjectError),
    /// Another replica follows the catalog by now.
    #[error("another replica follows the catalog now, so nothing is published here")]
    Fenced,
    /// An object is not what its name says.
    #[error("the object {key} is damaged: {problem}")]
    Damaged {
        /// Its key.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A generation without files that this version opens.
    #[error("revision {0} has no files in the format of this version of almanac")]
    OtherFormat(i64),
    /// An object that was to be published is gone.
    #[error("an object was removed while it was being published")]
    Gone,
    /// The replicas did not turn to a generation in time.
    #[error("the generation was prepared, but it is not served yet")]
    NotTurned,
    /// The local copy cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database cannot be prepared.
    #[error("cannot prepare the database of the fleet: {0}")]
    Migrate(#[from] MigrateError),
    /// The database or the bucket took too long.
    #[error("no answer after {}", humantime::format_duration(*.0))]
    NoAnswer(std::time::Duration),
    /// A start is refused, with what to do.
    #[error("{0}")]
    Refused(String),
}

/// Whether the server's certificate is refused, or TLS fails otherwise.
fn is_tls(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Tls(_) => true,
        sqlx::Error::Io(error) => {
            let cause = error.get_ref();
            cause.is_some_and(|cause| cause.downcast_ref::<rustls::Error>().is_some())
        }
        _ => false,
    }
}

/// What to do about an error of the database.
fn advice(error: &sqlx::Error) -> &'static str {
    let code = error.as_database_error().and_then(DatabaseError::code);
    match (error, code.as_deref().unwrap_or_default()) {
        (sqlx::Error::PoolTimedOut, _) => "; check its address, and that it accepts connections",
        (error, _) if is_tls(error) => {
            "; check ca_files, and that the server's certificate has the name in database"
        }
        (_, "28000" | "28P01") => "; check the user in database, and password_file",
        (_, "3D000") => "; create the database",
        (_, "42501") => "; give the user the right to read and write the tables",
        (_, "53300") => "; allow more connections: each replica has up to five",
        _ => "",
    }
}

impl From<DiskError> for FleetError {
    fn from(error: DiskError) -> Self {
        Self::Store(error.into())
    }
}

impl FleetError {
    /// For `map_err` on statements.
    pub(super) fn sql(action: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::Database { action, source }
    }

    /// A short label for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Objects(_) | Self::Damaged { .. } | Self::Gone => "objects",
            Self::Fenced => "fenced",
            Self::Database { .. }
            | Self::Migrate(_)
            | Self::OtherFormat(_)
            | Self::NotTurned
            | Self::NoAnswer(_)
            | Self::Refused(_) => "fleet",
            Self::Store(_) => "store",
        }
    }

    /// Whether a start goes on without the database: it did not answer, and may later.
    pub fn is_temporary(&self) -> bool {
        match self {
            // An answer of the server is its decision, unless it starts or stops.
            Self::Database { source, .. } if is_tls(source) => false,
            Self::Database { source, .. } => source
                .as_database_error()
                .is_none_or(|error| error.code().is_some_and(|code| code.starts_with("57P"))),
            Self::Objects(error) => error.is_temporary(),
            Self::NoAnswer(_) => true,
            _ => false,
        }
    }
}
