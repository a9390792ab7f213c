//! Reads of stored files that fail: no damage, so nothing is withdrawn for one of them, and
//! the same files are served again as soon as they can be read.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::almanac::{Almanac, catalog};
use crate::support::catalog::{Catalog, Format};
use crate::support::faults::{Faults, Operation};

/// A catalog whose stored files are compared all the time. Faults are below a folder.
fn started(faults: &Faults, below: &str, source: &Path) -> Almanac {
    let source = format!("file:{}", source.display());
    let scrub = "\n[scrub]\ninterval = \"100ms\"\n";
    let config = format!("poll = \"never\"\n{}{scrub}", catalog("a", &source));
    let variables = faults.variables_below(below);
    let variables = variables
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let mut almanac = Almanac::start_with(&config, &variables);
    almanac.until_whole("a");
    almanac.until_encoded(1);
    almanac
}

#[test]
fn a_read_that_fails_now_and_then_withdraws_nothing() {
    let Some(faults) = Faults::compiled() else {
        return;
    };
    let source = tempfile::tempdir().unwrap();
    Catalog::small().write_to(source.path(), Format::Yaml);
    let mut almanac = started(&faults, "{data}", source.path());
    let before = almanac.all("a").text();
    let begun = Instant::now();
    faults.set(Operation::Read, 3);
    while faults.count() < 20 {
        let status = almanac.status("a");
        assert_eq!(status["state"], "serving", "{status:#}");
        assert_eq!(status["damage"], Value::Null);
        assert_eq!(almanac.all("a").text(), before);
        assert!(begun.elapsed() < Duration::from_mins(1), "no read fails");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn files_that_could_not_be_read_for_a_while_are_served_again() {
    let Some(faults) = Faults::compiled() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("catalog");
    fs::create_dir(&source).unwrap();
    Catalog::small().write_to(&source, Format::Yaml);
    // The database can be read.
    let mut almanac = started(&faults, "{data}/revisions", &source);
    let before = almanac.all("a").text();
    let revision = almanac.status("a")["revision"]["id"].clone();
    // Nothing else can bring the catalog back.
    fs::remove_dir_all(&source).unwrap();
    faults.set(Operation::Read, 100);
    almanac.until("a", "the withdrawal", |status| status["state"] == "damaged");
    assert_eq!(almanac.all("a").status, 503);
    faults.set(Operation::Read, 0);
    let begun = Instant::now();
    let status = almanac.until("a", "the catalog", |status| status["state"] == "serving");
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(status["revision"]["id"], revision);
    assert_eq!(status["damage"]["repair"], "done");
    assert_eq!(almanac.all("a").text(), before);
    let log = almanac.program.log();
    assert!(log.contains("its files are whole"), "{log}");

    // Nor does the next start keep it back.
    almanac.stop();
    almanac.program.restart();
    almanac.program.wait_until_ready();
    assert_eq!(almanac.all("a").text(), before);
}

/// SQLite calls a read error damage.
#[test]
fn a_database_that_cannot_be_read_is_not_moved_aside() {
    let Some(faults) = Faults::compiled() else {
        return;
    };
    let source = tempfile::tempdir().unwrap();
    Catalog::small().write_to(source.path(), Format::Yaml);
    let mut almanac = started(&faults, "{data}", source.path());
    let before = almanac.status("a")["revision"].clone();
    almanac.stop();
    faults.set(Operation::Read, 100);
    almanac.program.restart();
    let status = almanac.program.wait(Duration::from_secs(30));
    assert_eq!(status.code(), Some(1), "{}", almanac.program.log());
    assert!(!almanac.program.data().join("almanac.db.damaged").exists());
    faults.set(Operation::Read, 0);
    almanac.program.restart();
    almanac.program.wait_until_ready();
    let after = almanac.until_whole("a")["revision"].clone();
    assert_eq!(after, before);
}
