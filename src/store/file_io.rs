//! Work with files and folders: errors with their paths, and threads for blocking
//! work, so that a slow disk does not hold up the tasks that serve clients.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The pauses before the further tries of a read that failed.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(1),
    Duration::from_millis(20),
    Duration::from_millis(200),
    Duration::from_millis(800),
    Duration::from_secs(2),
];

/// A file or folder of the data folder could not be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct DiskError {
    /// The attempted operation.
    pub action: &'static str,
    /// With which file or folder.
    pub path: PathBuf,
    /// Why it failed.
    pub source: io::Error,
}

impl DiskError {
    /// For `map_err` on file operations.
    pub fn at<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self {
            action,
            path: path.to_owned(),
            source,
        }
    }
}

/// Creates a folder and those above it. Their names survive a power cut, as far
/// as the folders above may be opened.
pub(super) fn create_folder(folder: &Path) -> Result<(), DiskError> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    let above = folder.parent().unwrap_or(Path::new(""));
    create_folder(above)?;
    if let Err(error) = fs::create_dir(folder)
        && !folder.is_dir()
    {
        return Err(DiskError::at("create", folder)(error));
    }
    match sync_folder(if above.as_os_str().is_empty() {
        Path::new(".")
    } else {
        above
    }) {
        Err(error) if error.source.kind() != io::ErrorKind::PermissionDenied => Err(error),
        _ => Ok(()),
    }
}

/// Lets nobody write to a complete file any more, by its mode. It is mapped and
/// served, so a change would reach clients.
pub(super) fn protect(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(0o444))
}

/// Makes the names in a folder survive a power cut.
pub fn sync_folder(folder: &Path) -> Result<(), DiskError> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(DiskError::at("sync", folder))
}

/// Reads again after an error of the disk, which may be over a moment later. This blocks.
pub(super) fn reread<T>(mut read: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    use io::ErrorKind::{
        InvalidData, IsADirectory, NotADirectory, NotFound, PermissionDenied, UnexpectedEof,
    };
    for pause in PAUSES {
        match read() {
            // These are the same the next time.
            Err(error)
                if matches!(
                    error.kind(),
                    InvalidData
                        | IsADirectory
                        | NotADirectory
                        | NotFound
                        | PermissionDenied
                        | UnexpectedEof
                ) =>
            {
                return Err(error);
            }
            Err(_) => thread::sleep(pause),
            Ok(read) => return Ok(read),
        }
    }
    read()
}

/// Runs `work` on a file or folder, on a thread for blocking work. A panic in it becomes an error.
pub(super) async fn blocking<T: Send + 'static>(
    action: &'static str,
    path: PathBuf,
    work: impl FnOnce(&Path) -> Result<T, DiskError> + Send + 'static,
) -> Result<T, DiskError> {
    let own = path.clone();
    // Boxed, so that a task is compiled for each result and not for each caller.
    let work: Box<dyn FnOnce() -> _ + Send> = Box::new(move || work(&own));
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(DiskError::at(action, &path)(io::Error::other(error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_disk_counts_after_several_tries() {
        let mut tries = 0;
        let read = reread(|| {
            tries += 1;
            if tries < 4 {
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            Ok(tries)
        });
        assert_eq!(read.unwrap(), 4);
        tries = 0;
        let missing = reread(|| {
            tries += 1;
            File::open("/no/such/file")
        });
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(tries, 1);
    }
}
