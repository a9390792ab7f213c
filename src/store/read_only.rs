//! A store that is only read, such as one in a container image: built by
//! another user, in a folder that cannot be written.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use crate::store::content::{CacheLimits, Contents};
use crate::store::database::DATABASE;
use crate::store::file_io::DiskError;
use crate::store::handle::LOCK;
use crate::store::open::{BLOBS, locked};
use crate::store::{Store, StoreError};

/// Modes that let all users list folders and read files.
const FOLDER: u32 = 0o755;
const FILE: u32 = 0o644;
/// The mode of files of revisions and of blobs, which nobody writes to.
const STORED: u32 = 0o444;
/// The deepest nesting of folders; a store has less.
const DEPTH: usize = 8;

impl Store {
    /// Whether a folder holds a store.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(DATABASE).is_file()
    }

    /// Opens a store that no process writes, and writes nothing. `None` means
    /// that there is no store. Several processes may read one store.
    ///
    /// # Errors
    /// When another almanac writes it, or it cannot be read.
    pub async fn open_to_read(folder: &Path) -> Result<Option<Self>, StoreError> {
        let database = folder.join(DATABASE);
        if !database.is_file() {
            return Ok(None);
        }
        let path = folder.join(LOCK);
        let lock = File::open(&path).map_err(DiskError::at("open", &path))?;
        // Shared: excludes writers.
        let lock = locked(&path, lock, File::try_lock_shared)?;
        // A process that was killed leaves commits in the log.
        let log = folder.join(format!("{DATABASE}-wal"));
        let is_whole = fs::metadata(&log).map_or(true, |log| log.len() == 0);
        let options = SqliteConnectOptions::new()
            .filename(&database)
            .read_only(true)
            // Nobody writes while the lock is held. Otherwise SQLite would put
            // files of its own beside the database.
            .immutable(is_whole);
        Self::connect(folder, options, lock).await.map(Some)
    }

    /// Opens a store even while another process writes it. Each read sees what
    /// is committed at that moment, and files may be removed at any time.
    /// `None` means that there is no store.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn open_beside(folder: &Path) -> Result<Option<Self>, StoreError> {
        match Self::open_to_read(folder).await {
            Err(StoreError::Locked { .. }) => {}
            opened => return opened,
        }
        let path = folder.join(LOCK);
        let lock = File::open(&path).map_err(DiskError::at("open", &path))?;
        let options = SqliteConnectOptions::new()
            .filename(folder.join(DATABASE))
            .read_only(true);
        Self::connect(folder, options, lock).await.map(Some)
    }

    async fn connect(
        folder: &Path,
        options: SqliteConnectOptions,
        lock: File,
    ) -> Result<Self, StoreError> {
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .connect_with(options)
            .await
            .map_err(StoreError::sql("open the database"))?;
        let contents = Contents::at(folder.join(BLOBS));
        Ok(Self::new(
            folder,
            pool,
            contents,
            CacheLimits::default(),
            lock,
        ))
    }

    /// Lets all users read the store, whatever the process's umask is: it may be
    /// built by one user and read by another. With `folder_too`, the data folder
    /// itself changes as well. Other files in it stay as they are.
    pub fn let_all_read(&self, folder_too: bool) -> Result<(), StoreError> {
        if folder_too {
            add_mode(&self.folder, FOLDER)?;
        }
        for file in [LOCK, DATABASE] {
            add_mode(&self.folder.join(file), FILE)?;
        }
        for folder in ["blobs", "revisions"] {
            let_all_read(&self.folder.join(folder), DEPTH)?;
        }
        Ok(())
    }
}

/// Skips links: their targets are not part of the store.
fn let_all_read(folder: &Path, depth: usize) -> Result<(), StoreError> {
    add_mode(folder, FOLDER)?;
    for entry in fs::read_dir(folder).map_err(DiskError::at("read", folder))? {
        let entry = entry.map_err(DiskError::at("read", folder))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(DiskError::at("read", &path))?;
        if kind.is_file() {
            add_mode(&path, STORED)?;
        } else if kind.is_dir() && depth > 0 {
            let_all_read(&path, depth - 1)?;
        }
    }
    Ok(())
}

/// Adds the bits of a mode that are missing.
fn add_mode(path: &Path, mode: u32) -> Result<(), StoreError> {
    let failed = || DiskError::at("let all users read", path);
    let now = fs::metadata(path).map_err(failed())?.permissions().mode();
    if now & mode != mode {
        fs::set_permissions(path, Permissions::from_mode(now | mode)).map_err(failed())?;
    }
    Ok(())
}
