//! Errors of a disk: a library of the tests that the program is started with. It is
//! compiled here, and makes calls of the C library fail.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::needs::skip_without;

/// The place of the error's number, and of the count of failed calls.
const ERROR: u64 = 7;
const COUNT: u64 = 8;
/// The number of an input or output error.
const EIO: u8 = 5;
/// The size of the control file.
const CONTROL: usize = 16;

/// Calls that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read = 0,
    Write = 1,
    Sync = 2,
    Rename = 3,
    Mkdir = 4,
}

/// Compiles a library that a program can be started with. Returns its path.
pub(crate) fn compile(folder: &Path, name: &str, code: &str) -> String {
    let source = folder.join(format!("{name}.c"));
    let library = folder.join(format!("{name}.so"));
    fs::write(&source, code).unwrap();
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .status()
        .unwrap();
    assert!(compiled.success());
    library.display().to_string()
}

/// Faults of the disk below the data folder of a program.
pub(crate) struct Faults {
    folder: TempDir,
    control: File,
}

impl Faults {
    /// Compiles the library; `None` without a compiler, and then the test is skipped.
    #[track_caller]
    pub(crate) fn compiled() -> Option<Self> {
        if skip_without("cc") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        compile(folder.path(), "faults", include_str!("faults.c"));
        fs::write(folder.path().join("control"), [0; CONTROL]).unwrap();
        let control = folder.path().join("control");
        let control = File::options().read(true).write(true).open(control);
        let control = control.unwrap();
        control.write_all_at(&[EIO], ERROR).unwrap();
        Some(Self { folder, control })
    }

    /// The environment of the program, for faults of all its data.
    pub(crate) fn variables(&self) -> [(&'static str, String); 3] {
        self.variables_below("{data}")
    }

    /// The same for faults below one folder.
    pub(crate) fn variables_below(&self, folder: &str) -> [(&'static str, String); 3] {
        let in_folder = |name: &str| self.folder.path().join(name).display().to_string();
        [
            ("LD_PRELOAD", in_folder("faults.so")),
            ("FAULTS_CONTROL", in_folder("control")),
            ("FAULTS_BELOW", folder.to_owned()),
        ]
    }

    /// So many of 100 calls fail from now on.
    pub(crate) fn set(&self, operation: Operation, percent: u8) {
        self.control
            .write_all_at(&[percent], operation as u64)
            .unwrap();
    }

    /// How many calls have failed so far.
    pub(crate) fn count(&self) -> u64 {
        let mut count = [0; 8];
        self.control.read_exact_at(&mut count, COUNT).unwrap();
        u64::from_ne_bytes(count)
    }
}
