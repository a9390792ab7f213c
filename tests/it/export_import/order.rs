//! What is older, newer or there already.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::{Carried, export, files, import, import_with};
use crate::support::almanac::{Almanac, catalog};

#[test]
fn a_catalog_that_goes_back_is_carried_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut carried = Carried::start(&folder);
    let data = folder.path().join("there");
    let mut last: Option<PathBuf> = None;
    let mut sizes = Vec::new();
    for (number, package) in ["etcd", "kafka", "etcd", "etcd"].into_iter().enumerate() {
        // What `b` is goes with the first, and is left out for good.
        let since = last.map(|last| format!("--since={}", last.display()));
        let more: Vec<&str> = match &since {
            None => Vec::new(),
            Some(since) => vec!["--catalog=a", since],
        };
        let archive = carried.export(&format!("{number}.tar"), package, &more);
        let finished = import(&archive, &data);
        assert!(finished.status.success(), "{number}: {finished:?}");
        sizes.push(fs::metadata(&archive).unwrap().len());
        last = Some(archive);
    }
    // Nothing is new in the last one; and what all of them left out is known.
    assert!(sizes[3] < sizes[2], "{sizes:?}");
    let since = format!("--since={}", last.unwrap().display());
    let archive = carried.export("both.tar", "etcd", &[&since]);
    assert!(fs::metadata(&archive).unwrap().len() < sizes[0]);
    assert!(import(&archive, &data).status.success());
    let mut there = Almanac::start_in(&data, &format!("offline = true\n{}", carried.config));
    assert_eq!(there.packages("a").unwrap(), ["etcd"]);
    assert_eq!(there.packages("b").unwrap(), ["vault"]);
}

/// How many dates as in 2026-01-02T03:04:05Z are in a text. The names of
/// folders in it may have any letter, so no single one of a date is looked for.
fn dates_in(text: &str) -> usize {
    let form = b"0000-00-00T00:00:00Z";
    let is_date = |window: &&[u8]| {
        window.iter().zip(form).all(|(byte, formed)| match formed {
            b'0' => byte.is_ascii_digit(),
            _ => byte == formed,
        })
    };
    text.as_bytes().windows(form.len()).filter(is_date).count()
}

#[test]
fn an_older_archive_is_taken_only_when_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let mut carried = Carried::start(&folder);
    let first = carried.export("first.tar", "etcd", &[]);
    // Dates have seconds.
    std::thread::sleep(Duration::from_millis(1100));
    let second = carried.export("second.tar", "kafka", &[]);
    let data = folder.path().join("there");
    assert!(import(&second, &data).status.success());
    let before = files(&data);
    let finished = import(&first, &data);
    assert_eq!(finished.status.code(), Some(3), "{finished:?}");
    for said in ["the catalog a", "newer here", "--older"] {
        assert!(finished.stderr.contains(said), "{finished:?}");
    }
    assert_eq!(dates_in(&finished.stderr), 2, "{finished:?}");
    assert!(files(&data).keys().eq(before.keys()));
    let finished = import_with(&first, &data, &["--older"]);
    assert!(finished.status.success(), "{finished:?}");
    let mut there = Almanac::start_in(&data, &format!("offline = true\n{}", carried.config));
    assert_eq!(there.packages("a").unwrap(), ["etcd"]);
}

#[test]
fn an_import_of_another_source_is_failing_offline_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut carried = Carried::start(&folder);
    let archive = carried.export("first.tar", "etcd", &[]);
    let data = folder.path().join("there");
    // Only `b` is where it was.
    let moved = carried.config.replace("/a\"", "/elsewhere\"");
    assert_ne!(moved, carried.config);
    let config = format!("offline = true\n{moved}{}", catalog("c", "file:/nowhere"));
    let file = folder.path().join("almanac.toml");
    fs::write(&file, &config).unwrap();
    let finished = import_with(&archive, &data, &[&format!("--config={}", file.display())]);
    assert!(finished.status.success(), "{finished:?}");
    assert!(
        finished.stderr.contains("almanac: a is of file:"),
        "{finished:?}"
    );
    assert!(
        finished.stderr.contains("the same source on both sides"),
        "{finished:?}"
    );
    assert!(!finished.stderr.contains("almanac: b"), "{finished:?}");
    let mut there = Almanac::start_in(&data, &config);
    for (name, reason) in [
        ("a", "the stored revision is of file:"),
        ("c", "no revision of the catalog is stored"),
    ] {
        let status = there.until(name, "a reason", |status| status["state"] != "loading");
        assert_eq!(status["state"], "failing", "{status}");
        let error = status["last_error"].as_str().unwrap();
        assert!(error.contains(reason), "{error}");
    }
    assert_eq!(there.status("b")["state"], "serving");
    assert_eq!(there.status("b")["last_error"], Value::Null);
    let log = there.program.log();
    let stored = log.matches("no revision of the catalog is stored").count();
    assert_eq!(stored, 1, "{log}");
}

#[test]
fn that_nothing_is_new_is_said_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let mut carried = Carried::start(&folder);
    let first = carried.export("first.tar", "etcd", &[]);
    let data = folder.path().join("there");
    assert!(import(&first, &data).status.success());
    let newest = ["a", "b"].map(|name| carried.almanac.status(name)["revision"]["id"].as_u64());
    let newest = newest.into_iter().flatten().max().unwrap();
    let archive = folder.path().join("second.tar");
    let by_file = format!("--since={}", first.display());
    for since in [by_file, format!("--since={newest}")] {
        let finished = export(&carried.almanac, &archive, &[&since]);
        assert!(finished.status.success(), "{finished:?}");
        assert!(finished.stderr.contains("nothing is new"), "{finished:?}");
        let finished = import(&archive, &data);
        assert!(finished.status.success(), "{finished:?}");
        assert!(finished.stderr.contains("nothing is new"), "{finished:?}");
    }
    // Nor is it when an archive between has left a catalog out.
    let first = format!("--since={}", first.display());
    assert!(
        export(&carried.almanac, &archive, &[&first, "--catalog=a"])
            .status
            .success()
    );
    let last = folder.path().join("third.tar");
    let since = format!("--since={}", archive.display());
    let finished = export(&carried.almanac, &last, &[&since]);
    assert!(finished.stderr.contains("nothing is new"), "{finished:?}");
    let since = format!("--since={}", newest + 1);
    let finished = export(&carried.almanac, &archive, &[&since]);
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    for said in ["there is no revision", "a at ", "b at "] {
        assert!(finished.stderr.contains(said), "{finished:?}");
    }
}

#[test]
fn a_number_that_was_taken_is_said_with_the_one_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut carried = Carried::start(&folder);
    let archive = carried.export("first.tar", "etcd", &["--catalog=a"]);
    let there = carried.almanac.status("a")["revision"]["id"].to_string();
    // Another catalog has both numbers on the other side.
    let own = tempfile::tempdir().unwrap();
    let config = carried.config.replace("name = \"a\"", "name = \"c\"");
    let mut almanac =
        Almanac::start_in(own.path(), &config.replace("name = \"b\"", "name = \"d\""));
    almanac.until_pullable("c");
    almanac.until_pullable("d");
    almanac.stop();
    let finished = import(&archive, own.path());
    assert!(finished.status.success(), "{finished:?}");
    let said = format!("imported a at revision 3, which was {there} there");
    assert!(finished.stderr.contains(&said), "{finished:?}");
}
