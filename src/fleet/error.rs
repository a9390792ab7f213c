//! Errors of a fleet.

use std::fmt;

use sqlx::error::DatabaseError;
use sqlx::migrate::MigrateError;

use crate::objects::ObjectError;
use crate::store::{DiskError, RevisionId, StoreError};

/// What the replicas of a fleet share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The database.
    Database,
    /// The bucket.
    Bucket,
    /// The database or the bucket.
    Either,
}

impl Backend {
    /// The settings that name it.
    fn settings(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Bucket => "objects",
            Self::Either => "database and objects",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Database => "the database",
            Self::Bucket => "the bucket",
            Self::Either => "the database and the bucket",
        })
    }
}

/// The attempt to connect.
pub(super) const CONNECT: &str = "connect";

/// An error of what replicas share.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A statement failed.
    #[error("{}: {}{}", attempt(action, cause), told(cause), advice(cause))]
    Database {
        /// What was to be done.
        action: &'static str,
        /// Why it failed. It is no `source`, since the text already tells all of it.
        cause: sqlx::Error,
    },
    /// A request to the bucket failed.
    #[error(transparent)]
    Objects(#[from] ObjectError),
    /// This replica may not follow the catalog any more.
    #[error(
        "this replica has lost the lock of the catalog in the database, so it publishes nothing"
    )]
    Fenced,
    /// An object is not what its name says.
    #[error(
        "the object {key} is damaged: {problem}; a replica that has its bytes uploads it again, \
         else the next revision brings others"
    )]
    Damaged {
        /// Its key.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A file that is longer than the settings of this replica allow.
    #[error(
        "the file {file} of revision {revision} has {length} bytes, more than the {limit} that \
         catalog_bytes of [limits] allows here: raise it in the configuration of all replicas"
    )]
    TooLong {
        /// The revision.
        revision: RevisionId,
        /// The file.
        file: String,
        /// Its length, or what was read of it.
        length: u64,
        /// The longest allowed one.
        limit: u64,
    },
    /// An image that is larger than the settings of this replica allow.
    #[error(
        "the image of revision {revision} has {bytes} bytes, more than the {limit} that bytes of \
         [limits] allows here: raise it in the configuration of all replicas"
    )]
    ImageTooLarge {
        /// The revision.
        revision: RevisionId,
        /// The size of all parts.
        bytes: u64,
        /// The largest allowed one.
        limit: u64,
    },
    /// A row that is missing, or that this version cannot use.
    #[error(
        "a row of the table {0} is missing or cannot be used: the next revision of the catalog \
         brings others"
    )]
    Row(&'static str),
    /// The local copy cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database cannot be prepared.
    #[error("cannot prepare the database of the fleet: {0}")]
    Migrate(#[from] MigrateError),
    /// The database, or at a start perhaps the bucket, took too long.
    #[error(
        "no answer of {of} after {}; check {} in the configuration, and that it works",
        humantime::format_duration(*after), of.settings()
    )]
    NoAnswer {
        /// Who was asked.
        of: Backend,
        /// The time.
        after: std::time::Duration,
    },
    /// The database has lost what every replica needs.
    #[error(
        "the table fleet of the database has lost its row: restore the database, or begin with \
         an empty one and a new prefix of the bucket"
    )]
    NoFleet,
    /// A bucket without the mark of the fleet.
    #[error(
        "the bucket has no object `fleet`, so nothing is removed from it: check objects in the \
         configuration; a replica with the right place writes the object at its next start"
    )]
    Unmarked,
    /// The database of another fleet, such as a copy under the same address.
    #[error(
        "the database is of another fleet than the data folder of this replica: check database in \
         the configuration, or give the replica an empty data folder"
    )]
    OtherFleet,
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

/// What failed: without a connection, it is not the statement.
fn attempt(action: &str, error: &sqlx::Error) -> String {
    let code = error.as_database_error().and_then(DatabaseError::code);
    let is_refused = code.is_some_and(|code| {
        let refused = ["28", "3D", "53300", "57P03", "08P01"];
        refused.iter().any(|class| code.starts_with(class))
    });
    let is_silent = matches!(
        error,
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed
    );
    if is_silent && !is_tls(error) {
        "the database of the fleet does not answer".to_owned()
    } else if is_refused || is_tls(error) || action == CONNECT {
        "cannot connect to the database of the fleet".to_owned()
    } else {
        format!("cannot {action} in the database of the fleet")
    }
}

/// Whether there is no server at the address, or no such address. A name that is not known
/// has no kind of its own, so these are all errors but those of an open connection.
fn is_unreachable(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let of_connection = [
        BrokenPipe,
        ConnectionAborted,
        ConnectionReset,
        UnexpectedEof,
    ];
    !of_connection.contains(&error.kind())
}

/// An error without the line of the server's program, which readers take for one of theirs.
fn told(error: &sqlx::Error) -> String {
    match error.as_database_error() {
        Some(answer) => {
            let code = answer.code().unwrap_or_default();
            format!("{} ({code})", answer.message())
        }
        None => match error {
            sqlx::Error::Io(cause) => cause.to_string(),
            sqlx::Error::PoolTimedOut => "no connection in time".to_owned(),
            sqlx::Error::PoolClosed => "this replica stops".to_owned(),
            error => error.to_string(),
        },
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
        (sqlx::Error::Io(error), _) if is_unreachable(error) => {
            "; check its address, and that it runs"
        }
        (_, "28000" | "28P01") => "; check the user in database, and password_file",
        (_, "3D000") => "; create the database",
        (_, "3F000") => "; grant the user USAGE and CREATE on the schema public",
        (_, "42501") => "; give the user the right to read and write the tables",
        (_, "25006") => "; name the primary in database, not a copy of it",
        (_, "55P03") => {
            "; another session locks it, such as a dump: see pg_stat_activity, and run this again"
        }
        (_, "42704") => "; a fleet needs PostgreSQL 14 or later",
        (_, "08P01") => {
            "; connect to PostgreSQL itself and not to a pooler, which does not keep settings of \
             sessions"
        }
        (_, "53300") => "; allow more connections: each replica has two",
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
        move |cause| Self::Database { action, cause }
    }

    /// A short label for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Objects(_) | Self::Damaged { .. } => "objects",
            Self::Fenced => "fenced",
            Self::TooLong { .. } | Self::ImageTooLarge { .. } => "limit",
            Self::Database { .. }
            | Self::Migrate(_)
            | Self::Row(_)
            | Self::NoAnswer { .. }
            | Self::NoFleet
            | Self::OtherFleet
            | Self::Unmarked
            | Self::Refused(_) => "fleet",
            Self::Store(_) => "store",
        }
    }

    /// Whether the session goes on after it: the server has answered, and would answer other
    /// statements. Of one that became a copy of another, which takes no changes, nothing more
    /// is expected.
    pub(super) fn leaves_session(&self) -> bool {
        match self {
            Self::Database { cause, .. } => {
                let code = cause.as_database_error().and_then(DatabaseError::code);
                code.is_some_and(|code| code != "25006" && !code.starts_with("57P"))
            }
            Self::NoAnswer { .. } => false,
            _ => true,
        }
    }

    /// Whether it is of this replica: of its data folder, or of its way to the bucket.
    pub fn is_of_replica(&self) -> bool {
        matches!(
            self,
            Self::Objects(_) | Self::Damaged { .. } | Self::Store(_)
        )
    }

    /// Whether an object is not in the bucket as its row has it.
    pub fn is_lost(&self) -> bool {
        match self {
            Self::Damaged { .. } => true,
            Self::Objects(error) => error.is_missing(),
            _ => false,
        }
    }

    /// Whether a start goes on without the database: it did not answer, and may later.
    pub fn is_temporary(&self) -> bool {
        match self {
            // An answer of the server is its decision, unless it starts or stops, has no
            // room, or a pooler before it tells that it is away.
            Self::Database { cause, .. } if is_tls(cause) => false,
            Self::Database { cause, .. } => cause.as_database_error().is_none_or(|error| {
                let code = error.code().unwrap_or_default();
                let passing = ["08", "53", "57P", "58"];
                let is_passing = passing.iter().any(|class| code.starts_with(class));
                code.is_empty() || (is_passing && code != "08P01")
            }),
            Self::Objects(error) => error.is_temporary(),
            Self::NoAnswer { .. } | Self::Fenced => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::fmt;

    use sqlx::error::ErrorKind;

    use super::*;

    /// An answer of the server with this code.
    #[derive(Debug)]
    struct Answer(&'static str);

    impl fmt::Display for Answer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("refused")
        }
    }

    impl std::error::Error for Answer {}

    impl DatabaseError for Answer {
        fn message(&self) -> &'static str {
            "refused"
        }

        fn code(&self) -> Option<Cow<'_, str>> {
            Some(self.0.into())
        }

        fn as_error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
            self
        }

        fn as_error_mut(&mut self) -> &mut (dyn std::error::Error + Send + Sync + 'static) {
            self
        }

        fn into_error(self: Box<Self>) -> Box<dyn std::error::Error + Send + Sync + 'static> {
            self
        }

        fn kind(&self) -> ErrorKind {
            ErrorKind::Other
        }
    }

    #[test]
    fn only_a_server_that_cannot_be_reached_is_looked_for() {
        use std::io::ErrorKind::{ConnectionRefused, ConnectionReset, Other, TimedOut};
        for (kind, is_advised) in [
            (ConnectionRefused, true),
            // A name that is not known has a kind that is not stable.
            (Other, true),
            (TimedOut, true),
            (ConnectionReset, false),
        ] {
            let error = sqlx::Error::Io(kind.into());
            let is_found = advice(&error).contains("check its address");
            assert_eq!(is_found, is_advised, "{kind}");
        }
    }

    #[test]
    fn a_database_that_does_not_answer_is_told_apart_from_a_statement_that_fails() {
        let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let answer = |code| sqlx::Error::Database(Box::new(Answer(code)));
        for (cause, told) in [
            (
                sqlx::Error::Io(refused()),
                "the database of the fleet does not answer: connection refused",
            ),
            (
                answer("28P01"),
                "cannot connect to the database of the fleet: refused (28P01); check",
            ),
            (
                answer("42501"),
                "cannot record the catalogs in the database of the fleet: refused (42501); give",
            ),
        ] {
            let error = FleetError::sql("record the catalogs")(cause);
            let chain = crate::error_chain::error_chain(&error);
            assert!(chain.starts_with(told), "{chain}");
            // The reason comes once.
            assert_eq!(chain.matches("refused").count(), 1, "{chain}");
        }
    }

    #[test]
    fn a_start_goes_on_without_a_database_that_has_no_room_and_not_against_its_decision() {
        for (code, is_temporary) in [
            ("53300", true),
            ("57P03", true),
            ("58000", true),
            ("08006", true),
            ("28P01", false),
            ("3D000", false),
            ("42501", false),
            ("25006", false),
        ] {
            let source = sqlx::Error::Database(Box::new(Answer(code)));
            let error = FleetError::sql("connect")(source);
            assert_eq!(error.is_temporary(), is_temporary, "{code}: {error}");
        }
    }
}
