//! A store that is only read: one that was built before, perhaps by another
//! user, in a folder that cannot be written to, such as one of an image.

use std::fs::{self, File, Permissions, TryLockError};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use crate::store::content::{CacheLimits, Contents};
use crate::store::open::{BLOBS, DATABASE, LOCK};
use crate::store::{Store, StoreError};

/// Everybody may look into folders and read files.
const FOLDER: u32 = 0o755;
const FILE: u32 = 0o644;
/// How deep the folders of a store lie within each other, and then some.
const DEPTH: usize = 8;

impl Store {
    /// Opens what another process has stored and closed, without writing
    /// anything. `None` means that there is no store. Several processes may
    /// read one store, as long as nobody writes it.
    ///
    /// # Errors
    /// When an almanac that writes holds it, or it cannot be read.
    pub async fn open_to_read(folder: &Path) -> Result<Option<Self>, StoreError> {
        let database = folder.join(DATABASE);
        if !database.is_file() {
            return Ok(None);
        }
        let lock = lock_to_read(&folder.join(LOCK))?;
        let options = SqliteConnectOptions::new()
            .filename(&database)
            .read_only(true)
            // Nobody writes while the lock is held. Without this SQLite would
            // want to put files of its own beside the database.
            .immutable(true);
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .connect_with(options)
            .await
            .map_err(StoreError::sql("open the database"))?;
        Ok(Some(Self {
            folder: folder.into(),
            pool,
            contents: Contents::at(folder.join(BLOBS)),
            cache: CacheLimits::default(),
            folders: Arc::default(),
            _lock: Arc::new(lock),
        }))
    }

    /// Opens what another process has stored, also while that goes on writing:
    /// what is read then is what was committed at that moment, and its files
    /// may go away at any time. `None` means that there is no store.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn open_beside(folder: &Path) -> Result<Option<Self>, StoreError> {
        match Self::open_to_read(folder).await {
            Err(StoreError::Locked { .. }) => {}
            opened => return opened,
        }
        let path = folder.join(LOCK);
        let lock = File::open(&path).map_err(StoreError::io("open", &path))?;
        let options = SqliteConnectOptions::new()
            .filename(folder.join(DATABASE))
            .read_only(true);
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .connect_with(options)
            .await
            .map_err(StoreError::sql("open the database"))?;
        Ok(Some(Self {
            folder: folder.into(),
            pool,
            contents: Contents::at(folder.join(BLOBS)),
            cache: CacheLimits::default(),
            folders: Arc::default(),
            _lock: Arc::new(lock),
        }))
    }

    /// Lets every user read all of the store, whatever the process's mask says:
    /// for one that is built by one user and read by another. `folder_too` says
    /// whether that is meant of the data folder itself as well, which may be
    /// somebody else's; what else lies in it is let be.
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

/// Keeps writers away, and is kept away by them.
fn lock_to_read(path: &Path) -> Result<File, StoreError> {
    let file = File::open(path).map_err(StoreError::io("open", path))?;
    match file.try_lock_shared() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked {
            path: path.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(StoreError::io("lock", path)(source)),
    }
}

/// Links are passed over: what they lead to is none of ours.
fn let_all_read(folder: &Path, depth: usize) -> Result<(), StoreError> {
    add_mode(folder, FOLDER)?;
    for entry in fs::read_dir(folder).map_err(StoreError::io("read", folder))? {
        let entry = entry.map_err(StoreError::io("read", folder))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(StoreError::io("read", &path))?;
        if kind.is_file() {
            add_mode(&path, FILE)?;
        } else if kind.is_dir() && depth > 0 {
            let_all_read(&path, depth - 1)?;
        }
    }
    Ok(())
}

/// Allows what the mode allows, unless that is so already.
fn add_mode(path: &Path, mode: u32) -> Result<(), StoreError> {
    let failed = || StoreError::io("let all users read", path);
    let now = fs::metadata(path).map_err(failed())?.permissions().mode();
    if now & mode != mode {
        fs::set_permissions(path, Permissions::from_mode(now | mode)).map_err(failed())?;
    }
    Ok(())
}
