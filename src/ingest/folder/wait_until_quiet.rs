//! Waiting for a writer: a folder is read once it stops changing.

use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::ingest::files_error::{FilesError, LastWrite};
use crate::ingest::folder::listing::{FolderRules, list, real};

/// How old the newest file must be before a folder is read.
const QUIET: Duration = Duration::from_millis(500);
/// The longest wait for that.
const LONGEST: Duration = Duration::from_secs(10);
/// The least time between two checks.
const STEP: Duration = Duration::from_millis(100);

/// The names, sizes and dates of the files in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FolderState {
    root: PathBuf,
    files: u64,
    last: Option<Box<LastWrite>>,
}

impl FolderState {
    /// The state of a folder or file now.
    pub(crate) fn at(root: &Path, rules: &FolderRules) -> Result<Self, FilesError> {
        let mut hasher = DefaultHasher::new();
        let mut last: Option<Box<LastWrite>> = None;
        for (path, location) in list(root, rules)? {
            path.hash(&mut hasher);
            location.path().hash(&mut hasher);
            // A file that is gone by now changes the next state.
            let Ok(metadata) = location.metadata() else {
                continue;
            };
            let (modified, changed) = (metadata.mtime_nsec(), metadata.ctime_nsec());
            (metadata.len(), metadata.mtime(), modified, metadata.ino()).hash(&mut hasher);
            (metadata.ctime(), changed).hash(&mut hasher);
            if let Some(time) = last_change(&metadata)
                && last.as_ref().is_none_or(|last| last.time < time)
            {
                last = Some(Box::new(LastWrite {
                    time,
                    path: location.path(),
                    owner: metadata.uid(),
                }));
            }
        }
        Ok(Self {
            root: real(root),
            files: hasher.finish(),
            last,
        })
    }

    /// How long it has to stay as it is, if it has just changed.
    fn is_fresh_for(&self) -> Option<Duration> {
        // Dates in the future mean nothing.
        let last = self.last.as_ref();
        let age = last.and_then(|last| last.time.elapsed().ok());
        QUIET.checked_sub(age?).filter(|left| !left.is_zero())
    }

    /// The error for a folder that keeps changing, unless it is read anyway:
    /// then this warns.
    pub(crate) fn refused(self, root: &Path, rules: &FolderRules) -> Result<(), FilesError> {
        let error = FilesError::Changing {
            path: root.to_owned(),
            last: self.last,
        };
        if rules.options.read_changing {
            tracing::warn!(%error, "the catalog may mix two versions of the folder");
            return Ok(());
        }
        Err(error)
    }
}

/// Waits until nobody has written to a folder for a while, and refuses one that
/// somebody writes to all the time. Returns when a file was last written to.
pub(crate) fn wait_until_quiet(
    root: &Path,
    rules: &FolderRules,
) -> Result<Option<SystemTime>, FilesError> {
    wait_at_most(LONGEST, root, rules)
}

fn wait_at_most(
    longest: Duration,
    root: &Path,
    rules: &FolderRules,
) -> Result<Option<SystemTime>, FilesError> {
    let begin = Instant::now();
    loop {
        let state = FolderState::at(root, rules)?;
        let last = state.last.as_ref().map(|last| last.time);
        let Some(left) = state.is_fresh_for() else {
            return Ok(last);
        };
        if begin.elapsed() >= longest {
            return state.refused(root, rules).map(|()| last);
        }
        // Whoever writes goes on: looking earlier would only cost time.
        thread::sleep(left.max(STEP));
    }
}

/// When a file was last written to or put in place. Copies with the dates of their
/// originals (`tar -x`, `rsync -a`) have only a new change date. Dates in the future
/// mean nothing.
fn last_change(metadata: &Metadata) -> Option<SystemTime> {
    let seconds = u64::try_from(metadata.ctime()).ok();
    let nanoseconds = u32::try_from(metadata.ctime_nsec()).ok();
    let changed = seconds.zip(nanoseconds);
    let changed = changed.map(|(whole, part)| SystemTime::UNIX_EPOCH + Duration::new(whole, part));
    let now = SystemTime::now();
    let dates = [metadata.modified().ok(), changed];
    dates
        .into_iter()
        .flatten()
        .filter(|date| *date <= now)
        .max()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folder_that_is_written_to_is_waited_for() {
        for _ in 0..3 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().to_owned();
            let mut last = Instant::now();
            fs::write(path.join("a"), "").unwrap();
            // Gives the longest time between two writes.
            let writer = thread::spawn(move || {
                let mut longest = Duration::ZERO;
                let mut write = |name: &str, length: usize| {
                    let begin = Instant::now();
                    fs::write(path.join(name), "x".repeat(length)).unwrap();
                    longest = longest.max(last.elapsed());
                    last = begin;
                };
                for number in 0..5 {
                    write("a", number);
                    thread::sleep(QUIET / 4);
                }
                write("b", 0);
                longest
            });
            wait_until_quiet(folder.path(), &FolderRules::default()).unwrap();
            let waited = folder.path().join("b").exists();
            let longest = writer.join().unwrap();
            if waited {
                return;
            }
            // A writer that a busy machine holds up looks as if it were done.
            assert!(longest + STEP >= QUIET, "writes were {longest:?} apart");
        }
        panic!("the writer was held up each time");
    }

    #[test]
    fn a_folder_that_is_written_to_all_the_time_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        let done = std::sync::atomic::AtomicBool::new(false);
        let waited = thread::scope(|scope| {
            fs::write(&file, "").unwrap();
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    fs::write(&file, "x").unwrap();
                }
            });
            let mut rules = FolderRules::default();
            let refused = wait_at_most(QUIET, folder.path(), &rules);
            rules.options.read_changing = true;
            let taken = wait_at_most(QUIET, folder.path(), &rules);
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            (refused, taken)
        });
        let (refused, taken) = waited;
        let error = refused.unwrap_err();
        assert_eq!(error.reason(), "changing");
        // The user who runs the tests has written it.
        let owner = fs::metadata(&file).unwrap().uid();
        let last = format!("/a, of user {owner})");
        assert!(error.to_string().contains(&last), "{error}");
        assert!(taken.is_ok());
    }

    #[test]
    fn a_file_that_arrives_with_an_old_date_counts_as_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = fs::File::create(folder.path().join("a")).unwrap();
        let rules = FolderRules::default();
        // A busy machine may take longer than the wait for one step.
        let fresh = (0..20).any(|_| {
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
            let state = FolderState::at(folder.path(), &rules).unwrap();
            state.is_fresh_for().is_some()
        });
        assert!(fresh);
    }

    #[test]
    fn a_mounted_config_map_is_read_where_its_links_lead() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("..v1")).unwrap();
        fs::write(root.join("..v1/catalog.yaml"), "1").unwrap();
        symlink("..v1", root.join("..data")).unwrap();
        symlink("..data/catalog.yaml", root.join("catalog.yaml")).unwrap();
        assert_eq!(real(&root), root.join("..v1"));
        let rules = FolderRules::default();
        let before = FolderState::at(&root, &rules).unwrap();
        assert_eq!(before, FolderState::at(&root, &rules).unwrap());
        fs::create_dir(root.join("..v2")).unwrap();
        fs::write(root.join("..v2/catalog.yaml"), "2").unwrap();
        symlink("..v2", root.join("next")).unwrap();
        fs::rename(root.join("next"), root.join("..data")).unwrap();
        assert_ne!(before, FolderState::at(&root, &rules).unwrap());
    }
}
