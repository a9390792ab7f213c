//! Opens a database, checks its tables, and reads rows within the limits.
//! Anything else is an error that says why the database is refused.

use std::path::Path;
use std::time::{Duration, Instant};

use fbc::text::display::clip;
use futures_util::TryStreamExt as _;
use sqlx::error::DatabaseError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _};

/// The tables that are read, and the columns that they must have.
pub(super) const TABLES: [(&str, &[&str]); 7] = [
    ("package", &["name", "default_channel"]),
    (
        "channel",
        &["package_name", "name", "head_operatorbundle_name"],
    ),
    (
        "channel_entry",
        &[
            "entry_id",
            "package_name",
            "channel_name",
            "operatorbundle_name",
            "replaces",
            "depth",
        ],
    ),
    ("properties", &["operatorbundle_name", "type", "value"]),
    ("dependencies", &["operatorbundle_name", "type", "value"]),
    ("related_image", &["operatorbundle_name", "image"]),
    (
        BUNDLES,
        &["name", "version", "bundlepath", "skiprange", "bundle"],
    ),
];
const BUNDLES: &str = "operatorbundle";
/// The most rows of a table.
const MAX_ROWS: usize = 1_000_000;
/// The longest text in a row, and the longest manifests of a bundle, in bytes.
const MAX_TEXT: i64 = 4 << 20;
const MAX_MANIFESTS: i64 = 16 << 20;
/// The most bytes of all texts together, manifests left out.
const MAX_TEXTS: usize = 256 << 20;
/// Steps of SQLite's machine between two checks of the time.
const STEPS: i32 = 100_000;

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
        "the database is not a catalog that can be read: {0}; \
         an opm that is too old may have made it"
    )]
    Shape(String),
    /// It has more than the limits allow.
    #[error("the database has too much: {what}; the limit is {limit}")]
    Limit {
        /// The measure that exceeds its limit.
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
    #[error("the manifests of the bundle {name:?} are not JSON: {problem}")]
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
    /// Whether the database itself is the cause, and not this machine.
    pub fn is_of_content(&self) -> bool {
        match self {
            Self::Shape(_) | Self::Limit { .. } | Self::Manifests { .. } => true,
            // SQLITE_CORRUPT and SQLITE_NOTADB.
            Self::Sql { source, .. } => {
                let code = source.as_database_error().and_then(DatabaseError::code);
                code.is_some_and(|code| matches!(&*code, "11" | "26"))
            }
            Self::Timeout | Self::Write(_) => false,
        }
    }

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
        name: clip(name, 200),
        problem,
    }
}

/// A database that is being read.
pub(super) struct Database {
    pub(super) connection: SqliteConnection,
    /// The time limit.
    pub(super) deadline: Instant,
    /// Bytes of texts so far.
    texts: usize,
}

impl Database {
    pub(super) async fn open(path: &Path, deadline: Instant) -> Result<Self, LegacyError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .read_only(true)
            .immutable(true)
            .pragma("query_only", "ON")
            // The schema cannot call functions, and each page is verified.
            .pragma("trusted_schema", "OFF")
            .pragma("cell_size_check", "ON")
            .pragma("mmap_size", "0")
            .pragma("cache_size", "-8192");
        let failed = sql("opening it");
        let mut connection = options.connect().await.map_err(failed)?;
        let mut handle = connection.lock_handle().await.map_err(sql("locking it"))?;
        handle.set_progress_handler(STEPS, move || Instant::now() < deadline);
        drop(handle);
        let mut database = Self {
            connection,
            deadline,
            texts: 0,
        };
        database.check().await?;
        Ok(database)
    }

    /// Refuses views and virtual tables, and values that are too long.
    async fn check(&mut self) -> Result<(), LegacyError> {
        for (table, columns) in TABLES {
            let found: Option<(String, Option<String>)> =
                sqlx::query_as("SELECT type, sql FROM sqlite_schema WHERE name = ? LIMIT 1")
                    .bind(table)
                    .fetch_optional(&mut self.connection)
                    .await
                    .map_err(sql("looking at its tables"))?;
            let missing = || LegacyError::Shape(format!("there is no table {table:?}"));
            let (kind, definition) = found.ok_or_else(missing)?;
            // An automatic index has no definition: it is no plain table.
            let definition = definition.unwrap_or_default().to_ascii_lowercase();
            let plain = kind == "table" && definition.trim_start().starts_with("create table");
            if !plain {
                return Err(LegacyError::Shape(format!(
                    "{table:?} is not a plain table"
                )));
            }
            let known: Vec<(String, i64)> =
                sqlx::query_as("SELECT name, hidden FROM pragma_table_xinfo(?)")
                    .bind(table)
                    .fetch_all(&mut self.connection)
                    .await
                    .map_err(sql("looking at its columns"))?;
            if known.iter().any(|(_, hidden)| *hidden != 0) {
                let computed = format!("{table:?} has a column that is computed");
                return Err(LegacyError::Shape(computed));
            }
            for &column in columns {
                if !known.iter().any(|(name, _)| name == column) {
                    let problem = format!("{table:?} has no column {column:?}");
                    return Err(LegacyError::Shape(problem));
                }
                let query = format!("SELECT max(octet_length({column})) FROM {table}");
                let longest: Option<i64> = sqlx::query_scalar(AssertSqlSafe(query))
                    .fetch_one(&mut self.connection)
                    .await
                    .map_err(sql("measuring it"))?;
                let limit = match (table, column) {
                    (BUNDLES, "bundle") => MAX_MANIFESTS,
                    _ => MAX_TEXT,
                };
                if longest.is_some_and(|longest| longest > limit) {
                    return Err(LegacyError::Limit {
                        what: format!("the longest {column:?} of {table:?}, in bytes"),
                        limit: limit.unsigned_abs(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Fails after the time limit: converting rows takes longer than reading
    /// them.
    pub(super) fn check_time(&self) -> Result<(), LegacyError> {
        if Instant::now() < self.deadline {
            Ok(())
        } else {
            Err(LegacyError::Timeout)
        }
    }

    /// Reads the rows of a query; its first `columns` columns are texts.
    pub(super) async fn rows(
        &mut self,
        table: &'static str,
        query: &str,
        columns: usize,
        mut take: impl FnMut(Vec<Option<String>>, &SqliteRow) -> sqlx::Result<()>,
    ) -> Result<(), LegacyError> {
        let failed = sql("reading its rows");
        let limit = |what: String, limit: usize| LegacyError::Limit {
            what,
            limit: limit as u64,
        };
        let query = AssertSqlSafe(query.to_owned());
        let mut rows = sqlx::query(query).fetch(&mut self.connection);
        let mut count = 0;
        while let Some(row) = rows.try_next().await.map_err(failed)? {
            count += 1;
            if count > MAX_ROWS {
                return Err(limit(format!("the rows of {table:?}"), MAX_ROWS));
            }
            let texts: sqlx::Result<Vec<Option<String>>> =
                (0..columns).map(|column| row.try_get(column)).collect();
            let texts = texts.map_err(failed)?;
            self.texts += texts.iter().flatten().map(String::len).sum::<usize>();
            if self.texts > MAX_TEXTS {
                return Err(limit("the texts of all rows, in bytes".into(), MAX_TEXTS));
            }
            take(texts, &row).map_err(failed)?;
        }
        Ok(())
    }
}
