//! Work with files on threads for blocking work, so that a slow disk does not
//! hold up the tasks that serve clients.

use std::io;
use std::path::{Path, PathBuf};

use crate::store::disk_error::DiskError;

/// Runs `work` on a file or folder. A panic in it becomes an error.
pub(super) async fn blocking<T: Send + 'static>(
    action: &'static str,
    path: PathBuf,
    work: impl FnOnce(&Path) -> Result<T, DiskError> + Send + 'static,
) -> Result<T, DiskError> {
    let own = path.clone();
    tokio::task::spawn_blocking(move || work(&own))
        .await
        .unwrap_or_else(|error| Err(DiskError::at(action, &path)(io::Error::other(error))))
}
