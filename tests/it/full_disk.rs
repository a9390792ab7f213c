//! A start on a disk that takes nothing: stored revisions are served, and what comes is
//! stored once the disk has room.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::almanac::{Almanac, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::faults::{Faults, Operation};
use crate::support::http::{Reply, get};
use crate::support::program::{PATIENCE, Start};
use crate::support::small_disk::SmallDisk;

/// The whole document of the status.
fn document(almanac: &mut Almanac) -> Value {
    let address = almanac.program.address("admin");
    serde_json::from_slice(&get(address, "/status").unwrap().body).unwrap()
}

fn source(folder: &Path) -> String {
    format!("file:{}", folder.display())
}

/// What clients get of the revision that was stored before.
fn answers(almanac: &mut Almanac) -> Vec<String> {
    let search = "/catalogs/a/api/v1/search?q=et";
    let replies = [almanac.all("a"), almanac.http(search)];
    assert!(replies.iter().all(|reply| reply.status == 200));
    replies.iter().map(Reply::text).collect()
}

/// Waits until other content of the folder is served, a package of this name.
fn until_it_goes_on(almanac: &mut Almanac, folder: &Path, name: &str) {
    // What could not be stored may come first.
    Catalog::one(name).write_to(folder, Format::Yaml);
    let begun = Instant::now();
    while !almanac.packages("a").unwrap().contains(&name.to_owned()) {
        assert!(begun.elapsed() < PATIENCE, "the content is not served");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(document(almanac).get("data_folder_error").is_none());
    assert_eq!(almanac.ready().text(), "ok\n");
}

#[test]
fn a_full_disk_keeps_no_start_from_serving() {
    for takes_files in [false, true] {
        let options = if takes_files {
            "size=24m,nr_inodes=100"
        } else {
            "size=24m"
        };
        let Some(disk) = SmallDisk::mounted(options) else {
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let catalog = folder.path().join("catalog");
        fs::create_dir(&catalog).unwrap();
        Catalog::small().write_to(&catalog, Format::Yaml);
        let config = following(&source(&catalog));
        let mut almanac = Almanac::start_in(&disk.path().join("data"), &config);
        almanac.until_whole("a");
        almanac.until_encoded(1);
        let before = answers(&mut almanac);
        almanac.stop();
        if takes_files {
            disk.take_files();
        } else {
            disk.fill();
        }

        almanac.restart_with(&format!("offline = true\n{config}"));
        almanac.program.wait_until_ready();
        assert_eq!(answers(&mut almanac), before, "offline: {options}");
        almanac.stop();

        almanac.restart_with(&config);
        almanac.program.wait_until_ready();
        assert_eq!(answers(&mut almanac), before, "{options}");
        let error = document(&mut almanac)["data_folder_error"].to_string();
        assert!(error.contains("No space left on device"), "{error}");
        let ready = almanac.ready().text();
        assert!(
            ready.starts_with("ok; the data folder cannot be written: "),
            "{ready}"
        );
        let log = almanac.program.log();
        assert!(log.contains("the data folder cannot be written"), "{log}");

        // Content that cannot be stored changes nothing.
        Catalog::one("third").write_to(&catalog, Format::Yaml);
        almanac.until_failed("a");
        assert_eq!(answers(&mut almanac), before, "{options}");

        disk.free();
        almanac.program.wait_for_log("room", |log| {
            log.contains("the data folder can be written again")
        });
        until_it_goes_on(&mut almanac, &catalog, "second");
        almanac.stop();
    }
}

#[test]
fn an_import_on_a_full_disk_names_the_disk() {
    let Some(disk) = SmallDisk::mounted("size=24m") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let catalog = folder.path().join("catalog");
    fs::create_dir(&catalog).unwrap();
    Catalog::small().write_to(&catalog, Format::Yaml);
    let data = disk.path().join("data");
    let mut almanac = Almanac::start_in(&data, &following(&source(&catalog)));
    almanac.until_whole("a");
    almanac.stop();
    let archive = folder.path().join("archive.tar");
    let run = |command: &str| {
        let start = Start::new([command, "--data-dir"]);
        let start = start.argument(data.display().to_string());
        let start = if command == "export" {
            start.argument("--file")
        } else {
            start
        };
        start.argument(archive.display().to_string()).run()
    };
    let exported = run("export");
    assert!(exported.status.success(), "{exported:?}");
    disk.fill();
    let imported = run("import");
    assert!(!imported.status.success(), "{imported:?}");
    let said = "No space left on device";
    assert!(imported.stderr.contains(said), "{imported:?}");
}

#[test]
fn a_disk_that_refuses_to_write_keeps_no_start_from_serving() {
    let Some(faults) = Faults::compiled() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let catalog = folder.path().join("catalog");
    fs::create_dir(&catalog).unwrap();
    Catalog::small().write_to(&catalog, Format::Yaml);
    let variables = faults.variables();
    let variables = variables.iter();
    let mut variables: Vec<(&str, &str)> = variables
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    variables.push(("ALMANAC_LOG", "info,almanac=debug"));
    let mut almanac = Almanac::start_with(&following(&source(&catalog)), &variables);
    almanac.until_whole("a");
    almanac.until_encoded(1);
    for (operation, name, has_error) in [
        (Operation::Write, "after-write", true),
        (Operation::Sync, "after-sync", false),
        (Operation::Rename, "after-rename", false),
        (Operation::Mkdir, "after-mkdir", true),
    ] {
        let before = answers(&mut almanac);
        almanac.stop();
        if operation == Operation::Mkdir {
            // Somebody makes room.
            fs::remove_dir_all(almanac.program.data().join("blobs")).unwrap();
        }
        let failed = faults.count();
        faults.set(operation, 100);
        almanac.program.restart();
        almanac.program.wait_until_ready();
        assert_eq!(answers(&mut almanac), before, "{operation:?}");
        let error = document(&mut almanac).get("data_folder_error").cloned();
        assert_eq!(error.is_some(), has_error, "{operation:?}: {error:?}");

        // Content that cannot be stored changes nothing.
        Catalog::one("never").write_to(&catalog, Format::Yaml);
        until_more_fail(&mut almanac, &faults, failed);
        if has_error {
            // It serves while it looks again and again whether it can be written.
            almanac.program.wait_for_log("three looks", |log| {
                log.matches("the data folder still cannot be written")
                    .count()
                    >= 3
            });
        }
        assert_eq!(answers(&mut almanac), before, "{operation:?}");
        faults.set(operation, 0);
        until_it_goes_on(&mut almanac, &catalog, name);
    }
}

/// Waits until more calls than these have failed.
fn until_more_fail(almanac: &mut Almanac, faults: &Faults, failed: u64) {
    let begun = Instant::now();
    while faults.count() <= failed {
        assert!(begun.elapsed() < PATIENCE, "no call fails");
        assert_eq!(almanac.program.ended(), None, "{}", almanac.program.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}
