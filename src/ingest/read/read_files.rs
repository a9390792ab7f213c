//! Files of a folder that did not change since an earlier pass read them. The file system
//! tells: as Git, a pass compares their inode, size and dates. What was made of such a
//! file is copied from the served revision, and the file is not read.
//!
//! A poll that finds no newer date reads all files, and so does the first pass after a
//! start.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime};

use crate::ingest::read::read_piece::ReadPiece;
use crate::snapshot::KnownPieces;
use crate::store::PieceKey;
use ::images::digest::Digest;

/// How much older than its reading a file's last change must be: within one step of a
/// file system's clock, a file may change twice without another date. Some count in
/// steps of two seconds.
const SETTLED: Duration = Duration::from_secs(3);
/// The most files that are kept in mind.
const MOST: usize = 20_000;

/// What the file system says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    device: u64,
    inode: u64,
    pub(crate) size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileState {
    pub(crate) fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// The state of a file of which this many bytes were read. One that grew meanwhile is
    /// read again.
    pub(crate) fn with_size(self, size: u64) -> Self {
        Self { size, ..self }
    }

    /// Whether a change after this time cannot have the dates that the file has.
    fn is_settled(&self, began: SystemTime) -> bool {
        let last = self.modified.0.max(self.changed.0);
        let since = began.duration_since(SystemTime::UNIX_EPOCH);
        let latest = since.ok().and_then(|since| since.checked_sub(SETTLED));
        latest.is_some_and(|latest| i64::try_from(latest.as_secs()).is_ok_and(|at| last < at))
    }
}

/// A file that was read.
#[derive(Clone, Debug)]
pub(crate) struct ReadFile {
    pub(crate) state: FileState,
    pub(crate) digest: Digest,
    /// The keys of its pieces; none where the next revision may not copy them.
    pub(crate) pieces: Option<Vec<PieceKey>>,
}

/// The files that the last pass over a folder has read, by path.
#[derive(Default)]
pub(crate) struct ReadFiles(HashMap<String, ReadFile>);

impl ReadFiles {
    /// Files that were read since `began`, as far as a change would be seen.
    pub(crate) fn new(
        files: impl IntoIterator<Item = (String, ReadFile)>,
        began: SystemTime,
    ) -> Self {
        let settled = files
            .into_iter()
            .filter(|(_, file)| file.pieces.is_some() && file.state.is_settled(began));
        Self(settled.take(MOST).collect())
    }

    /// What was made of a file, if it is as it was then, and all of that is `known`.
    pub(crate) fn find(
        &self,
        path: &str,
        state: FileState,
        known: &KnownPieces,
    ) -> Option<(&ReadFile, Vec<ReadPiece>)> {
        let file = self.0.get(path).filter(|file| file.state == state)?;
        let pieces = file.pieces.as_ref()?.iter();
        let made = pieces.map(|key| ReadPiece::from_known(*key, known));
        Some((file, made.collect::<Option<_>>()?))
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_has_just_changed_may_change_again_unseen() {
        let state = |seconds: i64| FileState {
            device: 1,
            inode: 2,
            size: 3,
            modified: (0, 0),
            changed: (seconds, 0),
        };
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        assert!(state(900).is_settled(began));
        assert!(state(996).is_settled(began));
        // Dates in the future mean nothing.
        for seconds in [997, 999, 1000, 5000] {
            assert!(!state(seconds).is_settled(began), "{seconds}");
        }
        assert!(!state(0).is_settled(SystemTime::UNIX_EPOCH));
    }
}
