//! Records of skipped tests. The test target `skipped` shows them at the end of a
//! run.
//!
//! A run is everything that one process has started, usually cargo. Its records
//! are lines in a file named after that process: the test, a tab, the reason.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The folder of all records, in a place that the test targets of a build share.
const FOLDER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/skipped");

/// A test that was skipped in a run, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Skipped {
    pub(crate) reason: String,
    pub(crate) test: String,
}

/// Adds a record to a run.
pub(crate) fn add(run: u32, test: &str, reason: &str) -> io::Result<()> {
    fs::create_dir_all(FOLDER)?;
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(file_of(run))?;
    // One write, so that lines of several tests do not mix.
    file.write_all(format!("{test}\t{reason}\n").as_bytes())
}

/// Takes the records of a run, sorted, each once. Those of runs that ended without
/// it are removed.
pub(crate) fn take(run: u32) -> io::Result<Vec<Skipped>> {
    let text = match fs::read_to_string(file_of(run)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        text => text?,
    };
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    let mut skipped: Vec<Skipped> = lines
        .map(|(test, reason)| Skipped {
            reason: reason.into(),
            test: test.into(),
        })
        .collect();
    skipped.sort();
    skipped.dedup();
    let Ok(entries) = fs::read_dir(FOLDER) else {
        return Ok(skipped);
    };
    for entry in entries {
        let entry = entry?;
        let process = Path::new("/proc").join(entry.file_name());
        if entry.path() == file_of(run) || !process.exists() {
            // Another run may have been quicker.
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(skipped)
}

/// The report at the end of a run, by reason.
pub(crate) fn report(skipped: &[Skipped]) -> String {
    let mut text = match skipped.len() {
        0 => return "No test was skipped.\n".into(),
        1 => "1 test was skipped:\n".to_owned(),
        count => format!("{count} tests were skipped:\n"),
    };
    for group in skipped.chunk_by(|one, next| one.reason == next.reason) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {}", group[0].reason);
        for Skipped { test, .. } in group {
            let _ = writeln!(text, "    {test}");
        }
    }
    text
}

fn file_of(run: u32) -> PathBuf {
    Path::new(FOLDER).join(run.to_string())
}
