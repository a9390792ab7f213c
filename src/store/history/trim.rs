//! Removes what is beyond the limits of the history.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use crate::name::CatalogName;
use crate::store::file_io::{DiskError, blocking};
use crate::store::history::KeptHistory;
use crate::store::revision::OutlineName;
use crate::store::sql::{self, seconds, signed};
use crate::store::{Store, StoreError};
use ::images::digest::Digest;

/// An outline without a row may belong to a commit that is not done yet.
const SPARED: Duration = Duration::from_hours(1);
/// How long outlines without a row stay at a start. After the loss of a database,
/// they are all that is left of the history.
const KEPT_ASIDE: Duration = Duration::from_hours(30 * 24);
const DAY: i64 = 24 * 60 * 60;

impl Store {
    /// Removes what is beyond the limits from a catalog's history.
    pub async fn trim_history(
        &self,
        catalog: &CatalogName,
        kept: KeptHistory,
    ) -> Result<(), StoreError> {
        let query = sqlx::query(
            "SELECT revision, committed FROM history WHERE catalog = ? ORDER BY revision DESC",
        );
        let query = query.bind(catalog.as_str());
        let rows = sql::all(&self.pool, "read the history", query).await?;
        let rows = rows.iter().map(|row| (row.get(0), row.get(1)));
        let superfluous = superfluous(rows, kept, seconds(SystemTime::now()));
        if superfluous.is_empty() {
            return Ok(());
        }
        let outlines = self.outlines_of(catalog).await?;
        for revision in &superfluous {
            let statement = sqlx::query("DELETE FROM history WHERE revision = ?").bind(revision);
            sql::execute(&self.pool, "trim the history", statement).await?;
        }
        self.remove_outlines(outlines, SPARED).await
    }

    /// The files of the outlines of a catalog.
    pub(crate) async fn outlines_of(
        &self,
        catalog: &CatalogName,
    ) -> Result<HashSet<PathBuf>, StoreError> {
        let query = sqlx::query("SELECT DISTINCT content, digest FROM history WHERE catalog = ?");
        self.outlines(query.bind(catalog.as_str())).await
    }

    /// Removes those of these outlines that no row names any more, the younger ones by a
    /// later call. Other outlines without a row stay: after the loss of a database they
    /// are the whole history.
    pub(crate) async fn remove_outlines(
        &self,
        mut outlines: HashSet<PathBuf>,
        spared: Duration,
    ) -> Result<(), StoreError> {
        outlines.extend(self.young_outlines.lock().iter().cloned());
        let sweeping = self.sweep_some(spared, move |path| outlines.contains(path));
        let young = sweeping.await?;
        *self.young_outlines.lock() = young;
        Ok(())
    }

    /// Removes outlines that were too young when their history was trimmed.
    pub async fn trim_outlines(&self) -> Result<(), StoreError> {
        if self.young_outlines.lock().is_empty() {
            return Ok(());
        }
        self.remove_outlines(HashSet::new(), SPARED).await
    }

    /// Removes outlines without a row that are older than [`KEPT_ASIDE`].
    pub(crate) async fn sweep_outlines(&self) -> Result<(), StoreError> {
        self.sweep_some(KEPT_ASIDE, |_| true).await.map(drop)
    }

    /// Removes outlines without a row that are older than `spared` and `superfluous`.
    /// Returns the younger ones.
    async fn sweep_some(
        &self,
        spared: Duration,
        superfluous: impl Fn(&Path) -> bool + Send + 'static,
    ) -> Result<HashSet<PathBuf>, StoreError> {
        let query = sqlx::query("SELECT DISTINCT content, digest FROM history");
        let known = self.outlines(query).await?;
        let folder = self.history().folder.to_path_buf();
        let swept = blocking("read", folder, move |folder| {
            sweep(folder, spared, |path| {
                !known.contains(path) && superfluous(path)
            })
        });
        Ok(swept.await?)
    }

    /// The files of the outlines that a query names.
    async fn outlines(&self, query: sql::Statement<'_>) -> Result<HashSet<PathBuf>, StoreError> {
        let rows = sql::all(&self.pool, "read the history", query).await?;
        let digest = |row: &SqliteRow, column| row.get::<&str, _>(column).parse::<Digest>().ok();
        let names = rows.iter().filter_map(|row| {
            Some(OutlineName {
                content: digest(row, "content")?,
                source: digest(row, "digest")?,
            })
        });
        let history = self.history();
        Ok(names.flat_map(|name| history.paths(&name)).collect())
    }
}

/// The revisions that are neither among the last ones, nor the last of a kept day.
/// `rows` are numbers and dates, the newest first.
fn superfluous(rows: impl Iterator<Item = (i64, i64)>, kept: KeptHistory, now: i64) -> Vec<i64> {
    let oldest = now.saturating_sub(signed(kept.days as u64).saturating_mul(DAY));
    let mut day = None;
    let mut superfluous = Vec::new();
    for (number, (revision, committed)) in rows.enumerate() {
        let of = committed.div_euclid(DAY);
        let is_last_of_day = day.replace(of) != Some(of);
        let keeps_day = is_last_of_day && committed >= oldest;
        if number >= kept.revisions.max(1) && !keeps_day {
            superfluous.push(revision);
        }
    }
    superfluous
}

fn sweep(
    folder: &Path,
    spared: Duration,
    superfluous: impl Fn(&Path) -> bool,
) -> Result<HashSet<PathBuf>, DiskError> {
    let mut young = HashSet::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(young),
        entries => entries.map_err(DiskError::at("read", folder))?,
    };
    for entry in entries {
        let path = entry.map_err(DiskError::at("read", folder))?.path();
        let modified = fs::metadata(&path).and_then(|metadata| metadata.modified());
        let age = modified.map_or(Duration::ZERO, |date| date.elapsed().unwrap_or_default());
        if !superfluous(&path) {
            continue;
        }
        if age >= spared {
            fs::remove_file(&path).map_err(DiskError::at("remove", &path))?;
        } else {
            young.insert(path);
        }
    }
    Ok(young)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::outline::Outline;

    #[test]
    fn the_last_revisions_and_the_last_of_each_day_are_kept() {
        let kept = KeptHistory {
            revisions: 2,
            days: 3,
        };
        let now = 10 * DAY + 100;
        let rows = [
            (9, now),
            (8, now - 10),
            (7, now - 20),
            (6, 9 * DAY + 50),
            (5, 9 * DAY + 40),
            (4, 8 * DAY + 1),
            (3, 7 * DAY + 99),
            (2, 6 * DAY),
            (1, 0),
        ];
        assert_eq!(superfluous(rows.into_iter(), kept, now), [7, 5, 3, 2, 1]);
    }

    /// Nobody may publish for a long time after a revision that was trimmed at once.
    #[tokio::test]
    async fn an_outline_that_was_too_young_is_removed_later() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).await.unwrap();
        let (catalog, content): (CatalogName, _) = ("a".parse().unwrap(), Digest::of(b"1"));
        let name = OutlineName {
            content,
            source: content,
        };
        let encoded = crate::store::history::encode_outline(&Outline::default()).unwrap();
        store.keep_outline(&name, &encoded).unwrap();
        for statement in [
            "INSERT INTO catalogs (name) VALUES ('a')".to_owned(),
            format!(
                "INSERT INTO history (revision, catalog, source, digest, content, committed,
                   packages, channels, entries, bundles, quarantined)
                 VALUES (1, 'a', '', '{content}', '{content}', 0, 0, 0, 0, 0, 0),
                        (2, 'a', '', '', '', 0, 0, 0, 0, 0, 0)"
            ),
        ] {
            let statement = sqlx::query(sqlx::AssertSqlSafe(statement));
            sql::execute(&store.pool, "test", statement).await.unwrap();
        }
        let kept = KeptHistory {
            revisions: 1,
            days: 0,
        };
        store.trim_history(&catalog, kept).await.unwrap();
        let path = store.history().path(&name);
        assert!(path.exists(), "a commit may need it");
        store.trim_outlines().await.unwrap();
        assert!(path.exists(), "it is still young");
        let date = SystemTime::now() - SPARED - Duration::from_secs(1);
        fs::File::open(&path).unwrap().set_modified(date).unwrap();
        store.trim_outlines().await.unwrap();
        assert!(!path.exists());
    }
}
