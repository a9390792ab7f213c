//! Reasons to refuse a database.

use std::time::Duration;

/// The longest time for reading one.
pub(super) const LONGEST: Duration = Duration::from_mins(5);

/// Why a database is refused.
#[derive(Debug, thiserror::Error)]
pub enum LegacyError {
    /// It cannot be read.
    #[error("the database cannot be read ({doing}): {source}")]
    Sql {
        /// The step.
        doing: &'static str,
        /// Why it failed.
        source: sqlx::Error,
    },
    /// It does not have the tables of a catalog.
    #[error(
        "the database is no catalog that can be read: {0}; \
         an opm that is too old may have made it"
    )]
    Shape(String),
    /// It has more than the limits allow.
    #[error("the database has too much: {what}; the limit is {limit}")]
    Limit {
        /// What exceeds the limit.
        what: String,
        /// The limit.
        limit: u64,
    },
    /// It took too long.
    #[error(
        "the database was not read within {}",
        humantime::format_duration(LONGEST)
    )]
    Timeout,
    /// The manifests of a bundle cannot be read.
    #[error("the manifests of the bundle {name:?} are no JSON: {problem}")]
    Manifests {
        /// The bundle.
        name: String,
        /// Why they cannot be read.
        problem: String,
    },
    /// The result could not be written.
    #[error("cannot write a temporary file: {0}")]
    Write(#[from] std::io::Error),
}

impl LegacyError {
    /// Whether a limit was exceeded.
    pub fn is_limit(&self) -> bool {
        matches!(self, Self::Limit { .. } | Self::Timeout)
    }
}

/// For `map_err` on statements.
pub(super) fn sql(doing: &'static str) -> impl Fn(sqlx::Error) -> LegacyError + Copy {
    move |source| LegacyError::Sql { doing, source }
}

/// For `map_err` on the manifests of a bundle.
pub(super) fn manifests(name: &str) -> impl Fn(String) -> LegacyError {
    move |problem| LegacyError::Manifests {
        name: name.chars().take(200).collect(),
        problem,
    }
}
