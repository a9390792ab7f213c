//! Files in the data folder with the last state of the cluster. They outlive a restart
//! without the API server.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

/// The folder below the data folder.
pub(super) const FOLDER: &str = "cluster";

/// How the name of a file begins that is being written.
pub(super) const UNFINISHED: &str = ".new-";

/// The pause before a failed write or removal is tried again.
const RETRY: Duration = Duration::from_secs(30);

/// Writes a file. Returns whether that worked. A failure is logged, and the last file
/// stays.
pub(super) async fn keep(file: &Path, content: Vec<u8>) -> bool {
    let path = file.to_owned();
    let written = tokio::task::spawn_blocking(move || write(&path, &content)).await;
    match written {
        Ok(Ok(())) => {
            tracing::debug!(path = %file.display(), "written from the cluster");
            true
        }
        Ok(Err(error)) => {
            tracing::error!(
                path = %file.display(), %error,
                "cannot write a file from the cluster; the last one stays"
            );
            false
        }
        // The panic hook has reported it.
        Err(_) => false,
    }
}

/// Removes a file, if there is one. Returns whether it is gone. A failure is logged.
pub(super) async fn remove(file: &Path) -> bool {
    let path = file.to_owned();
    let removing = tokio::task::spawn_blocking(move || fs::remove_file(path));
    match removing.await {
        Ok(Ok(())) => true,
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => true,
        Ok(Err(error)) => {
            tracing::error!(
                path = %file.display(), %error, "cannot remove a file from the cluster"
            );
            false
        }
        // The panic hook has reported it.
        Err(_) => false,
    }
}

/// Returns when a failed write is due again; never if the last one worked.
pub(super) async fn retry(is_kept: bool) {
    if is_kept {
        return std::future::pending().await;
    }
    tokio::time::sleep(RETRY).await;
}

/// The content of a file, if it exists and is not longer than that.
pub(super) fn read(path: &Path, most: u64) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let file = File::open(path).ok()?;
    file.take(most + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= most).then_some(content)
}

/// Replaces a file in one step, and makes its folder. Only this user may read it.
pub(super) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // Files of `tempfile` have the mode 0600.
    let mut file = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempfile_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    sync_folder(folder)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_written_file_is_private_and_replaces_the_last_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.json");
        write(&path, b"old").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(read(&path, 3).unwrap(), b"new");
        assert_eq!(read(&path, 2), None);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let names = fs::read_dir(folder.path().join("a")).unwrap();
        assert_eq!(names.count(), 1);
    }
}
