//! What lies on disk: the only place with SQL and the data folder.
//!
//! ```text
//! data/
//!   lock                          held by the almanac that runs
//!   almanac.db                    catalogs, revisions, problems, images, passes, search
//!   blobs/sha256/<hex>            OCI blobs as they were pulled or made
//!   revisions/<id>/metas.jsonl    canonical metas in catalog order
//!   revisions/<id>/metas.deflate  each of them as a deflate segment
//!   revisions/<id>/messages.pb    encoded parts of registry messages
//!   revisions/<id>/queries.jsonl  answers to queries over HTTP
//!   revisions/<id>/index.bin      what serving needs to find its way
//!   revisions/<id>/all.gz         the whole of metas.jsonl, made later
//!   revisions/<id>/all.zst        the same
//! ```
//!
//! Files are written under a temporary name in the same file system, synced
//! and renamed; the SQL transaction that names them comes last. So a crash
//! leaves the previous revision current, and revisions that no row names are
//! swept away at the next start. Blobs that no row names may stay for a while,
//! as a pass that failed may want them again.

mod blobs;
mod encodings;
mod error;
mod images;
mod import;
mod index;
mod legacy;
mod migrations;
mod passes;
mod read_only;
mod revisions;
mod search;
mod segment;
mod writer;

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

pub use blobs::{BlobClaim, BlobPin, BlobWriter, CacheLimits};
pub use encodings::{Decoded, Encoding};
pub use error::StoreError;
pub use images::{Image, ImageBlob, ImageKind, ImageManifest, ImageOrigin, NewBlob, Referrer};
pub use import::Import;
pub use legacy::{LegacyError, read_legacy};
pub use passes::{Outcome, Pass};
pub use revisions::{Counts, Files, LAST_SECOND, NewRevision, Revision, RevisionId};
pub use search::{MAX_WORDS, Searcher};
pub use segment::{END as SEGMENTS_END, Segmenter};
pub use writer::{Finished, Lines, QueryWriter, RevisionWriter, Stored};

/// Held by the almanac that runs.
const LOCK: &str = "lock";
/// The database's file.
const DATABASE: &str = "almanac.db";

/// The store in one data folder. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    folder: Arc<Path>,
    pool: sqlx::SqlitePool,
    pins: blobs::Pins,
    claims: blobs::Claims,
    cache: CacheLimits,
    /// Held while a folder of a revision is removed or gets another file.
    folders: Arc<Mutex<()>>,
    /// Held as long as the store is open.
    _lock: Arc<File>,
}

impl Store {
    /// Opens the data folder, making it when it is not there, and removes what
    /// an interrupted pass left behind.
    ///
    /// # Errors
    /// When the folder cannot be written, is in use by another almanac, or
    /// holds a database that this version cannot read.
    pub async fn open(folder: &Path) -> Result<Self, StoreError> {
        Self::open_with(folder, CacheLimits::default()).await
    }

    /// As [`Store::open`], with other limits of what is kept of blobs that no
    /// revision was made from.
    pub async fn open_with(folder: &Path, cache: CacheLimits) -> Result<Self, StoreError> {
        for part in ["", "blobs/sha256", "revisions"] {
            let path = folder.join(part);
            fs::create_dir_all(&path).map_err(StoreError::io("create", &path))?;
        }
        let lock = lock(&folder.join(LOCK))?;
        let database = folder.join(DATABASE);
        let options = SqliteConnectOptions::new()
            .filename(&database)
            .create_if_missing(true)
            .foreign_keys(true)
            .journal_mode(SqliteJournalMode::Wal)
            // Little is asked, so few pages have to be kept: half a megabyte.
            .pragma("cache_size", "-512")
            // A revision's files are removed once another is committed, so a
            // commit must not be undone by a power cut.
            .synchronous(SqliteSynchronous::Full);
        let pool = SqlitePoolOptions::new()
            .max_connections(2)
            .connect_with(options)
            .await
            .map_err(StoreError::sql("open the database"))?;
        migrations::migrator()
            .run(&pool)
            .await
            .map_err(|source| StoreError::Migrate {
                path: database,
                source,
            })?;
        let store = Self {
            folder: folder.into(),
            pool,
            pins: blobs::Pins::default(),
            claims: blobs::Claims::default(),
            cache,
            folders: Arc::default(),
            _lock: Arc::new(lock),
        };
        store.remove_unfinished_blobs()?;
        store.forget_replaced().await?;
        store.sweep().await?;
        Ok(store)
    }

    /// Begins to write. A transaction that reads first and then writes would
    /// fail at once when another has written meanwhile; this one waits its turn.
    async fn begin(&self) -> Result<sqlx::Transaction<'_, sqlx::Sqlite>, StoreError> {
        let begun = self.pool.begin_with("BEGIN IMMEDIATE").await;
        begun.map_err(StoreError::sql("begin"))
    }

    /// A folder in the same file system for files of a pass.
    pub fn temporary(&self) -> PathBuf {
        self.revisions_folder()
    }

    /// Closes the database, so that its log is folded into the file.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    fn revisions_folder(&self) -> PathBuf {
        self.folder.join("revisions")
    }

    fn revision_folder(&self, id: RevisionId) -> PathBuf {
        self.revisions_folder().join(id.to_string())
    }

    /// Removes the rows of revisions that are not their catalog's current one:
    /// almanac ended after a commit, before the old revision was removed.
    async fn forget_replaced(&self) -> Result<(), StoreError> {
        let blobs = self.blobs_of_replaced(None).await?;
        sqlx::query(
            "DELETE FROM revisions WHERE id NOT IN
               (SELECT current FROM catalogs WHERE current IS NOT NULL)",
        )
        .execute(&self.pool)
        .await
        .map_err(StoreError::sql("remove replaced revisions"))?;
        self.release_blobs(&blobs).await
    }

    /// Removes revisions that no row names, and spare blobs beyond the limits.
    async fn sweep(&self) -> Result<(), StoreError> {
        let known = self.revision_ids().await?;
        let folder = self.revisions_folder();
        for entry in fs::read_dir(&folder).map_err(StoreError::io("read", &folder))? {
            let path = entry.map_err(StoreError::io("read", &folder))?.path();
            let id = path
                .file_name()
                .and_then(|name| RevisionId::from_str(name.to_str()?).ok());
            if !id.is_some_and(|id| known.contains(&id)) {
                tracing::info!(path = %path.display(), "removing files that no revision has");
                fs::remove_dir_all(&path).map_err(StoreError::io("remove", &path))?;
            }
        }
        self.tidy_blobs().await
    }
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .map_err(StoreError::io("open", path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked {
            path: path.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(StoreError::io("lock", path)(source)),
    }
}

/// Makes the names in a folder last through a power cut.
fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(StoreError::io("sync", folder))
}
