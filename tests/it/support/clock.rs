//! A clock that jumps: a library of Debian's package faketime that the program is started
//! with. Its timers go on.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::file;
use super::needs::skip_without;

/// The clock of a program.
pub(crate) struct Clock {
    folder: TempDir,
    library: String,
    /// The names of the memory that processes with the library share.
    shared: String,
    /// Removes that memory at its end. The library leaves it behind when its process is
    /// killed.
    keeper: Child,
}

impl Clock {
    /// A clock that is right; `None` without the library, and then the test is skipped.
    #[track_caller]
    pub(crate) fn right() -> Option<Self> {
        if skip_without("faketime") {
            return None;
        }
        let script = "echo \"$LD_PRELOAD\"; echo \"$FAKETIME_SHARED\"; exec cat";
        let mut keeper = Command::new("faketime")
            .args(["-m", "-f", "+0", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(keeper.stdout.take().unwrap()).lines();
        let mut line = || lines.next().unwrap().unwrap();
        let clock = Self {
            folder: tempfile::tempdir().unwrap(),
            library: line(),
            shared: line(),
            keeper,
        };
        clock.set("+0");
        Some(clock)
    }

    /// Sets it within seconds: to `-10y`, the program is ten years behind.
    pub(crate) fn set(&self, offset: &str) {
        file::replace(self.folder.path().join("offset"), offset);
    }

    /// The environment of the program.
    pub(crate) fn variables(&self) -> [(&'static str, String); 6] {
        let file = self.folder.path().join("offset").display().to_string();
        [
            ("LD_PRELOAD", self.library.clone()),
            ("FAKETIME_SHARED", self.shared.clone()),
            ("FAKETIME_TIMESTAMP_FILE", file),
            ("FAKETIME_CACHE_DURATION", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            // Dates of files.
            ("NO_FAKE_STAT", "1".into()),
        ]
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
