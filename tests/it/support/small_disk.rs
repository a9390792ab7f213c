//! A small file system in memory, which can be full.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::needs;

/// A file system of its own.
pub(crate) struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// Mounts one with these options; `None` where that is not allowed, and then the test
    /// is skipped.
    #[track_caller]
    pub(crate) fn mounted(options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(folder.path())
            .stderr(Stdio::null())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self { folder });
        }
        needs::skip("a file system in memory cannot be mounted here");
        None
    }

    /// Its folder.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Takes all room.
    pub(crate) fn fill(&self) {
        let mut filler = File::create(self.path().join("filler")).unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
    }

    /// Takes all files.
    pub(crate) fn take_files(&self) {
        let folder = self.path().join("fillers");
        fs::create_dir(&folder).unwrap();
        let mut full = (0..).map(|number: u32| File::create(folder.join(number.to_string())));
        let error = full.find_map(Result::err).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    /// Gives back what was taken.
    pub(crate) fn free(&self) {
        let _ = fs::remove_file(self.path().join("filler"));
        let _ = fs::remove_dir_all(self.path().join("fillers"));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A program that still ends may have files of it open.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
