//! Folders that somebody may be writing to: which folder it really is, and
//! whether it stays the same for a moment.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use std::{fs, thread};

use crate::ingest::files::{FilesError, list};
use ::images::layers::Limits;

/// Where Kubernetes has the current version of a mounted `ConfigMap` or Secret.
const DATA: &str = "..data";
/// How long the newest file must be left alone before a folder is read.
const QUIET: Duration = Duration::from_millis(500);
/// How long that is waited for at most: who writes all the time is read anyway.
const LONGEST: Duration = Duration::from_secs(10);
/// The time between two looks.
const STEP: Duration = Duration::from_millis(100);

/// The folder that is meant, without links: what they lead to may be swapped
/// while it is read, and then all of it must be of one version.
pub(super) fn real(root: &Path) -> PathBuf {
    let data = root.join(DATA);
    let root = if data.is_dir() { &data } else { root };
    fs::canonicalize(root).unwrap_or_else(|_| root.to_owned())
}

/// What a folder looks like from outside: names, sizes and dates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Look {
    root: PathBuf,
    files: u64,
    newest: Option<SystemTime>,
}

impl Look {
    /// Looks at a folder or file.
    pub(super) fn at(root: &Path, limits: &Limits) -> Result<Self, FilesError> {
        let root = real(root);
        let mut hasher = DefaultHasher::new();
        let mut newest = None;
        for (path, location) in list(&root, limits)? {
            path.hash(&mut hasher);
            // One that is gone by now is a change, which the next look tells.
            let Ok(metadata) = fs::metadata(&location) else {
                continue;
            };
            let (time, inode) = (metadata.mtime_nsec(), metadata.ino());
            (metadata.len(), metadata.mtime(), time, inode).hash(&mut hasher);
            newest = newest.max(metadata.modified().ok());
        }
        Ok(Self {
            root,
            files: hasher.finish(),
            newest,
        })
    }

    fn is_fresh(&self) -> bool {
        // Dates in the future say nothing.
        let age = self.newest.and_then(|newest| newest.elapsed().ok());
        age.is_some_and(|age| age < QUIET)
    }
}

/// Waits until nobody seems to write to a folder any more.
pub(super) fn settle(root: &Path, limits: &Limits) -> Result<(), FilesError> {
    let begin = Instant::now();
    let mut look = Look::at(root, limits)?;
    while look.is_fresh() && begin.elapsed() < LONGEST {
        thread::sleep(STEP);
        look = Look::at(root, limits)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
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
            settle(folder.path(), &Limits::default()).unwrap();
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
    fn a_mounted_config_map_is_read_where_its_links_lead() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("..v1")).unwrap();
        fs::write(root.join("..v1/catalog.yaml"), "1").unwrap();
        symlink("..v1", root.join("..data")).unwrap();
        symlink("..data/catalog.yaml", root.join("catalog.yaml")).unwrap();
        assert_eq!(real(&root), root.join("..v1"));
        let limits = Limits::default();
        let before = Look::at(&root, &limits).unwrap();
        assert_eq!(before, Look::at(&root, &limits).unwrap());
        fs::create_dir(root.join("..v2")).unwrap();
        fs::write(root.join("..v2/catalog.yaml"), "2").unwrap();
        symlink("..v2", root.join("next")).unwrap();
        fs::rename(root.join("next"), root.join("..data")).unwrap();
        assert_ne!(before, Look::at(&root, &limits).unwrap());
    }
}
