//! Removes blobs that no revision and no pass needs.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::time::{Duration, SystemTime};

use crate::store::content::contents::Contents;
use crate::store::file_io::DiskError;
use ::images::digest::Digest;

/// Bounds for spare blobs: those that failed passes fetched, and that the next
/// pass may need again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// The longest time since a pass last asked for one.
    pub max_age: Duration,
    /// Their total size in bytes. The most recently used ones stay.
    pub max_bytes: u64,
}

impl CacheLimits {
    /// Keeps nothing.
    pub const NOTHING: Self = Self {
        max_age: Duration::ZERO,
        max_bytes: 0,
    };
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self {
            max_age: Duration::from_hours(24),
            max_bytes: 1 << 30,
        }
    }
}

impl Contents {
    /// Removes blobs beyond the limits, except those that are needed or pinned.
    /// Returns how many bytes of spare blobs are left.
    pub(crate) fn remove_spare(
        &self,
        needed: &HashSet<Digest>,
        limits: CacheLimits,
    ) -> Result<u64, DiskError> {
        let now = SystemTime::now();
        let mut spare = Vec::new();
        for (path, digest) in self.files()? {
            if let Some(digest) = digest
                && !needed.contains(&digest)
                && let Ok(metadata) = path.metadata()
            {
                let used = metadata.modified().ok();
                // A time in the future means that the clock was set back: the
                // blob counts as just used.
                let age = used.and_then(|used| now.duration_since(used).ok());
                spare.push((age.unwrap_or(Duration::ZERO), digest, metadata.len()));
            }
        }
        spare.sort();
        let mut kept = 0_u64;
        for (age, digest, size) in spare {
            let total = kept.saturating_add(size);
            if age < limits.max_age && total <= limits.max_bytes {
                kept = total;
            } else {
                self.remove_unpinned(&digest)?;
            }
        }
        Ok(kept)
    }

    /// Removes a blob unless it is pinned.
    pub(crate) fn remove_unpinned(&self, digest: &Digest) -> Result<(), DiskError> {
        let path = self.path_of(digest);
        // Held until the file is gone, so that no pass pins it in between.
        let pins = self.pins.lock();
        if pins.contains_key(digest) {
            return Ok(());
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(DiskError::at("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn put(contents: &Contents, content: &str, age: u64) -> Digest {
        let digest = Digest::of(content.as_bytes());
        let path = contents.path_of(&digest);
        fs::write(&path, content).unwrap();
        let time = SystemTime::now() - Duration::from_secs(age);
        let file = File::options().append(true).open(path).unwrap();
        file.set_modified(time).unwrap();
        digest
    }

    #[test]
    fn spare_blobs_go_when_they_are_old_or_too_many() {
        let root = tempfile::tempdir().unwrap();
        let contents = Contents::at(root.path().to_owned());
        let old = put(&contents, "old", 2000);
        let first = put(&contents, "11111", 300);
        let second = put(&contents, "22222", 200);
        let large = put(&contents, "much too large", 100);
        let third = put(&contents, "33333", 50);
        let named = put(&contents, "what a revision needs, however large", 9000);
        let pinned = put(&contents, "what a pass needs, however large", 9000);
        let _pin = contents.pin(pinned);
        let limits = CacheLimits {
            max_age: Duration::from_secs(1000),
            max_bytes: 10,
        };
        let kept = contents
            .remove_spare(&HashSet::from([named]), limits)
            .unwrap();
        assert_eq!(kept, 10);
        for (digest, kept) in [
            (old, false),
            (first, false),
            (second, true),
            (large, false),
            (third, true),
            (named, true),
            (pinned, true),
        ] {
            assert_eq!(contents.path_of(&digest).is_file(), kept, "{digest}");
        }
    }
}
