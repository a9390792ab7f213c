//! The history: every revision that was published, with its outline and what it
//! changed. It outlives the files of the revisions.
//!
//! Outlines are files named after the content, so that a content that comes back
//! needs no second one. They are written before the rows that name them.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, Sqlite, SqliteExecutor, SqlitePool, Transaction};

use crate::answers::changes::{Change, Kind, changes, counts};
use crate::answers::outline::{OUTLINE_FORMAT, Outline};
use crate::name::CatalogName;
use crate::store::disk::{DiskError, blocking, protect, sync_folder};
use crate::store::record::Record;
use crate::store::revision::{Counts, RevisionId};
use crate::store::sql::{self, seconds, signed, time};
use crate::store::{Damage, Store, StoreError};
use ::images::digest::Digest;

/// The folder of the outlines.
pub(super) const OUTLINES: &str = "outlines";
/// How many changes of a revision are stored beside it. All of them follow from the
/// outlines.
pub const MAX_CHANGES: usize = 100;
/// The largest outline that is read, in bytes.
const MAX_OUTLINE: u64 = 256 << 20;
/// An outline without a row may belong to a commit that is not done yet.
const SPARED: Duration = Duration::from_hours(1);
const DAY: i64 = 24 * 60 * 60;

/// How much of the history is kept, by catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptHistory {
    /// The last revisions; one at least.
    pub revisions: usize,
    /// Before these, the last revision of each of so many days.
    pub days: usize,
}

impl Default for KeptHistory {
    fn default() -> Self {
        Self {
            revisions: 200,
            days: 365,
        }
    }
}

/// A revision that was published.
#[derive(Clone, Debug)]
pub struct HistoryEntry {
    /// Its number.
    pub revision: RevisionId,
    /// The digest that the source was at.
    pub digest: Digest,
    /// The digest of its content.
    pub content: Digest,
    /// When it was committed.
    pub committed: SystemTime,
    /// Its size; metas are not counted.
    pub counts: Counts,
    /// The revision that its changes are counted from.
    pub before: Option<RevisionId>,
    /// The number of its changes; `None` for the first one.
    pub changed: Option<u64>,
    /// Its changes, where they were requested.
    pub changes: Option<RecordedChanges>,
}

/// What a revision changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedChanges {
    /// The number of changes by kind.
    pub counts: BTreeMap<Kind, usize>,
    /// The first [`MAX_CHANGES`] of them.
    pub first: Vec<Change>,
}

impl RecordedChanges {
    /// The number of changes.
    pub fn total(&self) -> usize {
        self.counts.values().sum()
    }
}

/// An outline that is ready to be committed.
pub(super) struct PreparedOutline {
    /// The content of its file.
    file: Vec<u8>,
    changes: Option<RecordedChanges>,
}

/// Reads the history. Cheap to clone.
#[derive(Clone, Debug)]
pub struct History {
    pool: SqlitePool,
    folder: Arc<Path>,
}

impl Store {
    /// Reads the history.
    pub fn history(&self) -> History {
        History {
            pool: self.pool.clone(),
            folder: self.folder.join(OUTLINES).into(),
        }
    }

    /// Encodes an outline, and compares it with the catalog's last one.
    pub(super) async fn prepare_outline(
        &self,
        catalog: &CatalogName,
        outline: Outline,
    ) -> Result<PreparedOutline, StoreError> {
        let history = self.history();
        let last = history.newest(catalog).await?;
        let path = history.folder.to_path_buf();
        let prepared = blocking("write in", path, move |folder| {
            let previous = last.and_then(|last| read_outline(&history.path(&last.content)));
            let encoded = encode(&outline).map_err(DiskError::at("write in", folder))?;
            let changes = previous.map(|previous| {
                let mut first = changes(&previous, &outline);
                let counts = counts(&first);
                first.truncate(MAX_CHANGES);
                RecordedChanges { counts, first }
            });
            Ok(PreparedOutline {
                file: encoded,
                changes,
            })
        });
        Ok(prepared.await?)
    }

    /// Writes the file and the row of an outline. A revision that was only rebuilt
    /// takes the place of the one before.
    pub(super) async fn insert_history(
        &self,
        transaction: &mut Transaction<'_, Sqlite>,
        id: RevisionId,
        record: &Record<'_>,
        prepared: PreparedOutline,
    ) -> Result<(), StoreError> {
        let path = self.history().path(&record.content);
        let PreparedOutline { file, changes } = prepared;
        blocking("write", path, move |path| write_outline(path, &file)).await?;
        let catalog = record.catalog.as_str();
        let query = sqlx::query(
            "SELECT revision, source, digest, content FROM history
             WHERE catalog = ? ORDER BY revision DESC LIMIT 1",
        );
        let last = sql::first(
            &mut **transaction,
            "look up the history",
            query.bind(catalog),
        );
        let last = last.await?;
        if let Some(last) = &last
            && last.get::<&str, _>("source") == record.identity.source
            && last.get::<&str, _>("digest") == record.digest.to_string()
            && last.get::<&str, _>("content") == record.content.to_string()
        {
            let statement = sqlx::query("UPDATE history SET revision = ? WHERE revision = ?")
                .bind(id.0)
                .bind(last.get::<i64, _>("revision"));
            return sql::execute(&mut **transaction, "record the history", statement).await;
        }
        let before: Option<i64> = last.map(|last| last.get("revision"));
        let changed = changes.as_ref().map(|one| signed(one.total() as u64));
        let json = changes.as_ref().map(serde_json::to_string).transpose();
        let counts = &record.counts;
        let statement = sqlx::query(
            "INSERT INTO history (revision, catalog, source, digest, content, before,
               committed, packages, channels, entries, bundles, quarantined, changed, changes)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(id.0)
        .bind(catalog)
        .bind(&record.identity.source)
        .bind(record.digest.to_string())
        .bind(record.content.to_string())
        .bind(before)
        .bind(record.committed)
        .bind(signed(counts.packages))
        .bind(signed(counts.channels))
        .bind(signed(counts.entries))
        .bind(signed(counts.bundles))
        .bind(signed(counts.quarantined))
        .bind(changed)
        .bind(json.map_err(StoreError::encode("changes"))?);
        sql::execute(&mut **transaction, "record the history", statement).await
    }

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
        for revision in &superfluous {
            let statement = sqlx::query("DELETE FROM history WHERE revision = ?").bind(revision);
            sql::execute(&self.pool, "trim the history", statement).await?;
        }
        if superfluous.is_empty() {
            return Ok(());
        }
        self.sweep_outlines(SPARED).await
    }

    /// Removes outlines without a row that are older than `spared`.
    pub(super) async fn sweep_outlines(&self, spared: Duration) -> Result<(), StoreError> {
        let query = sqlx::query("SELECT DISTINCT content FROM history");
        let rows = sql::all(&self.pool, "read the history", query).await?;
        let digests = rows
            .iter()
            .map(|row| row.get::<&str, _>(0).parse::<Digest>());
        let history = self.history();
        let known: HashSet<PathBuf> = digests
            .filter_map(Result::ok)
            .map(|content| history.path(&content))
            .collect();
        let folder = history.folder.to_path_buf();
        let swept = blocking("read", folder, move |folder| sweep(folder, &known, spared));
        Ok(swept.await?)
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

fn sweep(folder: &Path, known: &HashSet<PathBuf>, spared: Duration) -> Result<(), DiskError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(DiskError::at("read", folder))?,
    };
    for entry in entries {
        let path = entry.map_err(DiskError::at("read", folder))?.path();
        let modified = fs::metadata(&path).and_then(|metadata| metadata.modified());
        let age = modified.map_or(Duration::ZERO, |date| date.elapsed().unwrap_or_default());
        if !known.contains(&path) && age >= spared {
            fs::remove_file(&path).map_err(DiskError::at("remove", &path))?;
        }
    }
    Ok(())
}

impl History {
    /// The catalog's history, the newest revision first, without the changes.
    pub async fn list(&self, catalog: &CatalogName) -> Result<Vec<HistoryEntry>, StoreError> {
        let query = sqlx::query(
            "SELECT revision, digest, content, committed, packages, channels, entries, bundles,
               quarantined, before, changed, NULL AS changes
             FROM history WHERE catalog = ? ORDER BY revision DESC",
        );
        self.entries(query.bind(catalog.as_str())).await
    }

    /// The newest revisions with their changes.
    pub async fn latest(
        &self,
        catalog: &CatalogName,
        most: u32,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        let query = "SELECT * FROM history WHERE catalog = ? ORDER BY revision DESC LIMIT ?";
        let query = sqlx::query(query).bind(catalog.as_str()).bind(most);
        self.entries(query).await
    }

    async fn newest(&self, catalog: &CatalogName) -> Result<Option<HistoryEntry>, StoreError> {
        Ok(self.latest(catalog, 1).await?.into_iter().next())
    }

    async fn entries(&self, query: sql::Statement<'_>) -> Result<Vec<HistoryEntry>, StoreError> {
        match sql::all(&self.pool, "read the history", query).await {
            Ok(rows) => Ok(rows.iter().filter_map(entry).collect()),
            // A store that is only read may be of a version without a history.
            Err(error) if error.to_string().contains("no such table") => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// The outline of a content. `None` when it is not kept, or damaged. This blocks.
    pub fn outline(&self, content: &Digest) -> Option<Outline> {
        read_outline(&self.path(content))
    }

    fn path(&self, content: &Digest) -> PathBuf {
        let name = format!("{}.{OUTLINE_FORMAT}.zst", content.hex());
        self.folder.join(name)
    }
}

/// Whether a number is new in the history, and above those of its catalog.
pub(super) async fn is_new(
    database: impl SqliteExecutor<'_>,
    catalog: &CatalogName,
    id: RevisionId,
) -> Result<bool, StoreError> {
    let query = sqlx::query(
        "SELECT 1 FROM history WHERE revision = ?1 OR (catalog = ?2 AND revision > ?1) LIMIT 1",
    );
    let query = query.bind(id.0).bind(catalog.as_str());
    let known = sql::first(database, "look up the history", query).await?;
    Ok(known.is_none())
}

fn entry(row: &SqliteRow) -> Option<HistoryEntry> {
    // No count that was written is negative.
    let count = |column| u64::try_from(row.get::<i64, _>(column)).unwrap_or(0);
    let changes: Option<String> = row.get("changes");
    Some(HistoryEntry {
        revision: RevisionId(row.get("revision")),
        digest: row.get::<&str, _>("digest").parse().ok()?,
        content: row.get::<&str, _>("content").parse().ok()?,
        committed: time(row.get("committed")),
        counts: Counts {
            metas: 0,
            packages: count("packages"),
            channels: count("channels"),
            entries: count("entries"),
            bundles: count("bundles"),
            quarantined: count("quarantined"),
        },
        before: row.get::<Option<i64>, _>("before").map(RevisionId),
        changed: row
            .get::<Option<i64>, _>("changed")
            .and_then(|n| u64::try_from(n).ok()),
        changes: changes.and_then(|json| serde_json::from_str(&json).ok()),
    })
}

fn encode(outline: &Outline) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3)?;
    encoder.include_checksum(true)?;
    serde_json::to_writer(&mut encoder, outline)?;
    encoder.finish()
}

fn write_outline(path: &Path, content: &[u8]) -> Result<(), DiskError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).map_err(DiskError::at("create", folder))?;
    let written = tempfile::Builder::new()
        .prefix("new-")
        .tempfile_in(folder)
        .and_then(|mut file| {
            file.write_all(content)?;
            protect(file.as_file())?;
            file.as_file().sync_data()?;
            // An existing file gets a new date, so that no sweep removes it.
            file.persist(path).map_err(|error| error.error)
        });
    written.map_err(DiskError::at("write", path))?;
    sync_folder(folder)
}

fn read_outline(path: &Path) -> Option<Outline> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        file => file,
    };
    let decoded = file.and_then(|file| {
        let mut json = Vec::new();
        let decoder = zstd::Decoder::new(file)?;
        decoder.take(MAX_OUTLINE).read_to_end(&mut json)?;
        Ok(serde_json::from_slice(&json)?)
    });
    decoded
        .inspect_err(|error| {
            let damage = Damage {
                path: path.to_owned(),
                reason: error.to_string(),
            };
            tracing::warn!(%damage, "an outline cannot be read and is not compared");
        })
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn an_outline_is_read_as_it_was_written_and_not_when_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("outlines/a.zst");
        let outline = Outline {
            quarantined: ["a".into()].into(),
            ..Outline::default()
        };
        let mut encoded = encode(&outline).unwrap();
        write_outline(&path, &encoded).unwrap();
        assert_eq!(read_outline(&path), Some(outline));
        *encoded.last_mut().unwrap() ^= 1;
        write_outline(&path, &encoded).unwrap();
        assert_eq!(read_outline(&path), None);
        assert_eq!(read_outline(&folder.path().join("none")), None);
    }
}
