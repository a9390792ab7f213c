//! Catalogs as SQLite databases, as they were before they were files. Such a
//! database comes from outside: it is only read, nothing in it is executed,
//! and size, rows and time are bounded. What its rows mean is said in
//! `fbc::legacy`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};

use fbc::sqlite::{
    EdgeRow, LegacyBundle, LegacyEntry, LegacyPackage, Manifests, entries, write_bundle,
    write_package,
};

/// The tables that are read, and the columns that they must have.
const TABLES: [(&str, &[&str]); 7] = [
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
/// How much all texts but manifests may have together, in bytes.
const MAX_TEXTS: usize = 256 << 20;
/// The longest time for all of it.
const LONGEST: Duration = Duration::from_mins(5);
/// After how many steps of SQLite's machine the time is looked at.
const STEPS: i32 = 100_000;

/// Why a database is not taken.
#[derive(Debug, thiserror::Error)]
pub enum LegacyError {
    /// It cannot be read.
    #[error("the database cannot be read ({doing}): {source}")]
    Sql {
        /// What was being done.
        doing: &'static str,
        /// Why not.
        source: sqlx::Error,
    },
    /// It does not have the tables of a catalog.
    #[error(
        "the database is no catalog that can be read: {0}; \
         an opm that is too old may have made it"
    )]
    Shape(String),
    /// There is more in it than is taken.
    #[error("the database has too much: {what}; the limit is {limit}")]
    Limit {
        /// What there is too much of.
        what: String,
        /// How much there may be.
        limit: u64,
    },
    /// It took too long.
    #[error(
        "the database was not read within {}",
        humantime::format_duration(LONGEST)
    )]
    Timeout,
    /// Manifests that cannot be read.
    #[error("the manifests of the bundle {name:?} are no JSON: {problem}")]
    Manifests {
        /// The bundle.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// What was read could not be written.
    #[error("cannot write a temporary file: {0}")]
    Write(#[from] std::io::Error),
}

impl LegacyError {
    /// Whether there was too much of something.
    pub fn is_limit(&self) -> bool {
        matches!(self, Self::Limit { .. } | Self::Timeout)
    }
}

/// Reads the database at `path`, to which nobody may write meanwhile. The text
/// of each package (its blobs as lines of JSON) goes to `sink` in pieces,
/// packages by name.
pub async fn read_legacy(
    path: &Path,
    sink: impl FnMut(&str, &[u8]) -> std::io::Result<()> + Send,
) -> Result<(), LegacyError> {
    let deadline = Instant::now() + LONGEST;
    let mut database = Database::open(path, deadline).await?;
    let read = database.read(sink).await;
    // Nothing was written that could be lost.
    let _ = database.connection.close().await;
    match read {
        Err(LegacyError::Sql { .. }) if Instant::now() >= deadline => Err(LegacyError::Timeout),
        read => read,
    }
}

struct Database {
    connection: SqliteConnection,
    /// When reading has to be over.
    deadline: Instant,
    /// How much was read of texts, in bytes.
    texts: usize,
}

/// A row of a bundle, without its manifests.
struct BundleRow {
    row: i64,
    version: String,
    image: String,
    skip_range: String,
}

/// Values by the name of their bundle.
type ByBundle<T> = HashMap<String, Vec<T>>;

impl Database {
    async fn open(path: &Path, deadline: Instant) -> Result<Self, LegacyError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .read_only(true)
            .immutable(true)
            .pragma("query_only", "ON")
            // Nothing that the schema calls runs, and no page is believed.
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

    /// Refuses what is no plain table, and values that are too long.
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
            let definition = definition.unwrap_or_default().to_ascii_lowercase();
            let plain = kind == "table" && definition.trim_start().starts_with("create table");
            if !plain {
                return Err(LegacyError::Shape(format!("{table:?} is no plain table")));
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

    async fn read(
        &mut self,
        mut sink: impl FnMut(&str, &[u8]) -> std::io::Result<()> + Send,
    ) -> Result<(), LegacyError> {
        let bundles = self.bundles().await?;
        let properties = self.pairs("properties").await?;
        let dependencies = self.pairs("dependencies").await?;
        let images = self.images().await?;
        let (packages, heads) = self.packages(&bundles).await?;
        for package in packages.values() {
            self.check_time()?;
            let mut out = Vec::new();
            let head = heads.get(&(package.name.clone(), package.default_channel.clone()));
            let head = head.and_then(|name| Some((name, bundles.get(name)?)));
            let (head, text) = match head {
                Some((name, row)) => (name.as_str(), self.manifests(row.row).await?),
                None => ("", String::new()),
            };
            let head = Manifests::read(&text).map_err(manifests(head))?;
            write_package(package, &head, &mut out);
            sink(&package.name, &out)?;
            let entries = package.channels.values().flatten();
            let names: BTreeSet<&str> = entries.map(|entry| entry.name.as_str()).collect();
            for name in names {
                let Some(row) = bundles.get(name) else {
                    continue;
                };
                self.check_time()?;
                let text = self.manifests(row.row).await?;
                let bundle = LegacyBundle {
                    name,
                    package: &package.name,
                    image: &row.image,
                    version: &row.version,
                    manifests: &text,
                    properties: properties.get(name).map_or(&[], Vec::as_slice),
                    dependencies: dependencies.get(name).map_or(&[], Vec::as_slice),
                    related_images: images.get(name).map_or(&[], Vec::as_slice),
                };
                out.clear();
                write_bundle(&bundle, &mut out).map_err(manifests(name))?;
                sink(&package.name, &out)?;
            }
        }
        Ok(())
    }

    /// What is done with rows takes longer than having them.
    fn check_time(&self) -> Result<(), LegacyError> {
        if Instant::now() < self.deadline {
            Ok(())
        } else {
            Err(LegacyError::Timeout)
        }
    }

    /// Bundles by name. Ones without a version or image are stubs of what was
    /// deprecated, and count as not there.
    async fn bundles(&mut self) -> Result<HashMap<String, BundleRow>, LegacyError> {
        let mut bundles = HashMap::new();
        let query = "SELECT CAST(name AS TEXT), CAST(version AS TEXT), CAST(bundlepath AS TEXT),
                       CAST(skiprange AS TEXT), rowid
                     FROM operatorbundle";
        self.rows(BUNDLES, query, 4, |mut texts, row| {
            let mut take = |at: usize| std::mem::take(&mut texts[at]);
            let (Some(name), Some(version), Some(image)) = (take(0), take(1), take(2)) else {
                return Ok(());
            };
            bundles.entry(name).or_insert(BundleRow {
                row: row.try_get(4)?,
                version,
                image,
                skip_range: take(3).unwrap_or_default(),
            });
            Ok(())
        })
        .await?;
        Ok(bundles)
    }

    /// Types and values of properties or dependencies.
    async fn pairs(
        &mut self,
        table: &'static str,
    ) -> Result<ByBundle<(String, String)>, LegacyError> {
        let mut pairs: ByBundle<(String, String)> = HashMap::new();
        let query = format!(
            "SELECT CAST(operatorbundle_name AS TEXT), CAST(type AS TEXT), CAST(value AS TEXT)
             FROM {table}"
        );
        self.rows(table, &query, 3, |texts, _| {
            if let Ok([Some(bundle), Some(kind), Some(value)]) = <[_; 3]>::try_from(texts) {
                pairs.entry(bundle).or_default().push((kind, value));
            }
            Ok(())
        })
        .await?;
        Ok(pairs)
    }

    async fn images(&mut self) -> Result<ByBundle<String>, LegacyError> {
        let mut images: ByBundle<String> = HashMap::new();
        let query =
            "SELECT CAST(operatorbundle_name AS TEXT), CAST(image AS TEXT) FROM related_image";
        self.rows("related_image", query, 2, |texts, _| {
            if let Ok([Some(bundle), Some(image)]) = <[_; 2]>::try_from(texts) {
                images.entry(bundle).or_default().push(image);
            }
            Ok(())
        })
        .await?;
        Ok(images)
    }

    /// The packages by name, and the heads of their channels.
    async fn packages(
        &mut self,
        bundles: &HashMap<String, BundleRow>,
    ) -> Result<(BTreeMap<String, LegacyPackage>, Heads), LegacyError> {
        let mut packages = BTreeMap::new();
        let query = "SELECT CAST(name AS TEXT), CAST(default_channel AS TEXT) FROM package";
        self.rows("package", query, 2, |texts, _| {
            if let Ok([Some(name), default]) = <[_; 2]>::try_from(texts) {
                let package = LegacyPackage {
                    name: name.clone(),
                    default_channel: default.unwrap_or_default(),
                    channels: BTreeMap::new(),
                };
                packages.entry(name).or_insert(package);
            }
            Ok(())
        })
        .await?;
        let mut heads = Heads::new();
        let query = "SELECT CAST(package_name AS TEXT), CAST(name AS TEXT),
                       CAST(head_operatorbundle_name AS TEXT) FROM channel";
        self.rows("channel", query, 3, |texts, _| {
            if let Ok([Some(package), Some(channel), head]) = <[_; 3]>::try_from(texts)
                && let Some(found) = packages.get_mut(&package)
            {
                found.channels.entry(channel.clone()).or_default();
                if let Some(head) = head {
                    heads.insert((package, channel), head);
                }
            }
            Ok(())
        })
        .await?;
        let rows = self.edges().await?;
        for ((package, channel), found) in entries(&rows) {
            let package = packages.get_mut(package);
            let Some(channel) = package.and_then(|package| package.channels.get_mut(channel))
            else {
                continue;
            };
            channel.extend(found.into_iter().filter_map(|(name, edges)| {
                Some(LegacyEntry {
                    name: name.to_owned(),
                    edges,
                    skip_range: bundles.get(name)?.skip_range.clone(),
                })
            }));
        }
        Ok((packages, heads))
    }

    async fn edges(&mut self) -> Result<Vec<EdgeRow>, LegacyError> {
        let mut edges = Vec::new();
        let query = "SELECT CAST(package_name AS TEXT), CAST(channel_name AS TEXT),
                       CAST(operatorbundle_name AS TEXT), CAST(entry_id AS INTEGER),
                       CAST(replaces AS INTEGER), CAST(depth AS INTEGER)
                     FROM channel_entry";
        self.rows("channel_entry", query, 3, |texts, row| {
            if let Ok([Some(package), Some(channel), Some(name)]) = <[_; 3]>::try_from(texts)
                && let Some(id) = row.try_get(3)?
            {
                edges.push(EdgeRow {
                    id,
                    of: (package, channel, name),
                    replaces: row.try_get(4)?,
                    depth: row.try_get(5)?,
                });
            }
            Ok(())
        })
        .await?;
        Ok(edges)
    }

    /// Goes over the rows of a query, whose first columns are so many texts.
    async fn rows(
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

    async fn manifests(&mut self, row: i64) -> Result<String, LegacyError> {
        let text: Option<Option<String>> =
            sqlx::query_scalar("SELECT CAST(bundle AS TEXT) FROM operatorbundle WHERE rowid = ?")
                .bind(row)
                .fetch_optional(&mut self.connection)
                .await
                .map_err(sql("reading manifests"))?;
        Ok(text.flatten().unwrap_or_default())
    }
}

/// The heads of channels, by package and channel.
type Heads = HashMap<(String, String), String>;

fn sql(doing: &'static str) -> impl Fn(sqlx::Error) -> LegacyError + Copy {
    move |source| LegacyError::Sql { doing, source }
}

fn manifests(name: &str) -> impl Fn(String) -> LegacyError {
    move |problem| LegacyError::Manifests {
        name: name.chars().take(200).collect(),
        problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_database_is_read_for_so_long_whatever_takes_the_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index.db");
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(true);
        let mut connection = options.connect().await.unwrap();
        for (table, columns) in TABLES {
            let query = format!("CREATE TABLE {table} ({})", columns.join(", "));
            sqlx::query(AssertSqlSafe(query))
                .execute(&mut connection)
                .await
                .unwrap();
        }
        sqlx::query("INSERT INTO package VALUES ('a', 'stable')")
            .execute(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();

        let later = Instant::now() + LONGEST;
        let mut database = Database::open(&path, later).await.unwrap();
        let mut packages = 0;
        let mut count = |_: &str, _: &[u8]| {
            packages += 1;
            Ok(())
        };
        database.read(&mut count).await.unwrap();
        database.deadline = Instant::now();
        let read = database.read(&mut count).await;
        assert!(matches!(read, Err(LegacyError::Timeout)), "{read:?}");
        assert_eq!(packages, 1);
    }
}
