//! The history: every revision that was published, with its outline and what it
//! changed. It outlives the files of the revisions.
//!
//! Outlines are files named after the content, so that a content that comes back needs no
//! second one; those with problems of files, which equal content may come without, are named
//! after the source, too. They are written before the rows that name them, but for revisions
//! that a replica learns of while the bucket is away: then changes are told later.

mod missing;
mod outline_file;
mod recording;
mod trim;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqlitePool};

use crate::answers::changes::{Change, Kind};
use crate::answers::outline::{OUTLINE_FORMAT, Outline};
use crate::name::CatalogName;
use crate::store::file_io::DiskError;
use crate::store::revision::{Counts, OutlineName, PastRevision, Published, Revision, RevisionId};
use crate::store::sql::{self, time};
use crate::store::{Store, StoreError};
use ::images::digest::Digest;

pub(super) use recording::{PreparedOutline, insert_rebuilt, is_new};

/// The folder of the outlines.
const OUTLINES: &str = "outlines";
/// How many changes of a revision are stored beside it. All of them follow from the
/// outlines.
pub const MAX_CHANGES: usize = 100;

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
    /// The source as it was configured.
    pub source: String,
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
    /// The number of its changes; `None` for the first one, and while an outline is missing.
    pub changed: Option<u64>,
    /// Its changes, where they were requested.
    pub changes: Option<RecordedChanges>,
}

/// Changes of a revision.
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
}

impl Store {
    /// Keeps an outline of another store. This blocks.
    pub fn keep_outline(&self, name: &OutlineName, file: &[u8]) -> Result<(), DiskError> {
        keep_missing_outline(&self.folder, name, file)
    }
}

impl Revision {
    /// The name of its outline.
    pub fn outline(&self) -> OutlineName {
        OutlineName {
            content: self.content,
            source: self.digest,
        }
    }

    /// The same for a history.
    pub fn published(&self) -> Published {
        Published {
            source: self.identity.source.clone(),
            digest: self.digest,
            content: self.content,
            committed: sql::seconds(self.committed),
            counts: self.counts,
        }
    }
}

impl HistoryEntry {
    /// The name of its outline.
    pub fn outline(&self) -> OutlineName {
        OutlineName {
            content: self.content,
            source: self.digest,
        }
    }

    /// The same for another store.
    pub fn past(&self) -> PastRevision {
        PastRevision {
            id: self.revision,
            published: Published {
                source: self.source.clone(),
                digest: self.digest,
                content: self.content,
                committed: sql::seconds(self.committed),
                counts: self.counts,
            },
        }
    }
}

impl History {
    /// The catalog's history, the newest revision first, without the changes.
    pub async fn list(&self, catalog: &CatalogName) -> Result<Vec<HistoryEntry>, StoreError> {
        let query = sqlx::query(
            "SELECT revision, source, digest, content, committed, packages, channels, entries, bundles,
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
        self.older(catalog, None, most).await
    }

    /// The same of revisions before this one.
    pub async fn older(
        &self,
        catalog: &CatalogName,
        than: Option<RevisionId>,
        most: u32,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        let query = sqlx::query(
            "SELECT * FROM history WHERE catalog = ? AND revision < ? ORDER BY revision DESC LIMIT ?",
        );
        let than = than.map_or(i64::MAX, |than| than.0);
        self.entries(query.bind(catalog.as_str()).bind(than).bind(most))
            .await
    }

    async fn newest(&self, catalog: &CatalogName) -> Result<Option<HistoryEntry>, StoreError> {
        Ok(self.latest(catalog, 1).await?.into_iter().next())
    }

    async fn entries(&self, query: sql::Statement<'_>) -> Result<Vec<HistoryEntry>, StoreError> {
        let rows = sql::all(&self.pool, "read the history", query).await;
        let rows = sql::unless_without_table(&self.pool, "history", rows).await?;
        Ok(rows.iter().flatten().filter_map(entry).collect())
    }

    /// An outline. `None` when it is not kept, or damaged. This blocks.
    pub fn outline(&self, name: &OutlineName) -> Option<Outline> {
        outline_file::read(&self.path(name))
    }

    /// The file of an outline, which need not be there. This blocks.
    pub fn path(&self, name: &OutlineName) -> PathBuf {
        existing(&self.folder, name)
    }

    /// The files that an outline may have.
    fn paths(&self, name: &OutlineName) -> [PathBuf; 2] {
        [
            of_source(&self.folder, name),
            of_content(&self.folder, name),
        ]
    }

    /// The outline of a revision, with the problems of its files. A repair makes it of the
    /// content, which does not tell them.
    pub(super) fn completed(&self, name: &OutlineName, mut outline: Outline) -> Outline {
        if let Some(kept) = self.outline(name) {
            outline.take_problems_of_files(&kept);
        }
        outline
    }
}

/// Keeps an outline before its history has a row. This blocks.
pub(super) fn keep_outline(
    data: &Path,
    name: &OutlineName,
    outline: &Outline,
) -> Result<(), DiskError> {
    let file = encode_outline(outline).map_err(DiskError::at("write in", data))?;
    outline_file::write(&place(&data.join(OUTLINES), name, outline), &file)
}

/// The same of an encoded one.
pub(super) fn keep_encoded_outline(
    data: &Path,
    name: &OutlineName,
    file: &[u8],
) -> Result<(), DiskError> {
    outline_file::write(&place_of_encoded(&data.join(OUTLINES), name, file), file)
}

/// As [`keep_encoded_outline`], unless the outline is kept already: one of another store is only
/// believed where there is none.
pub(super) fn keep_missing_outline(
    data: &Path,
    name: &OutlineName,
    file: &[u8],
) -> Result<(), DiskError> {
    let path = place_of_encoded(&data.join(OUTLINES), name, file);
    if path.exists() {
        return Ok(());
    }
    outline_file::write(&path, file)
}

/// The content of an outline's file.
pub(super) fn encode_outline(outline: &Outline) -> std::io::Result<Vec<u8>> {
    outline_file::encode(outline)
}

/// The file of an outline, if it is kept. This blocks.
pub(super) fn outline_bytes(data: &Path, name: &OutlineName) -> Option<Vec<u8>> {
    std::fs::read(existing(&data.join(OUTLINES), name)).ok()
}

/// The file of an outline that tells of problems of files.
fn of_source(outlines: &Path, name: &OutlineName) -> PathBuf {
    let digests = [*name.content.as_bytes(), *name.source.as_bytes()].concat();
    outlines.join(file_of(&Digest::of(&digests)))
}

/// The file of an outline that follows from the content.
fn of_content(outlines: &Path, name: &OutlineName) -> PathBuf {
    outlines.join(file_of(&name.content))
}

/// The file of an outline that is read.
fn existing(outlines: &Path, name: &OutlineName) -> PathBuf {
    let path = of_source(outlines, name);
    if path.exists() {
        path
    } else {
        of_content(outlines, name)
    }
}

/// The file that an outline is written to.
fn place(outlines: &Path, name: &OutlineName, outline: &Outline) -> PathBuf {
    if outline.has_problems_of_files() {
        of_source(outlines, name)
    } else {
        of_content(outlines, name)
    }
}

/// The same of an encoded one. One that cannot be decoded tells of no problems.
fn place_of_encoded(outlines: &Path, name: &OutlineName, file: &[u8]) -> PathBuf {
    let outline = outline_file::decode(file).unwrap_or_default();
    place(outlines, name, &outline)
}

fn file_of(digest: &Digest) -> String {
    format!("{}.{OUTLINE_FORMAT}.zst", digest.hex())
}

fn entry(row: &SqliteRow) -> Option<HistoryEntry> {
    // No count that was written is negative.
    let count = |column| u64::try_from(row.get::<i64, _>(column)).unwrap_or(0);
    let changes: Option<String> = row.get("changes");
    Some(HistoryEntry {
        revision: RevisionId(row.get("revision")),
        source: row.get("source"),
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
