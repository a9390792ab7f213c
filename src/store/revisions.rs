//! Revisions: named by rows, whole on disk, never changed.

use std::collections::HashSet;
use std::num::ParseIntError;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, fs};

use bytes::Bytes;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, Sqlite, Transaction};

use crate::map;
use crate::name::CatalogName;
use crate::store::file_error::sync_folder;
use crate::store::{Finished, Index, SearchRow, Store, StoreError, index, search};
use ::images::digest::Digest;
use fbc::problem::Problem;

pub(super) const METAS: &str = "metas.jsonl";
pub(super) const SEGMENTS: &str = "metas.deflate";
pub(super) const MESSAGES: &str = "messages.pb";
pub(super) const QUERIES: &str = "queries.jsonl";
pub(super) const INDEX: &str = "index.bin";

/// The number of a revision, growing from one to the next.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct RevisionId(pub(super) i64);

/// The last second of the year 9999, since 1970: no later date can be written
/// as HTTP and RFC 3339 have it.
pub const LAST_SECOND: u64 = 253_402_300_799;

/// Where the numbers end that a store takes over: far beyond those that are
/// ever given, and with room behind them. JSON has no larger whole numbers.
const NUMBERS_END: i64 = 1 << 53;

impl RevisionId {
    /// Whether a store may have given this number.
    pub fn is_sound(self) -> bool {
        (1..NUMBERS_END).contains(&self.0)
    }
}

impl fmt::Display for RevisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RevisionId {
    type Err = ParseIntError;
    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

/// How much a revision holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Blobs.
    pub metas: u64,
    /// Packages served over gRPC.
    pub packages: u64,
    /// Their channels.
    pub channels: u64,
    /// Their channels' entries.
    pub entries: u64,
    /// Their bundles.
    pub bundles: u64,
    /// Packages left out for their errors.
    pub quarantined: u64,
}

/// One catalog at one digest.
#[derive(Clone, Debug)]
pub struct Revision {
    /// Its number.
    pub id: RevisionId,
    /// The catalog.
    pub catalog: CatalogName,
    /// Where it came from, as it was configured.
    pub source: String,
    /// The digest that the source was at.
    pub digest: Digest,
    /// The digest of the canonical metas.
    pub content: Digest,
    /// When this content first became a revision of the catalog; whole seconds.
    pub modified: SystemTime,
    /// When it was committed; whole seconds.
    pub committed: SystemTime,
    /// How much it holds.
    pub counts: Counts,
}

/// What a revision is made of, for [`Store::commit`].
pub struct NewRevision<'a> {
    /// The catalog.
    pub catalog: &'a CatalogName,
    /// Where it came from, as it was configured.
    pub source: String,
    /// The digest that the source was at.
    pub digest: Digest,
    /// How much it holds; the number of metas is known from the files.
    pub counts: Counts,
    /// The OCI blobs it was made from.
    pub blobs: &'a [Digest],
    /// What is wrong with it.
    pub problems: &'a [Problem],
    /// What its packages are found by.
    pub search: &'a [SearchRow],
}

/// A revision's files, open for serving.
pub struct Files {
    /// The serving index.
    pub index: Index,
    /// `metas.jsonl`.
    pub metas: Bytes,
    /// `metas.deflate`.
    pub segments: Bytes,
    /// `messages.pb`.
    pub messages: Bytes,
    /// `queries.jsonl`.
    pub queries: Bytes,
}

/// The dates of a revision, in seconds since 1970.
#[derive(Clone, Copy)]
pub(super) struct Dates {
    pub(super) modified: i64,
    pub(super) committed: i64,
}

/// How many problems of a revision are kept.
const MAX_PROBLEMS: usize = 10_000;

impl Store {
    /// Names a finished revision: from here on it is its catalog's current one.
    pub async fn commit(
        &self,
        finished: Finished,
        new: NewRevision<'_>,
    ) -> Result<Revision, StoreError> {
        let sql = StoreError::sql;
        let previous = self.current(new.catalog).await?;
        let now = seconds(SystemTime::now());
        // The same content keeps its date, whatever image it came in. Another
        // has a later one, also in the same second and when the clock was set
        // back: there are clients that ask by nothing but the date.
        let modified = previous.map_or(now, |previous| {
            let before = seconds(previous.modified);
            if previous.content == finished.content {
                before
            } else {
                now.max(before.saturating_add(1))
            }
        });
        let dates = Dates {
            modified,
            committed: now,
        };
        let mut transaction = self.begin().await?;
        let revision = self
            .name(&mut transaction, finished, new, dates, None)
            .await?;
        sync_folder(&self.revisions_folder())?;
        transaction.commit().await.map_err(sql("commit"))?;
        Ok(revision)
    }

    /// Writes the rows of a finished revision and puts its files in their
    /// place. It counts once the transaction is committed. A number that is
    /// asked for and given away already is not given again.
    pub(super) async fn name(
        &self,
        transaction: &mut Transaction<'_, Sqlite>,
        finished: Finished,
        new: NewRevision<'_>,
        dates: Dates,
        wanted: Option<RevisionId>,
    ) -> Result<Revision, StoreError> {
        let sql = StoreError::sql;
        let Dates {
            modified,
            committed,
        } = dates;
        let counts = Counts {
            metas: finished.metas as u64,
            ..new.counts
        };
        let wanted = match wanted {
            Some(id) if id.is_sound() && !self.is_given(transaction, id).await? => Some(id.0),
            _ => None,
        };
        sqlx::query("INSERT OR IGNORE INTO catalogs (name) VALUES (?)")
            .bind(new.catalog.as_str())
            .execute(&mut **transaction)
            .await
            .map_err(sql("record the catalog"))?;
        let id: i64 = sqlx::query(
            "INSERT INTO revisions (id, catalog, source, digest, content, modified, committed,
                                    format, metas, packages, channels, entries, bundles,
                                    quarantined)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        )
        .bind(wanted)
        .bind(new.catalog.as_str())
        .bind(&new.source)
        .bind(new.digest.to_string())
        .bind(finished.content.to_string())
        .bind(modified)
        .bind(committed)
        .bind(index::FORMAT)
        .bind(signed(counts.metas))
        .bind(signed(counts.packages))
        .bind(signed(counts.channels))
        .bind(signed(counts.entries))
        .bind(signed(counts.bundles))
        .bind(signed(counts.quarantined))
        .fetch_one(&mut **transaction)
        .await
        .map_err(sql("record the revision"))?
        .get(0);
        for digest in new.blobs {
            sqlx::query("INSERT OR IGNORE INTO revision_blobs (revision, digest) VALUES (?, ?)")
                .bind(id)
                .bind(digest.to_string())
                .execute(&mut **transaction)
                .await
                .map_err(sql("record a blob"))?;
        }
        for (number, problem) in new.problems.iter().take(MAX_PROBLEMS).enumerate() {
            sqlx::query("INSERT INTO problems (revision, number, problem) VALUES (?, ?, ?)")
                .bind(id)
                .bind(signed(number as u64))
                .bind(serde_json::to_string(problem).unwrap_or_default())
                .execute(&mut **transaction)
                .await
                .map_err(sql("record a problem"))?;
        }
        search::insert(transaction, id, new.search).await?;
        sqlx::query("UPDATE catalogs SET current = ? WHERE name = ?")
            .bind(id)
            .bind(new.catalog.as_str())
            .execute(&mut **transaction)
            .await
            .map_err(sql("record the current revision"))?;

        let id = RevisionId(id);
        let folder = self.revision_folder(id);
        if folder.exists() {
            // A commit that failed left it: the number was never given away.
            fs::remove_dir_all(&folder).map_err(StoreError::io("remove", &folder))?;
        }
        fs::rename(finished.folder.path(), &folder).map_err(StoreError::io("create", &folder))?;
        // Nothing is left under the old name to be removed.
        let _ = finished.folder.keep();
        Ok(Revision {
            id,
            catalog: new.catalog.clone(),
            source: new.source,
            digest: new.digest,
            content: finished.content,
            modified: time(modified),
            committed: time(committed),
            counts,
        })
    }

    pub(super) fn revision_folder(&self, id: RevisionId) -> PathBuf {
        self.revisions_folder().join(id.to_string())
    }

    async fn is_given(
        &self,
        transaction: &mut Transaction<'_, Sqlite>,
        id: RevisionId,
    ) -> Result<bool, StoreError> {
        let row = sqlx::query("SELECT id FROM revisions WHERE id = ?")
            .bind(id.0)
            .fetch_optional(&mut **transaction)
            .await
            .map_err(StoreError::sql("look up a revision"))?;
        Ok(row.is_some())
    }

    /// The catalog's current revision, unless its files have another version's
    /// format.
    pub async fn current(&self, catalog: &CatalogName) -> Result<Option<Revision>, StoreError> {
        let row = sqlx::query(
            "SELECT revisions.* FROM catalogs JOIN revisions ON revisions.id = catalogs.current
             WHERE catalogs.name = ? AND revisions.format = ?",
        )
        .bind(catalog.as_str())
        .bind(index::FORMAT)
        .fetch_optional(&self.pool)
        .await
        .map_err(StoreError::sql("look up the current revision"))?;
        Ok(row.and_then(|row| revision(&row, catalog)))
    }

    /// Opens a revision's files.
    pub fn open_revision(&self, revision: &Revision) -> Result<Files, StoreError> {
        let folder = self.revision_folder(revision.id);
        let map = |name: &str| {
            let path = folder.join(name);
            map::map(&path).map_err(StoreError::io("open", &path))
        };
        let files = Files {
            index: Index::read(&folder.join(INDEX))?,
            metas: map(METAS)?,
            segments: map(SEGMENTS)?,
            messages: map(MESSAGES)?,
            queries: map(QUERIES)?,
        };
        let sums = files.index.metas.iter().fold((0, 0), |sums, meta| {
            (
                sums.0 + u64::from(meta.length),
                sums.1 + u64::from(meta.segment),
            )
        });
        // The answers to lists are what is written last.
        let lists = [&files.index.package_names, &files.index.bundle_list];
        let messages = lists.map(|list| list.start.saturating_add(list.length));
        if sums != (files.metas.len() as u64, files.segments.len() as u64)
            || messages
                .iter()
                .any(|end| *end > files.messages.len() as u64)
        {
            return Err(StoreError::Damaged {
                path: folder,
                reason: "its files do not have the lengths that its index names".into(),
            });
        }
        Ok(files)
    }

    /// What was found wrong with a revision.
    pub async fn problems(&self, id: RevisionId) -> Result<Vec<Problem>, StoreError> {
        let rows = sqlx::query("SELECT problem FROM problems WHERE revision = ? ORDER BY number")
            .bind(id.0)
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::sql("list the problems"))?;
        Ok(rows
            .iter()
            .filter_map(|row| serde_json::from_str(row.get(0)).ok())
            .collect())
    }

    /// Removes all revisions of a catalog but the given one, and the blobs that
    /// nobody needs any more. Open files stay readable.
    pub async fn retire(&self, kept: &Revision) -> Result<(), StoreError> {
        let sql = StoreError::sql;
        let blobs = self.blobs_of_replaced(Some(kept.catalog.as_str())).await?;
        let old = sqlx::query("SELECT id FROM revisions WHERE catalog = ? AND id <> ?")
            .bind(kept.catalog.as_str())
            .bind(kept.id.0)
            .fetch_all(&self.pool)
            .await
            .map_err(sql("list old revisions"))?;
        for row in old {
            let id = RevisionId(row.get(0));
            sqlx::query("DELETE FROM revisions WHERE id = ?")
                .bind(id.0)
                .execute(&self.pool)
                .await
                .map_err(sql("remove a revision"))?;
            let folder = self.revision_folder(id);
            let _alone = self.lock_folders();
            fs::remove_dir_all(&folder).map_err(StoreError::io("remove", &folder))?;
        }
        self.release_blobs(&blobs).await?;
        self.tidy_blobs().await
    }

    pub(super) async fn revision_ids(&self) -> Result<HashSet<RevisionId>, StoreError> {
        let rows = sqlx::query("SELECT id FROM revisions")
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::sql("list the revisions"))?;
        Ok(rows.iter().map(|row| RevisionId(row.get(0))).collect())
    }
}

/// A row that this version wrote. A digest that does not parse means that
/// somebody else did, so the catalog counts as not there and is read again.
fn revision(row: &SqliteRow, catalog: &CatalogName) -> Option<Revision> {
    let count = |column| u64::try_from(row.get::<i64, _>(column)).unwrap_or(0);
    Some(Revision {
        id: RevisionId(row.get("id")),
        catalog: catalog.clone(),
        source: row.get("source"),
        digest: row.get::<&str, _>("digest").parse().ok()?,
        content: row.get::<&str, _>("content").parse().ok()?,
        modified: time(row.get("modified")),
        committed: time(row.get("committed")),
        counts: Counts {
            metas: count("metas"),
            packages: count("packages"),
            channels: count("channels"),
            entries: count("entries"),
            bundles: count("bundles"),
            quarantined: count("quarantined"),
        },
    })
}

/// A number as SQLite has it. Nothing that is counted here comes near the end.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| signed(since.as_secs()))
}

pub(super) fn time(seconds: i64) -> SystemTime {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    UNIX_EPOCH + Duration::from_secs(seconds.min(LAST_SECOND))
}
