//! Reading a folder until it is the same before and after: files that are read while
//! somebody writes may belong to no version that ever existed.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::ingest::context::ReadPermit;
use crate::ingest::error::{PassError, Stage};
use crate::ingest::files_error::FilesError;
use crate::ingest::folder::listing::FolderRules;
use crate::ingest::folder::wait_until_quiet::{FolderState, wait_until_quiet};
use crate::ingest::stages::{blocking, blocking_with_permit};

/// The most attempts to read a folder while it does not change.
const MAX_ATTEMPTS: usize = 3;

/// Reads a folder. This blocks.
///
/// # Errors
/// When the folder changes during every attempt, and those of `read`.
pub(crate) fn read_unchanged<T>(
    root: &Path,
    rules: &FolderRules,
    mut read: impl FnMut() -> Result<T, FilesError>,
) -> Result<T, FilesError> {
    let mut number = 1;
    loop {
        if let Some(read) = attempt(number, root, rules, &mut read)? {
            return read;
        }
        wait_until_quiet(root, rules)?;
        number += 1;
    }
}

/// As [`read_unchanged`], on threads for blocking work. While it waits for the
/// writer, others have the permit; the one that it ends with is returned.
pub(crate) async fn read_unchanged_in_turns<T: Send + 'static>(
    permits: &Arc<Semaphore>,
    mut permit: ReadPermit,
    root: &Path,
    rules: &FolderRules,
    read: impl Fn() -> Result<T, PassError> + Clone + Send + 'static,
) -> Result<(T, ReadPermit), PassError> {
    let mut number = 1;
    loop {
        let (folder, own, read) = (root.to_owned(), rules.clone(), read.clone());
        let reading = blocking_with_permit(Stage::Unpack, &permit, move || {
            let attempted = attempt(number, &folder, &own, read);
            attempted.map_err(PassError::at(Stage::Unpack))?.transpose()
        });
        if let Some(read) = reading.await? {
            return Ok((read, permit));
        }
        drop(permit);
        let (folder, own) = (root.to_owned(), rules.clone());
        blocking(Stage::Unpack, move || {
            wait_until_quiet(&folder, &own).map_err(PassError::at(Stage::Unpack))
        })
        .await?;
        permit = ReadPermit::acquire(permits).await;
        number += 1;
    }
}

/// One attempt; `None` when the folder changed and is to be read again.
fn attempt<T>(
    number: usize,
    root: &Path,
    rules: &FolderRules,
    read: impl FnOnce() -> T,
) -> Result<Option<T>, FilesError> {
    let before = FolderState::at(root, rules);
    let read = read();
    match (before, FolderState::at(root, rules)) {
        (Ok(before), Ok(after)) if before == after => Ok(Some(read)),
        (_, after) if number == MAX_ATTEMPTS => {
            after?.refused(root, rules)?;
            Ok(Some(read))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_folder_that_changes_during_every_attempt_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("catalog.json");
        let mut rules = FolderRules::default();
        let attempts = |changes: usize, rules: &FolderRules| {
            let mut number = 0;
            let read = read_unchanged(folder.path(), rules, || {
                number += 1;
                if number <= changes {
                    fs::write(&file, "x".repeat(number)).unwrap();
                }
                Ok(number)
            });
            fs::write(&file, "").unwrap();
            read
        };
        assert_eq!(attempts(0, &rules).unwrap(), 1);
        assert_eq!(attempts(2, &rules).unwrap(), 3);
        let error = attempts(MAX_ATTEMPTS, &rules).unwrap_err();
        assert_eq!(error.reason(), "changing");
        assert!(error.to_string().contains("rename"), "{error}");
        assert!(
            error.to_string().contains("catalog.json, of user"),
            "{error}"
        );
        rules.options.read_changing = true;
        assert_eq!(attempts(MAX_ATTEMPTS, &rules).unwrap(), MAX_ATTEMPTS);
    }

    #[tokio::test]
    async fn other_catalogs_are_read_while_a_pass_waits_for_the_writer_of_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("catalog.json");
        fs::write(&file, "").unwrap();
        let permits = Arc::new(Semaphore::new(1));
        let permit = ReadPermit::acquire(&permits).await;
        let attempts = Arc::new(AtomicUsize::new(0));
        let other = {
            let (permits, attempts) = (Arc::clone(&permits), Arc::clone(&attempts));
            async move {
                let _permit = ReadPermit::acquire(&permits).await;
                attempts.load(Ordering::Relaxed)
            }
        };
        let count = Arc::clone(&attempts);
        let read = move || {
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            if number == 1 {
                fs::write(&file, "more").unwrap();
            }
            Ok(number)
        };
        let rules = FolderRules::default();
        let reading = read_unchanged_in_turns(&permits, permit, folder.path(), &rules, read);
        let (read, before) = tokio::join!(reading, other);
        let (number, permit) = read.unwrap();
        assert_eq!((before, number), (1, 2), "between two attempts");
        assert_eq!(permits.available_permits(), 0);
        drop(permit);
        assert_eq!(permits.available_permits(), 1);
    }
}
